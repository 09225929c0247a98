"""Each kind of process that the demo consists of is killed once at a random moment; its job succeeds all the same.

``CONVOY_TEST_KILLS`` says how many runs each kind gets (1), ``CONVOY_TEST_SEED`` when in them. Claims may fail
then, since a kill that the demo didn't send isn't in its books; that it comes to its end and leaves nothing may not.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import psutil
import pytest

from support.command import start
from support.waiting import until

RUNS = int(os.environ.get("CONVOY_TEST_KILLS", "1"))
SEED = int(os.environ.get("CONVOY_TEST_SEED", "1"))
KINDS = {
    "operator": "convoy.cli.main operator",
    "brain": "convoy.cli.main brain serve",
    "master": "convoy.cli.main master",
    "agent": "dlrover-run",
    "worker": "",
    "shim": "convoy.core.cluster.local.shim",
    "anchor": "cat",
}
"""What the command lines of each kind hold; workers are found by the step logs, for they are forked."""


def processes(directory: Path) -> list[psutil.Process]:
    """Return the processes that work on the demo's folder, by their environment."""
    mark, found = os.fsencode(directory / "state"), []
    for process in psutil.process_iter():
        try:
            if mark in Path(f"/proc/{process.pid}/environ").read_bytes():
                found.append(process)
        except (OSError, psutil.NoSuchProcess):
            continue
    return found


def candidates(directory: Path, kind: str) -> list[int]:
    """Return the processes of a kind that run now."""
    if kind == "worker":
        logs = directory.glob("state/jobs/default/*/steps/*.jsonl")
        return [pid for log in logs if psutil.pid_exists(pid := int(log.stem.rpartition("-")[2]))]
    found = []
    for process in processes(directory):
        try:
            words = process.cmdline()
        except psutil.NoSuchProcess:
            continue
        line = " ".join(words)
        # The shim's own command line ends with what it runs for; only its module names it.
        if (words == [KINDS[kind]]) if kind == "anchor" else (KINDS[kind] in line):
            found.append(process.pid)
    return found


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("run", range(RUNS))
@pytest.mark.parametrize("kind", KINDS)
def test_a_demo_that_loses_a_process(tmp_path: Path, kind: str, run: int) -> None:
    dice = random.Random(f"{kind}{run}{SEED}")
    directory = tmp_path / "demo"
    demo = start("demo", "--quick", "--dir", directory)
    try:
        until(lambda: candidates(directory, kind), f"a process of kind {kind}", timeout=60.0, every=0.1)
        time.sleep(dice.uniform(0.0, 45.0))
        victims = candidates(directory, kind)
        if victims and demo.poll() is None:
            os.kill(dice.choice(victims), signal.SIGKILL)
        out, _ = demo.communicate(timeout=220)
    finally:
        demo.kill()
    assert demo.returncode in (0, 1), out
    assert "Traceback" not in out
    assert "PASS  The job ended Succeeded" in out, out
    assert "PASS  The global batch stayed what it was at every step" in out, out
    until(lambda: not processes(directory), "the end of all that was started", timeout=30.0)
