"""Settings: the file gives way to the environment, that to a flag; what is wrong is named with the remedy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AliasChoices, Field, SecretStr

from convoy.core.api.errors import InvalidSetting
from convoy.core.process.settings import Settings


class FerrySettings(Settings):
    """A process of the tests'."""

    TABLE: ClassVar[str] = "ferry"

    knots: int = Field(default=5, ge=1, description="Speed.")
    ports: list[str] = Field(default_factory=list, description="Where it calls.")
    flag: str = Field(default="none", validation_alias=AliasChoices("FERRY_FLAG"), description="Whose it is.")
    deck: int = Field(default=1, validation_alias=AliasChoices("FERRY_DECK"), description="How many.")


@pytest.fixture
def file(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = home / "convoy.toml"
    path.touch()
    monkeypatch.setenv("CONVOY_CONFIG", str(path))
    return path


def test_the_file_gives_way_to_the_environment_and_that_to_a_flag(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert FerrySettings.load().knots == 5
    file.write_text("[ferry]\nknots = 6\n[other]\nknots = 9\n")
    assert FerrySettings.load().knots == 6
    monkeypatch.setenv("CONVOY_KNOTS", "7")
    assert FerrySettings.load().knots == 7
    assert FerrySettings.load(knots=8).knots == 8
    assert FerrySettings.load(knots=None).knots == 7


def test_the_users_own_file_is_found(home: Path) -> None:
    folder = home / "config" / "convoy"
    folder.mkdir(parents=True)
    (folder / "convoy.toml").write_text("[ferry]\nknots = 11\n")
    assert FerrySettings.load().knots == 11


def test_a_second_variable_counts_like_the_first_and_the_bare_name_never(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLAG", "a shell's own")
    assert FerrySettings.load().flag == "none"
    file.write_text("[ferry]\nflag = 'file'\n")
    assert FerrySettings.load().flag == "file"
    monkeypatch.setenv("CONVOY_FLAG", "own")
    assert FerrySettings.load().flag == "own"
    monkeypatch.setenv("FERRY_FLAG", "pod")
    assert FerrySettings.load().flag == "pod"
    assert FerrySettings.load(flag="given").flag == "given"
    monkeypatch.setenv("FERRY_DECK", "upper")
    with pytest.raises(InvalidSetting, match=r"deck: .*'upper'; set CONVOY_DECK or .*deck in"):
        FerrySettings.load()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[ferry]\nnots = 6\n", "[ferry] has no setting named 'nots'; expected one of deck, flag, knots, ports"),
        (
            "[ferry]\nknots = 0\n",
            "or equal to 1, not 0; set CONVOY_KNOTS or [ferry] knots",
        ),
        ("ferry = 3\n", "ferry is 3, expected a table: [ferry]"),
        ("[ferry\n", "correct it, or name another file with CONVOY_CONFIG"),
        (b"\xff\xfe", "correct it, or name another file with CONVOY_CONFIG"),
    ],
)
def test_a_wrong_file_is_refused(file: Path, text: str | bytes, says: str) -> None:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InvalidSetting) as caught:
        FerrySettings.load()
    assert says in str(caught.value)
    assert str(file) in str(caught.value)
    assert caught.value.exit_status == 2


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [("CONVOY_KNOTS", "fast", "knots: "), ("CONVOY_KNOTS", "", "knots: "), ("CONVOY_PORTS", "one,two", "ports")],
)
def test_a_wrong_variable_is_refused(name: str, value: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidSetting, match=says) as caught:
        FerrySettings.load()
    assert "CONVOY_" in str(caught.value)


def test_a_named_file_that_is_none_is_refused(file: Path) -> None:
    file.unlink()
    with pytest.raises(InvalidSetting, match=r"CONVOY_CONFIG: .*convoy\.toml is no file"):
        FerrySettings.load()
    file.mkdir()
    with pytest.raises(InvalidSetting, match=r"CONVOY_CONFIG: .*convoy\.toml is no file"):
        FerrySettings.load()


@given(st.binary(max_size=60))
def test_any_file_is_read_or_refused(content: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        path = Path(os.environ["HOME"]) / "any.toml"
        path.write_bytes(b"[ferry]\n" + content)
        patch.setenv("CONVOY_CONFIG", str(path))
        try:
            knots = FerrySettings.load().knots
        except InvalidSetting as refused:
            message = str(refused)
        else:
            message = f"any.toml: {knots}"
    assert "any.toml" in message


class SecretSettings(Settings):
    """One with a secret."""

    TABLE: ClassVar[str] = "ferry"

    ferry_token: SecretStr = Field(default=SecretStr(""), description="What passengers show.")


def test_a_secret_that_is_wrong_is_not_shown(file: Path) -> None:
    file.write_text("[ferry]\nferry_token = 12345\n")
    with pytest.raises(InvalidSetting, match="ferry_token: ") as caught:
        SecretSettings.load()
    assert "12345" not in str(caught.value)
