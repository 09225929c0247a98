"""Processes of this machine, read from /proc: who descends from whom, who belongs to a pod, who is dead (Linux)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable

from convoy.core.cluster.local.environment import ENV_POD_UID


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie doesn't."""
    found = _stat(pid)
    return found is not None and found[0] not in "ZX"


def descendants(root: int) -> list[int]:
    """Return the living processes that descend from ``root``, without it."""
    return _below({root}, _table()) if root else []


def of_pod(uid: str) -> list[int]:
    """Return the living processes of a pod: those that carry its mark in their environment, and their descendants.

    Not found are another user's processes, and an orphan that was started with an environment wiped clean.
    """
    mark = f"{ENV_POD_UID}={uid}".encode()
    table = _table()
    marked = {pid for pid in table if mark in _environ(pid).split(b"\0")}
    return sorted(marked | set(_below(marked, table)))


def send(pids: Iterable[int], number: int = signal.SIGKILL) -> None:
    """Send a signal to each; who is gone already doesn't matter."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _below(roots: set[int], table: dict[int, int]) -> list[int]:
    children: dict[int, list[int]] = {}
    for pid, parent in table.items():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    ahead = list(roots)
    while ahead:
        below = [pid for pid in children.get(ahead.pop(), []) if pid not in roots]
        found += below
        ahead += below
    return found


def _table() -> dict[int, int]:
    """Return parent by pid of all living processes."""
    table = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            found = _stat(int(entry))
            if found is not None and found[0] not in "ZX":
                table[int(entry)] = found[1]
    return table


def _stat(pid: int) -> tuple[str, int] | None:
    """Return state and parent."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, parent = file.read().rpartition(b")")[2].split()[:2]
    except OSError:
        return None
    return state.decode(), int(parent)


def _environ(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""
