"""The demo's stage: whatever way the demo ends, nothing of it is left, and its folder serves again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from convoy.cli.demo.stage import Stage
from convoy.core.api.errors import DeadlineMissed, InvalidInput, Unusable
from convoy.core.process.lock import ProcessLock
from support.demo_processes import processes_of
from support.waiting import until


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage names its state directory to all that it starts; undo that after the test."""
    monkeypatch.setenv("CONVOY_STATE_DIR", os.environ["CONVOY_STATE_DIR"])


def test_it_starts_an_operator_and_a_brain_and_ends_them(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "demo", Console(quiet=True))
    stage.open()
    stage.start()
    lock = ProcessLock(stage.state / "operator.lock")
    stage.wait(lambda: lock.holder(), "the operator", 10.0)
    stage.wait(lambda: len(processes_of(stage.directory)) >= 3, "operator, shim and Brain", 10.0)
    stage.close()
    assert lock.holder() is None
    assert processes_of(stage.directory) == []


def test_a_lost_operator_comes_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "demo", Console(quiet=True))
    stage.open()
    stage.start()
    lock = ProcessLock(stage.state / "operator.lock")
    try:
        first = stage.wait(lambda: lock.holder(), "the operator", 10.0)
        os.kill(first, signal.SIGKILL)
        second = stage.wait(lambda: (pid := lock.holder()) and pid != first and pid, "another one", 10.0)
        assert second != first
    finally:
        stage.close()
    assert processes_of(stage.directory) == []


def test_a_killed_demo_leaves_nothing_and_its_folder_serves_again(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom rich.console import Console\n"
        "from convoy.cli.demo.stage import Stage\nstage = Stage(Path(sys.argv[1]), Console())\n"
        "stage.open()\nstage.start()\nprint('started', flush=True)\ntime.sleep(60)\n"
    )
    directory = tmp_path / "demo"
    demo = subprocess.Popen([sys.executable, "-c", code, str(directory)], stdout=subprocess.PIPE, text=True)
    assert demo.stdout is not None
    assert demo.stdout.readline().strip() == "started"
    lock = ProcessLock(directory / "state" / "operator.lock")
    until(lock.holder, "the operator")
    demo.kill()
    demo.wait()
    demo.stdout.close()
    until(lambda: not processes_of(directory), "the end of all that it started", timeout=20.0)
    stage = Stage(directory, Console(quiet=True))
    stage.open()
    assert not (stage.state / "operator.log").exists()
    stage.close()


def test_a_wait_ends_and_says_what_was_missing(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "demo", Console(quiet=True))
    stage.open()
    try:
        with pytest.raises(DeadlineMissed, match="pigs to fly"):
            stage.wait(lambda: None, "pigs to fly", 0.3)
    finally:
        stage.close()


def test_a_folder_that_isnt_a_demos_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InvalidInput, match="isn't an earlier demo's"):
        Stage(tmp_path, Console(quiet=True)).open()
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_two_demos_dont_share_a_folder(tmp_path: Path) -> None:
    first = Stage(tmp_path / "demo", Console(quiet=True))
    first.open()
    try:
        with pytest.raises(Unusable, match="name another with --dir"):
            Stage(tmp_path / "demo", Console(quiet=True)).open()
    finally:
        first.close()
