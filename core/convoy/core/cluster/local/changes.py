"""Hears of commits, of this and of other processes, within 20 ms and for next to no CPU."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable

from convoy.core.cluster.local.store import Store

POLL_SECONDS = 0.02
"""How often the file is asked whether another process committed, while somebody waits."""


class ChangeSignal:
    """A count that grows with every commit. One thread asks SQLite for all who wait, and sleeps when nobody does."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._condition = threading.Condition()
        self._count = 0
        self._waiting = 0
        self._listeners: list[Callable[[], None]] = []
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def count(self) -> int:
        """Where the count stands."""
        return self._count

    @property
    def closed(self) -> bool:
        """Whether nothing more will be heard."""
        return self._closed

    def bump(self) -> None:
        """Tell that this process committed."""
        with self._condition:
            self._count += 1
            self._condition.notify_all()
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def wait(self, seen: int, timeout: float) -> int:
        """Wait until the count is beyond ``seen``, or the time is over, or it is closed; return the count."""
        with self._condition:
            self._waiting += 1
            self._start()
            try:
                self._condition.wait_for(lambda: self._count > seen or self._closed, timeout)
            finally:
                self._waiting -= 1
            return self._count

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have ``listener`` called, from some thread, after commits; return what ends that."""
        with self._condition:
            self._listeners.append(listener)
            self._start()

        def end() -> None:
            with self._condition:
                self._listeners.remove(listener)

        return end

    def close(self) -> None:
        """Wake all who wait and end the thread."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(5.0)

    def _start(self) -> None:
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._run, name="cluster-changes", daemon=True)
            self._thread.start()
        self._condition.notify_all()

    def _run(self) -> None:
        with self._store.connection() as connection:
            last = -1  # so that what came before the first look counts as news
            while True:
                with self._condition:
                    self._condition.wait_for(lambda: self._waiting or self._listeners or self._closed)
                    if self._closed:
                        return
                try:
                    found = self._store.data_version(connection)
                except sqlite3.Error:  # counts as news: who waits reads for himself, and meets the reason
                    found = last - 1
                if found != last:
                    last = found
                    self.bump()
                with self._condition:
                    self._condition.wait_for(lambda: self._closed, POLL_SECONDS)
