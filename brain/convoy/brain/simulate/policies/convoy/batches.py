"""The batches that a job which may choose its own tries at each size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convoy.brain.simulate.batch import Batch, candidates
from convoy.brain.simulate.policy import JobView

Array = NDArray[np.float64]

CANDIDATES = 16
"""Global batches, in equal ratios from the least to the largest."""


@dataclass(frozen=True, slots=True)
class Batches:
    """Candidates (m,) of several sizes, those of one after those of another."""

    place: NDArray[np.int64]
    """Of the size that each is for."""
    local: Array
    accumulation: Array
    total: Array

    def best(self, goodput: Array, sizes: int) -> tuple[Array, list[Batch | None]]:
        """Return the best candidate's goodput for each size, NaN and None where there is none."""
        best = np.full(sizes, np.nan)
        chosen: list[Batch | None] = [None] * sizes
        sound = np.flatnonzero(goodput > 0.0)
        ordered = sound[np.lexsort((goodput[sound], self.place[sound]))]
        last = np.flatnonzero(np.diff(self.place[ordered], append=sizes))  # of each size; of equals the largest batch
        for row in ordered[last].tolist():
            best[self.place[row]] = goodput[row]
            chosen[self.place[row]] = Batch(int(self.local[row]), int(self.accumulation[row]))
        return best, chosen

    def most(self, goodput: Array, sizes: int) -> Array:
        """Return the best goodput (k, sizes) of several (k, m), NaN where there is none."""
        best = np.full((len(goodput), sizes), np.nan)
        if len(self.place):
            first = np.flatnonzero(np.diff(self.place, prepend=-1))
            found = np.maximum.reduceat(np.where(goodput > 0.0, goodput, -np.inf), first, axis=1)
            best[:, self.place[first]] = np.where(found > 0.0, found, np.nan)
        return best


def batches(job: JobView, kind: str, replicas: NDArray[np.int64]) -> Batches:
    """Return the candidates at some numbers of replicas (n,).

    Never less than the initial batch, never more than the largest; one replica that runs more than the initial one
    takes two micro-batches, since from one alone the noise of the gradient can't be told.
    """
    limits, count = job.limits[kind], replicas.astype(np.float64)
    local, accumulation = candidates(
        count,
        CANDIDATES,
        initial=job.initial_batch,
        largest=job.largest_batch,
        smallest_local=limits.smallest_local,
        largest_local=limits.largest_local,
    )
    over = local * accumulation * count > job.largest_batch
    local = np.where(over, np.floor(job.largest_batch / (accumulation * count)), local)
    fits = (local >= limits.smallest_local) & (local <= limits.largest_local)
    rows = np.unique(np.column_stack([np.nonzero(fits)[1], local[fits], accumulation[fits]]), axis=0)
    place = rows[:, 0].astype(np.int64)
    return Batches(place, rows[:, 1], rows[:, 2], rows[:, 1] * rows[:, 2] * count[place])
