"""Goodput of a job that may choose its batch: the best over batches, at every number of nodes and accelerators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convoy.brain.models.efficiency import gain
from convoy.brain.simulate.adaptive.steps import StepModel
from convoy.brain.simulate.batch import Batch, candidates

Array = NDArray[np.float64]

CANDIDATES = 50
"""Global batches that are tried, in equal ratios from the least to the largest."""


@dataclass(frozen=True, slots=True)
class Goodput:
    """What a job expects of itself.

    Attributes:
        steps: its step time.
        gradient: squared norm and variance of its gradient, both at the initial batch.
        initial, largest: global batches.
        smallest_local, largest_local: micro-batches.
    """

    steps: StepModel
    gradient: tuple[float, float]
    initial: float
    largest: float
    smallest_local: int
    largest_local: int

    def best(self, nodes: Array, replicas: Array) -> tuple[Array, Array, Array]:
        """Return goodput (steps of the initial batch a second), micro-batch and micro-batches a step.

        Args:
            nodes, replicas: (n,) configurations.

        Returns:
            Three (n,) arrays; goodput 0 where no batch is allowed.
        """
        local, accumulation = candidates(
            replicas,
            CANDIDATES,
            initial=self.initial,
            largest=self.largest,
            smallest_local=self.smallest_local,
            largest_local=self.largest_local,
        )
        compute = self.steps.compute(local)
        network = self.steps.network(nodes, replicas)
        seconds = (accumulation - 1.0) * compute + _overlapped(compute, network, self.steps.g)
        worth = gain(replicas * local * accumulation / self.initial, *self.gradient)
        goodput = np.where((local >= self.smallest_local) & (local <= self.largest_local), worth / seconds, 0.0)
        allowed = np.maximum(self.initial, self.smallest_local * replicas) <= self.largest
        goodput = np.where(allowed, goodput, 0.0)
        at = np.argmax(goodput, axis=0), np.arange(goodput.shape[1])
        return goodput[at], local[at], accumulation[at]

    def batch(self, nodes: int, replicas: int) -> Batch:
        """Return the best batch of one configuration."""
        _, local, accumulation = self.best(np.array([float(nodes)]), np.array([float(replicas)]))
        most = int(self.largest / (replicas * accumulation[0]))
        return Batch(max(1, min(int(local[0]), most)), int(accumulation[0]))


def _overlapped(compute: Array, network: Array, g: float) -> Array:
    """Return (compute^g + network^g)^(1/g), safely."""
    most, least = np.maximum(compute, network), np.minimum(compute, network)
    return np.asarray(most * (1.0 + (least / most) ** g) ** (1.0 / g))
