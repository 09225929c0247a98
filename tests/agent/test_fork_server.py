"""The fork server: what it forks is a whole, ordinary process, and nothing outlives it."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest

from convoy.agent.spawner import Command, Spawner
from support.launches import launch, launched, script
from support.waiting import until

PROBE = """
import json, os, pathlib, sys, threading
import torch
here = pathlib.Path(__file__).parent
parent = os.getppid()
facts = {
    "server_threads": len(os.listdir(f"/proc/{parent}/task")),
    "server": pathlib.Path(f"/proc/{parent}/cmdline").read_text(),
    "cuda": torch.cuda.is_initialized(),
    "name": __name__,
    "path": sys.path[0],
    "own_group": os.getpgid(0) == os.getpid(),
    "main": sys.modules["__main__"].__dict__ is globals(),
}
(here / "facts.json").write_text(json.dumps(facts))
torch.ones(200, 200) @ torch.ones(200, 200)
import atexit
atexit.register(lambda: (here / "at-exit").write_text("ran"))
"""


def test_a_worker_is_as_if_started_by_itself_and_the_server_has_a_thread(tmp_path: Path) -> None:
    import json

    ended = launch(script(tmp_path, PROBE), env={"OMP_NUM_THREADS": "2"})
    assert (ended.status, ended.err) == (0, "")
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert "forkserver" in facts.pop("server")
    assert facts == {
        "server_threads": 1, "cuda": False, "name": "__main__", "path": str(tmp_path), "own_group": True,
        "main": True,
    }  # fmt: skip
    assert (tmp_path / "at-exit").read_text() == "ran"


def test_a_traceback_shows_the_script_alone(tmp_path: Path) -> None:
    path = script(tmp_path, "def fail():\n    raise ValueError('boom')\nfail()\n")

    async def scenario() -> tuple[int, str]:
        read, write = os.pipe()
        spawner = Spawner((), os.environ)
        try:
            spawner.attach()
            process = await spawner.start(Command("path", str(path), (), dict(os.environ), "/", {2: write}))
            status = await asyncio.wait_for(process.exited, 20)
        finally:
            spawner.close()
        with os.fdopen(read) as file:
            return status, file.read()

    status, errors = asyncio.run(scenario())
    assert status == 1
    assert errors.splitlines()[1].strip().startswith(f'File "{path}", line 3')
    assert errors.splitlines()[-1] == "ValueError: boom"
    assert "forkserver" not in errors


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("import sys; sys.exit()", 0),
        ("import sys; sys.exit(9)", 9),
        ("import sys; sys.exit('no')", 1),
        ("import os; os.kill(os.getpid(), 11)", -11),
        ("import os; os.abort()", -6),
        ("import threading, time; threading.Thread(target=time.sleep, args=(0.2,)).start()", 0),
    ],
)
def test_statuses_are_the_interpreters(tmp_path: Path, text: str, status: int) -> None:
    async def scenario() -> int:
        spawner = Spawner((), os.environ)
        try:
            spawner.attach()
            env = dict(os.environ) | {"PYTHONFAULTHANDLER": ""}
            null = os.open(os.devnull, os.O_WRONLY)
            command = Command("path", str(script(tmp_path, text)), (), env, "/", {2: null})
            return await asyncio.wait_for((await spawner.start(command)).exited, 20)
        finally:
            spawner.close()

    assert asyncio.run(scenario()) == status


def test_what_a_worker_leaves_behind_is_ended(tmp_path: Path) -> None:
    text = f"""
    import pathlib, subprocess
    child = subprocess.Popen(["sleep", "100"])
    pathlib.Path({str(tmp_path / "child")!r}).write_text(str(child.pid))
    """
    path = script(tmp_path, text)

    async def scenario() -> None:
        spawner = Spawner((), os.environ)
        try:
            spawner.attach()
            process = await spawner.start(Command("path", str(path), (), dict(os.environ), "/", {}))
            assert await asyncio.wait_for(process.exited, 20) == 0
            child = int((tmp_path / "child").read_text())
            until(lambda: not _runs(child), "the worker's child to be gone", timeout=3)
        finally:
            spawner.close()

    asyncio.run(scenario())


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_lost_server_takes_its_workers_along_and_is_started_again(tmp_path: Path) -> None:
    path = script(tmp_path, "import time\ntime.sleep(100)\n")

    async def scenario() -> None:
        spawner = Spawner((), os.environ)
        try:
            spawner.attach()
            command = Command("path", str(path), (), dict(os.environ), "/", {})
            process = await spawner.start(command)
            assert process.pid is not None
            first = spawner.pid
            os.kill(first, signal.SIGKILL)
            assert await asyncio.wait_for(process.exited, 10) == -9
            assert spawner.losses == 1
            assert not _runs(process.pid)
            again = await spawner.start(command)
            assert spawner.pid != first
            assert psutil.Process(again.pid).ppid() == spawner.pid
        finally:
            spawner.close()

    asyncio.run(scenario())


def test_a_lost_fork_server_is_a_fault_like_any_other(tmp_path: Path) -> None:
    text = """
    import os, pathlib, time
    here = pathlib.Path(__file__).parent
    (here / os.environ["TORCHELASTIC_RESTART_COUNT"]).write_text(str(os.getppid()))
    while not (here / "go").exists():
        time.sleep(0.02)
    """
    with launched("--max-restarts=1", "--start-method=spawn", str(script(tmp_path, text))) as process:
        first = tmp_path / "0"
        until(lambda: first.exists() and first.read_text(), "the first worker", timeout=40)
        os.kill(int(first.read_text()), signal.SIGKILL)
        until(lambda: (tmp_path / "1").exists(), "the worker to be started again", timeout=40)
        (tmp_path / "go").write_text("")
        assert process.wait(20) == 0
