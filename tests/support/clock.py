"""A clock that moves when the test says so."""

from __future__ import annotations


class FakeClock:
    """Satisfies ``convoy.core.process.clock.Clock``; both of its times move together, by ``advance`` alone."""

    def __init__(self, now: float = 1_750_000_000.0) -> None:
        self._now = now
        self._monotonic = 1_000.0

    def now(self) -> float:
        """Return seconds since the epoch."""
        return self._now

    def monotonic(self) -> float:
        """Return seconds that never step back."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        assert seconds >= 0
        self._now += seconds
        self._monotonic += seconds

    def step_wall_clock(self, seconds: float) -> None:
        """Set the wall clock, as an operator of the machine would: the monotonic time stays."""
        self._now += seconds
