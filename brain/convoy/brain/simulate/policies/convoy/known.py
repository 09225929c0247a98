"""Goodputs as they really are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from convoy.brain.simulate.batch import Batch
from convoy.brain.simulate.policies.convoy.batches import batches
from convoy.brain.simulate.policies.convoy.sizes import Sizes
from convoy.brain.simulate.policy import JobView
from convoy.brain.simulate.truth import Truth

Array = NDArray[np.float64]


class Known:
    """Asks the truth, once for each program, epoch and size."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._found: dict[tuple[str, int, str, int, int], tuple[float, Batch | None]] = {}

    def of(self, job: JobView, sizes: Sizes) -> tuple[Array, list[Batch | None]]:
        """Return goodputs and batches of the sizes."""
        found = [self._one(job, sizes, place) for place in range(len(sizes))]
        return np.array([goodput for goodput, _ in found]), [batch for _, batch in found]

    def seconds_left(self, job: JobView, sizes: Sizes) -> Array:
        """Return the seconds that are left at each size (n,), at the present epoch's goodput."""
        return (job.work - job.progress) / self.of(job, sizes)[0]

    def _one(self, job: JobView, sizes: Sizes, place: int) -> tuple[float, Batch | None]:
        replicas, nodes = int(sizes.replicas[place]), int(sizes.nodes[place])
        key = (job.application, job.epoch, sizes.kind, replicas, nodes)
        if key not in self._found:
            tried = batches(job, sizes.kind, sizes.replicas[place : place + 1])
            shape = (int(sizes.together[place]),) * nodes
            goodput = [
                self._truth.goodput(job.application, sizes.kind, shape, Batch(int(local), int(steps)), job.epoch)
                for local, steps in zip(tried.local, tried.accumulation, strict=True)
            ]
            best, chosen = tried.best(np.array(goodput), 1)
            self._found[key] = (float(best[0]), chosen[0])
        return self._found[key]
