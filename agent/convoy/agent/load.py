"""CPU and memory of this node's process tree: agent, fork server, workers and what they started."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from convoy.core.api import names
from convoy.core.api.resources import Room


@dataclass(frozen=True)
class Load:
    """What the tree used: ``cores`` is the mean over the last ``seconds``, ``memory`` bytes now."""

    seconds: float
    cores: float
    memory: int


def allotted(environment: Mapping[str, str]) -> Room:
    """Return what the node's pod requests, as the operator tells it; zero where it requests nothing."""
    try:
        cores = float(environment.get(names.ENV_WORKER_CPU) or 0)
        return Room(cores, int(environment.get(names.ENV_WORKER_MEMORY) or 0))
    except ValueError:  # by hand, and wrong: a measure isn't worth an agent
        return Room()


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
