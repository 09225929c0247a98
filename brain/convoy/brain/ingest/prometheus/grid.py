"""When Prometheus is asked: at moments of a grid that begins at the epoch, the same whoever asks. Pure.

A row is known by its subject and its moment, so that a second collection, or a back-fill, gives the same rows.

Moments are whole seconds since the epoch by Prometheus' clock, the one that its samples are stamped by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

MOST_STEPS = 10_000
"""Of one query: Prometheus refuses more than 11,000 points a series."""
SAMPLES = 50_000
"""Of one answer, aimed at: some 2 MB of JSON, and tens of MB of rows."""


@dataclass(frozen=True, slots=True)
class Span:
    """Moments ``first``, ``first + step``, ..., ``last``; none where ``last`` is before ``first``."""

    first: int
    last: int
    step: int

    @classmethod
    def within(cls, since: float, until: float, step: int) -> Span:
        """Return the grid's moments from ``since`` to ``until``, both included."""
        return cls(math.ceil(since / step) * step, math.floor(until / step) * step, step)

    def __len__(self) -> int:
        return max(0, (self.last - self.first) // self.step + 1)

    def split(self, steps: int) -> tuple[Span, Span]:
        """Return the first ``steps`` moments, and the others."""
        middle = self.first + steps * self.step
        return replace(self, last=min(self.last, middle - self.step)), replace(self, first=middle)


@dataclass(frozen=True, slots=True)
class ChunkSize:
    """How many moments are asked for at once: as many as the answer may be long, found out as answers come."""

    steps: int = 60
    most: int = MOST_STEPS

    def after(self, series: int) -> ChunkSize:
        """Return the size after an answer of so many series: it grows with care and shrinks at once."""
        fitting = SAMPLES // max(series, 1)
        return replace(self, steps=max(1, min(self.most, self.steps * 8, fitting)))

    def halved(self, steps: int) -> ChunkSize:
        """Return the size after ``steps`` moments were too many."""
        half = max(1, steps // 2)
        return ChunkSize(half, half)
