"""A work queue for reconcilers: each key is handled by one worker at a time, and never forgotten.

A key that is added while it is handled is handled once more afterwards. Keys that failed come back with growing
delays.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Hashable
from typing import Generic, TypeVar

from convoy.core.process.clock import Clock

K = TypeVar("K", bound=Hashable)

FIRST_RETRY_SECONDS = 0.05
LONGEST_RETRY_SECONDS = 30.0


class WorkQueue(Generic[K]):
    """Keys to handle, now or later; safe to share between threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._order = itertools.count()
        self._handled: set[K] = set()
        self._failures: dict[K, int] = {}
        self._closed = False

    def add(self, key: K, after: float = 0.0) -> None:
        """Have the key handled after so many seconds, or at the earlier time that it already has."""
        due = self._clock.monotonic() + after
        with self._changed:
            if self._due.get(key, due + 1) <= due:
                return
            self._due[key] = due
            heapq.heappush(self._heap, (due, next(self._order), key))
            self._changed.notify()

    def retry(self, key: K) -> float:
        """Have a key that failed handled again; return after how many seconds."""
        with self._changed:
            failures = self._failures.get(key, 0)
            self._failures[key] = failures + 1
        wait = min(FIRST_RETRY_SECONDS * 2.0 ** min(failures, 20), LONGEST_RETRY_SECONDS)
        self.add(key, wait)
        return wait

    def succeeded(self, key: K) -> None:
        """Forget the key's failures."""
        with self._changed:
            self._failures.pop(key, None)

    def take(self) -> K | None:
        """Wait for a key that is due and that nobody handles; None once the queue is closed."""
        with self._changed:
            while not self._closed:
                key, wait = self._next()
                if key is not None:
                    self._handled.add(key)
                    return key
                self._changed.wait(wait)
            return None

    def done(self, key: K) -> None:
        """Say that a taken key was handled."""
        with self._changed:
            self._handled.discard(key)
            self._changed.notify_all()

    def close(self) -> None:
        """Have every ``take`` return None."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _next(self) -> tuple[K | None, float | None]:
        """Return a key that can be taken, else how long to wait for one."""
        now = self._clock.monotonic()
        passed_over: list[tuple[float, int, K]] = []
        found: K | None = None
        wait: float | None = None
        while self._heap and found is None:
            due, order, key = self._heap[0]
            if self._due.get(key) != due:  # replaced by an earlier time
                heapq.heappop(self._heap)
            elif due > now:
                wait = due - now
                break
            else:
                heapq.heappop(self._heap)
                if key in self._handled:
                    passed_over.append((due, order, key))
                else:
                    del self._due[key]
                    found = key
        for item in passed_over:
            heapq.heappush(self._heap, item)
        return found, wait
