"""The signals that end a launch."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterable


class StopRequest:
    """``task`` is done, with its number, when the first of the signals came. Further ones change nothing."""

    def __init__(self, signals: Iterable[signal.Signals]) -> None:
        self._loop = asyncio.get_running_loop()
        self.task: asyncio.Future[int] = self._loop.create_future()
        self._signals = tuple(signals)
        for number in self._signals:
            self._loop.add_signal_handler(number, self._came, int(number))

    def _came(self, number: int) -> None:
        if not self.task.done():
            self.task.set_result(number)

    def close(self) -> None:
        """Leave the signals to their defaults again."""
        for number in self._signals:
            with contextlib.suppress(ValueError, RuntimeError):
                self._loop.remove_signal_handler(number)
