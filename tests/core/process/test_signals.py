"""A process stops when asked, and dies with the one that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from support.waiting import until

THREADED = """
from convoy.core.process.signals import stop_event
stop = stop_event()
print("on", flush=True)
stop.wait(30)
print("asked", flush=True)
import time; time.sleep(30)
"""
ASYNC = """
import asyncio
from convoy.core.process.signals import async_stop_event
async def main():
    stop = async_stop_event()
    print("on", flush=True)
    await stop.wait()
    print("asked", flush=True)
    await asyncio.sleep(30)
asyncio.run(main())
"""
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], *sys.argv[2:]], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
"""
CHILD = """
import time
from convoy.core.process.signals import die_with_parent
die_with_parent()
print("on", flush=True)
time.sleep(60)
"""
ORPHAN = """
import os, subprocess, sys, time
from convoy.core.process.signals import die_with_parent
parent = int(sys.argv[1])
print("on", flush=True)
while os.getppid() == parent:
    time.sleep(0.01)
die_with_parent(parent=parent)
open(sys.argv[2], "w")
"""


@pytest.mark.parametrize("script", [THREADED, ASYNC], ids=["threads", "asyncio"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_asks_and_the_second_ends(script: str, number: int) -> None:
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"on\n"
        process.send_signal(number)
        assert process.stdout.readline() == b"asked\n"
        process.send_signal(number)
        assert process.wait(10) != 0


def test_a_child_dies_with_its_parent() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        assert child.is_running()
        parent.kill()
        parent.wait()
        until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "the child to die")


def test_a_child_whose_parent_went_first_ends_at_once(home: Path) -> None:
    mark = home / "lived"
    script = ORPHAN.replace("int(sys.argv[1])", "os.getppid()").replace("sys.argv[2]", "sys.argv[1]")
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, script, str(mark)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, "its end")
    assert not mark.exists()
