"""Time, handed in where it is needed, so that tests own it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A clock that runs nowhere but at the edge."""

    def now(self) -> float:
        """Return seconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never step back."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Return seconds since the epoch, UTC."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that never step back."""
        return time.monotonic()
