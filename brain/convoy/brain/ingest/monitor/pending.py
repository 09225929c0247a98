"""What waits to be stored: the last state of each object that changed, within a bound."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from convoy.brain.ingest.monitor.told import Entry


class Pending:
    """Entries in the order in which their objects first changed. Who tells waits while there are too many.

    So nothing is lost while the database is away, and memory stays within the bound: the cluster is read no further.
    """

    def __init__(self, most: int = 20_000) -> None:
        self._most = most
        self._entries: dict[tuple[Any, ...], Entry] = {}
        self._taken = 0
        self._changed = threading.Condition()

    def __len__(self) -> int:
        """Return how many entries aren't stored, those that are being stored among them."""
        with self._changed:
            return len(self._entries) + self._taken

    def put(self, entry: Entry, stopped: Callable[[], bool]) -> bool:
        """Keep an entry, in the place of an earlier one of the same object; False: stopped before there was room."""
        with self._changed:
            while entry.key not in self._entries and len(self._entries) >= self._most:
                if stopped():
                    return False
                self._changed.wait(0.2)
            earlier = self._entries.get(entry.key)
            self._entries[entry.key] = earlier.then(entry) if earlier else entry
            self._changed.notify_all()
            return True

    def take(self, most: int, seconds: float, stopped: Callable[[], bool]) -> list[Entry]:
        """Return the first entries: as soon as there are ``most``, else what there is after ``seconds``, or none.

        They count until ``done``.
        """
        with self._changed:
            self._changed.wait_for(lambda: len(self._entries) >= most or stopped(), seconds)
            keys = list(self._entries)[:most]
            taken = [self._entries.pop(key) for key in keys]
            self._taken = len(taken)
            self._changed.notify_all()
            return taken

    def done(self) -> None:
        """Count what was taken as stored."""
        with self._changed:
            self._taken = 0

    def wake(self) -> None:
        """Have those who wait look again whether they are stopped."""
        with self._changed:
            self._changed.notify_all()
