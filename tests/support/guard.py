"""Fails a test that leaves something behind: a process, a listening socket, a segment in /dev/shm, a thread.

What was there before the test (a wider fixture's server, say) isn't held against it. Processes are found as
descendants of this one and, since daemons leave that tree, by the test's home in their environment. What is found is
ended, so that the next test starts clean.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

_SHM = Path("/dev/shm")
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
"""Python's own helpers, which live as long as the process that first needed them."""

Things = dict[object, str]
"""What was found, each with the words that name it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("leave_seconds", "seconds within which what a test stopped has to be gone", default="3")


@pytest.fixture(autouse=True)
def _leaves_nothing(home: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    before = {kind: look(home) for kind, look in _LOOKS.items()}
    yield
    left = _left(home, before, float(request.config.getini("leave_seconds")))
    if left:
        _end_processes(home, before["process"])
        pytest.fail("left behind by this test:\n" + "\n".join(f"  {line}" for line in left), pytrace=False)


def _left(home: Path, before: dict[str, Things], seconds: float) -> list[str]:
    end = time.monotonic() + seconds
    while True:
        left = [
            f"{kind}: {words}"
            for kind, look in _LOOKS.items()
            for key, words in look(home).items()
            if key not in before[kind] and (kind != "segment" or _is_ours(words))
        ]
        if not left or time.monotonic() >= end:
            return left
        gc.collect()  # what only a cycle holds is gone for the test's purposes
        time.sleep(0.05)


def _processes(home: Path) -> Things:
    mark = os.fsencode(home)
    own = psutil.Process()
    found = {process.pid: process for process in own.children(recursive=True)}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) not in found and int(entry.name) != own.pid:
            with contextlib.suppress(OSError, psutil.NoSuchProcess):
                if mark in Path(entry.path, "environ").read_bytes():
                    found[int(entry.name)] = psutil.Process(int(entry.name))
    things: Things = {}
    for process in found.values():
        with contextlib.suppress(psutil.NoSuchProcess):
            command = " ".join(process.cmdline())
            if process.status() != psutil.STATUS_ZOMBIE and not any(helper in command for helper in _HELPERS):
                things[process.pid, process.create_time()] = f"{process.pid} {command[:200]}"
    return things


def _end_processes(home: Path, before: Things) -> None:
    for key in _processes(home).keys() - before.keys():
        assert isinstance(key, tuple)
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(key[0]).kill()


def _sockets(_home: Path) -> Things:
    own = set()
    for entry in os.scandir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            own.add(os.readlink(entry.path))
    listening: Things = {}
    for table in ("tcp", "tcp6"):
        for row in _rows(table):
            if row[3] == "0A":
                port = int(row[1].rsplit(":", 1)[1], 16)
                listening[f"socket:[{row[9]}]"] = f"port {port}"
    for row in _rows("unix"):
        if int(row[3], 16) & 0x10000:  # accepts connections
            listening[f"socket:[{row[6]}]"] = row[7] if len(row) > 7 else "a nameless Unix socket"
    return {key: words for key, words in listening.items() if key in own}


def _rows(table: str) -> list[list[str]]:
    try:
        return [line.split() for line in Path("/proc/self/net", table).read_text().splitlines()[1:]]
    except FileNotFoundError:  # a kernel without IPv6
        return []


def _segments(_home: Path) -> Things:
    return {name: str(_SHM / name) for name in os.listdir(_SHM)} if _SHM.is_dir() else {}


def _is_ours(segment: str) -> bool:
    """Whether no process outside this test's tree uses the segment: tests run side by side."""
    name = os.fsencode(segment)
    tree = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) not in tree:
            with contextlib.suppress(OSError):
                if name in Path(entry.path, "maps").read_bytes():
                    return False
    return True


def _threads(_home: Path) -> Things:
    return {
        thread.ident: thread.name
        for thread in threading.enumerate()
        if not thread.daemon and thread is not threading.main_thread() and thread is not threading.current_thread()
    }


_LOOKS: dict[str, Callable[[Path], Things]] = {
    "process": _processes,
    "listening socket": _sockets,
    "segment": _segments,
    "thread": _threads,
}
