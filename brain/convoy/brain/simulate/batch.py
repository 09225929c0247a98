"""How a job's global batch is dealt to its replicas, in micro-batches that fit an accelerator."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ROUNDING = 1e-8


@dataclass(frozen=True, slots=True)
class Batch:
    """What each replica computes a step.

    Attributes:
        local: samples of one micro-batch.
        accumulation: micro-batches a step; one means that no gradient is accumulated.
    """

    local: int
    accumulation: int = 1

    def samples(self, replicas: int) -> int:
        """Return the global batch."""
        return self.local * self.accumulation * replicas


def dealt(global_batch: float, replicas: int, *, initial: float, largest: float, largest_local: float) -> Batch:
    """Return the batch of each replica for a global batch, or nearly for it: replicas' shares are rounded up.

    Args:
        global_batch: samples a step of all replicas.
        replicas: of the job.
        initial: batch that the job's hyper-parameters were chosen for. One replica that runs a larger one needs two
            micro-batches: the noise of the gradient, which the learning rate follows, can't be told from one.
        largest: global batch that isn't passed.
        largest_local: micro-batch that fits the accelerator.
    """
    share = math.ceil(global_batch / replicas - ROUNDING)
    accumulation = max(1, math.ceil(share / largest_local - ROUNDING))
    if replicas == 1 and global_batch > initial:
        accumulation = max(2, accumulation)
    local = math.ceil(share / accumulation - ROUNDING)
    return Batch(max(1, min(local, int(largest / (replicas * accumulation)))), accumulation)


def candidates(
    replicas: NDArray[np.float64],
    count: int,
    *,
    initial: float,
    largest: float,
    smallest_local: int,
    largest_local: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return batches that a job which may choose its own tries: micro-batches, and how many a step, (count, n).

    Global batches in equal ratios from the least that is allowed, never below the initial one, to the largest, dealt
    as ``dealt`` does; not all of them fit: a micro-batch may come out too large or too small.

    Args:
        replicas: (n,).
        count: of global batches.
        initial, largest: global batches, as for ``dealt``.
        smallest_local, largest_local: micro-batches that the accelerator can run.
    """
    least = np.maximum(initial, smallest_local * replicas)
    powers = np.linspace(0.0, 1.0, count)[:, None]
    share = least * np.maximum(largest / least, 1.0) ** powers / replicas
    accumulation = np.maximum(np.ceil(share / largest_local - ROUNDING), 1.0)
    alone = (replicas == 1) & (share > initial + ROUNDING)
    accumulation = np.where(alone, np.maximum(accumulation, 2.0), accumulation)
    return np.ceil(share / accumulation - ROUNDING), accumulation
