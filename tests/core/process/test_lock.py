"""One process at a time; the kernel frees the lock of a process that was killed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from convoy.core.api.errors import Unusable
from convoy.core.process.lock import ProcessLock

HOLDER = """
import sys, time
from pathlib import Path
from convoy.core.process.lock import ProcessLock
lock = ProcessLock(Path(sys.argv[1]))
print(lock.acquire(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def held(home: Path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    path = home / "lock"
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        yield path, process
        process.kill()


def test_a_second_process_is_told_who_holds_it(held: tuple[Path, subprocess.Popen[str]]) -> None:
    path, holder = held
    lock = ProcessLock(path)
    assert not lock.acquire()
    assert lock.holder() == holder.pid
    with pytest.raises(Unusable, match=f"held by process {holder.pid}") as caught, lock:
        pass
    assert caught.value.reason == "AlreadyRunning"


def test_a_kill_frees_it(held: tuple[Path, subprocess.Popen[str]]) -> None:
    path, holder = held
    holder.kill()
    holder.wait()
    lock = ProcessLock(path)
    assert lock.holder() is None
    with lock:
        assert ProcessLock(path).holder() == os.getpid()
        assert not ProcessLock(path).acquire()
        assert lock.acquire()
    assert lock.holder() is None


def test_looking_never_makes_another_fail(home: Path) -> None:
    path = home / "lock"
    path.touch()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            ProcessLock(path).holder()

    watchers = [threading.Thread(target=look) for _ in range(2)]
    for watcher in watchers:
        watcher.start()
    try:
        for _ in range(500):
            lock = ProcessLock(path)
            assert lock.acquire()
            lock.release()
    finally:
        over.set()
        for watcher in watchers:
            watcher.join()


def test_a_child_started_by_exec_does_not_keep_it(home: Path) -> None:
    lock = ProcessLock(home / "lock")
    with lock, subprocess.Popen(["sleep", "60"]) as child:
        lock.release()
        assert lock.acquire()
        child.kill()


def test_nobody_holds_what_is_not_there(home: Path) -> None:
    assert ProcessLock(home / "lock").holder() is None
