"""Events and plans whose subject isn't in the store: it may be told a moment later, or never. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from convoy.brain.ingest.monitor.told import Entry


class Waiting:
    """Entries, and since when they wait by the clock of whoever asks.

    Args:
        seconds: how long one waits while the cluster can be read; while it can't, nobody's time runs.
        every: how often they are tried again, in seconds.
        most: how many may wait; beyond, the oldest give way.
    """

    def __init__(self, seconds: float = 30.0, every: float = 2.0, most: int = 5_000) -> None:
        self._seconds = seconds
        self._every = every
        self._most = most
        self._entries: dict[tuple[Any, ...], tuple[float, Entry]] = {}
        self._tried_at = float("-inf")

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._entries)

    def due(self, now: float) -> list[Entry]:
        """Return all if it is time to try them again; ``settle`` is told what came of it."""
        if now - self._tried_at < self._every:
            return []
        self._tried_at = now
        return [entry for _, entry in self._entries.values()]

    def settle(self, tried: Iterable[Entry], again: Iterable[Entry], now: float, *, steady: bool) -> list[Entry]:
        """Forget what was tried and keep what has to wait (again); return what waited in vain.

        ``steady``: the cluster could be read all the time.
        """
        before = {entry.key: self._entries.pop(entry.key, (now, entry))[0] for entry in tried}
        for entry in again:
            self._entries[entry.key] = (before.get(entry.key, now), entry)
        if not steady:
            self._entries = {key: (now, entry) for key, (_, entry) in self._entries.items()}
        late = [key for key, (since, _) in self._entries.items() if now - since >= self._seconds]
        crowded = list(self._entries)[: max(0, len(self._entries) - len(late) - self._most)]
        return [self._entries.pop(key)[1] for key in dict.fromkeys([*late, *crowded])]
