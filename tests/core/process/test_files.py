"""State on disk: whole after a kill at any moment, refused when it can't be understood, migrated when it is older."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.core.api.errors import CorruptState, UnknownSchema, Unusable
from convoy.core.process.files import load_state, save_state, write_atomically

WRITER = """
import sys
from pathlib import Path
from convoy.core.process.files import save_state
save_state(Path(sys.argv[1]), "ledger", 1, {"step": int(sys.argv[2])})
"""


ENDLESS = """
import sys
from pathlib import Path
from convoy.core.process.files import save_state
print("on", flush=True)
for step in range(10**6):
    save_state(Path(sys.argv[1]), "ledger", 1, {"step": step, "pad": "x" * 99_999})
"""


def write_in_a_process(path: Path, step: int, crash_at: str | None = None) -> int:
    env = os.environ | ({"CONVOY_CRASH_AT": crash_at} if crash_at else {})
    return subprocess.run([sys.executable, "-c", WRITER, str(path), str(step)], env=env, timeout=30).returncode


def step(path: Path) -> int:
    state = load_state(path, "ledger", 1, {})
    assert state is not None
    return int(state["step"])


@pytest.mark.parametrize(("point", "kept"), [("files.before-rename", 1), ("files.after-rename", 2)])
def test_a_kill_leaves_the_old_or_the_new_file_whole(home: Path, point: str, kept: int) -> None:
    path = home / "state.json"
    assert write_in_a_process(path, 1) == 0
    assert write_in_a_process(path, 2, crash_at=point) == -signal.SIGKILL
    assert step(path) == kept
    assert write_in_a_process(path, 3) == 0
    assert step(path) == 3


@pytest.mark.parametrize(
    "use", [lambda path: save_state(path, "ledger", 1, {"step": 2}), step], ids=["write", "load"]
)
def test_what_a_killed_writer_left_is_removed_by_the_next_one(home: Path, use: Callable[[Path], object]) -> None:
    path = home / "state.json"
    save_state(path, "ledger", 1, {"step": 1})
    assert write_in_a_process(path, 2, crash_at="files.before-rename") == -signal.SIGKILL
    [left] = home.glob(".state.json.*.tmp")
    being_written, of_another = home / ".state.json.0123abcd.tmp", home / ".other.state.json.0123abcd.tmp"
    being_written.touch()
    of_another.touch()
    for old in (left, of_another):
        os.utime(old, (0, 0))
    use(path)
    assert not left.exists()
    assert being_written.exists()
    assert of_another.exists()


def test_a_crash_point_counts_its_passages(home: Path) -> None:
    path = home / "state.json"
    twice = WRITER + 'save_state(Path(sys.argv[1]), "ledger", 1, {"step": 9})\n'
    env = os.environ | {"CONVOY_CRASH_AT": "files.before-rename:2"}
    ran = subprocess.run([sys.executable, "-c", twice, str(path), "8"], env=env, timeout=30)
    assert ran.returncode == -signal.SIGKILL
    assert step(path) == 8


def test_kills_at_random_moments_leave_a_whole_file(home: Path) -> None:
    path = home / "state.json"
    save_state(path, "ledger", 1, {"step": 0})
    for pause in (0.0, 0.003, 0.02):
        writer = subprocess.Popen([sys.executable, "-c", ENDLESS, str(path)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        with writer.stdout as output:
            output.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(pause)
        writer.kill()
        writer.wait()
        assert step(path) >= 0


def test_no_file_is_no_state(home: Path) -> None:
    assert load_state(home / "state.json", "ledger", 1, {}) is None


def test_older_state_is_migrated_step_by_step(home: Path) -> None:
    path = home / "state.json"
    save_state(path, "ledger", 1, {"step": 4})

    def to_2(state: dict[str, Any]) -> dict[str, Any]:
        return {"steps": state["step"]}

    def to_3(state: dict[str, Any]) -> dict[str, Any]:
        return state | {"epoch": 0}

    assert load_state(path, "ledger", 3, {1: to_2, 2: to_3}) == {"steps": 4, "epoch": 0}
    with pytest.raises(CorruptState, match="no migration of ledger from schema 2"):
        load_state(path, "ledger", 3, {1: to_2})
    with pytest.raises(CorruptState, match="can't be migrated"):
        load_state(path, "ledger", 2, {1: lambda state: {"steps": state["missing"]}})


def test_newer_state_is_refused(home: Path) -> None:
    path = home / "state.json"
    save_state(path, "ledger", 2, {})
    with pytest.raises(UnknownSchema, match="schema 2 of ledger is newer than 1; upgrade"):
        load_state(path, "ledger", 1, {})


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"\xff", b"[]", b"3", b'{"kind": "ledger"}', b'{"kind": "ledger", "schema": "new", "state": {}}',
        b'{"kind": "other", "schema": 1, "state": {}}', b'{"kind": "ledger", "schema": 1, "state": 3}',
        b'{"kind": "ledger", "schema": 0, "state": {}}', b'{"kind": "ledger", "schema": 1, "state": {}} trailing',
    ],
)  # fmt: skip
def test_what_no_version_wrote_is_refused_with_its_place(home: Path, content: bytes) -> None:
    path = home / "state.json"
    path.write_bytes(content)
    with pytest.raises(CorruptState, match=r"state\.json"):
        load_state(path, "ledger", 1, {})
    assert path.read_bytes() == content


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_read(content: bytes) -> None:
    path = Path(os.environ["HOME"]) / "any.json"
    path.write_bytes(content)
    try:
        load_state(path, "ledger", 1, {})
    except (CorruptState, UnknownSchema):
        return
    assert json.loads(content)["kind"] == "ledger"


def test_a_place_that_cannot_be_written_is_named_and_the_old_content_stands(home: Path) -> None:
    with pytest.raises(Unusable, match="nowhere"):
        write_atomically(home / "nowhere" / "state.json", b"x")
    folder = home / "folder"
    (folder / "inside").mkdir(parents=True)
    with pytest.raises(Unusable, match="folder"):
        write_atomically(folder, b"x")
    assert [path.name for path in folder.iterdir()] == ["inside"]
    assert not list(home.glob(".folder.*"))
    with pytest.raises(Unusable, match="can't be read"):
        load_state(folder, "ledger", 1, {})
