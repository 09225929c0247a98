"""Where things lie, and a refusal where they can't."""

from __future__ import annotations

from pathlib import Path

import pytest

from convoy.core.api.errors import Unusable
from convoy.core.process import paths


def test_the_variable_prevails_over_xdg_and_that_over_the_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert paths.state_dir() == home / "s"
    monkeypatch.delenv("CONVOY_STATE_DIR")
    assert paths.state_dir() == home / "state" / "convoy"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert paths.state_dir() == home / ".local/state/convoy"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert paths.config_file() == home / ".config/convoy/convoy.toml"


def test_a_state_directory_is_made_private(home: Path) -> None:
    made = paths.ensure_writable(home / "new" / "state")
    assert made.is_dir()
    assert made.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("where", ["file/state", "file"])
def test_one_that_cannot_be_written_is_named_with_the_remedy(home: Path, where: str) -> None:
    (home / "file").touch()
    with pytest.raises(Unusable, match="name a writable one with CONVOY_STATE_DIR or --state-dir") as caught:
        paths.ensure_writable(home / where)
    assert str(home / where) in str(caught.value)
    assert caught.value.exit_status == 2


def test_the_kernels_own_folders_are_refused() -> None:
    with pytest.raises(Unusable):
        paths.ensure_writable(Path("/proc/convoy"))
