"""The batches that a job which may choose its own tries at each size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convoy.brain.simulate.batch import ROUNDING, Batch
from convoy.brain.simulate.policy import JobView

Array = NDArray[np.float64]

CANDIDATES = 16
"""Global batches, in equal ratios from the least to the largest."""


@dataclass(frozen=True, slots=True)
class Batches:
    """Candidates (m,) of several sizes in one row after another."""

    place: NDArray[np.int64]
    """Of the size that each is for."""
    local: Array
    accumulation: Array
    total: Array

    def best(self, goodput: Array, sizes: int) -> tuple[Array, list[Batch | None]]:
        """Return the best candidate's goodput for each size, NaN and None where there is none."""
        best = np.full(sizes, np.nan)
        chosen: list[Batch | None] = [None] * sizes
        for row in np.argsort(goodput, kind="stable"):
            if goodput[row] > 0.0:
                best[self.place[row]] = goodput[row]
                chosen[self.place[row]] = Batch(int(self.local[row]), int(self.accumulation[row]))
        return best, chosen


def batches(job: JobView, kind: str, replicas: NDArray[np.int64]) -> Batches:
    """Return the candidates at some numbers of replicas (n,).

    Never less than the initial batch, never more than the largest; one replica that runs more than the initial one
    takes two micro-batches, since from one alone the noise of the gradient can't be told.
    """
    limits, count = job.limits[kind], replicas[:, None].astype(np.float64)
    least = np.maximum(job.initial_batch, limits.smallest_local * count)
    with np.errstate(invalid="ignore"):
        share = least * np.maximum(job.largest_batch / least, 1.0) ** np.linspace(0.0, 1.0, CANDIDATES) / count
    accumulation = np.maximum(np.ceil(share / limits.largest_local - ROUNDING), 1.0)
    alone = (count == 1) & (share > job.initial_batch + ROUNDING)
    accumulation = np.where(alone, np.maximum(accumulation, 2.0), accumulation)
    local = np.ceil(share / accumulation - ROUNDING)
    total = local * accumulation * count
    over = total > job.largest_batch
    local = np.where(over, np.floor(job.largest_batch / (accumulation * count)), local)
    total = local * accumulation * count
    fits = (local >= limits.smallest_local) & (local <= limits.largest_local)
    rows = np.column_stack([np.nonzero(fits)[0], local[fits], accumulation[fits]]).astype(np.int64)
    rows = np.unique(rows, axis=0)
    place = rows[:, 0]
    return Batches(place, rows[:, 1].astype(float), rows[:, 2].astype(float),
                   (rows[:, 1] * rows[:, 2] * replicas[place]).astype(float))  # fmt: skip
