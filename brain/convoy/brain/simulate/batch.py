"""How a job's global batch is dealt to its replicas, in micro-batches that fit an accelerator."""

from __future__ import annotations

import math
from dataclasses import dataclass

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
