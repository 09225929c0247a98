"""CPU and memory of this node's process tree: agent, fork server, workers and what they started."""

from __future__ import annotations

import time
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Load:
    """What the tree used: ``cores`` is the mean over the last ``seconds``, ``memory`` bytes now."""

    seconds: float
    cores: float
    memory: int


class LoadMeter:
    """Measures the tree from one call of ``measure`` to the next."""

    def __init__(self, pid: int | None = None) -> None:
        self._root = psutil.Process(pid)
        self._used: dict[tuple[int, float], float] = {}
        self._at = time.monotonic()
        self.measure()

    def measure(self) -> Load:
        """Return the load since the last call. What a process used after its last measurement isn't seen."""
        now = time.monotonic()
        seconds, self._at = now - self._at, now
        used: dict[tuple[int, float], float] = {}
        memory = 0
        for process in [self._root, *self._children()]:
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    used[(process.pid, process.create_time())] = times.user + times.system
                    memory += _memory(process)
            except psutil.Error:  # it ended meanwhile
                continue
        spent = sum(max(0.0, total - self._used.get(key, 0.0)) for key, total in used.items())
        self._used = used
        return Load(seconds, spent / seconds if seconds > 0 else 0.0, memory)

    def _children(self) -> list[psutil.Process]:
        try:
            return self._root.children(recursive=True)
        except psutil.Error:
            return []


def _memory(process: psutil.Process) -> int:
    """Proportional set size where it can be read, so that pages shared by forks count once; else resident."""
    try:
        return int(process.memory_full_info().pss)
    except (psutil.AccessDenied, AttributeError):
        return int(process.memory_info().rss)
