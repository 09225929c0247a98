"""Which samples make up each global batch: the same ones whatever the number of workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convoy.core.api.errors import InvalidInput


def share(total: int, rank: int, world: int) -> tuple[int, int]:
    """Return start and end (exclusive) of a rank's part of ``total`` things; parts differ by one at most."""
    return rank * total // world, (rank + 1) * total // world


def shares(total: int, world: int) -> list[int]:
    """Return how many of ``total`` things each rank has."""
    return [end - start for start, end in (share(total, rank, world) for rank in range(world))]


@dataclass
class GlobalSampler:
    """Walks through a data set in an order that follows from (seed, epoch) alone.

    The position counts samples since the beginning of training, so it means the same for every world. Batches run on
    over an epoch's end: each has exactly ``global_batch`` samples, and each sample comes once an epoch.
    """

    size: int
    global_batch: int
    seed: int = 0
    position: int = 0

    def __post_init__(self) -> None:
        if self.size < 1 or self.global_batch < 1:
            raise InvalidInput(
                f"data set of {self.size} samples, global batch of {self.global_batch}: expected 1 or more of each"
            )
        self._epoch = -1
        self._order: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    @property
    def epoch(self) -> int:
        """The epoch that the next sample belongs to, from 0."""
        return self.position // self.size

    def order(self, epoch: int) -> NDArray[np.int64]:
        """Return an epoch's order: int64 [size]. The generator is numpy's frozen one: it never changes."""
        if epoch != self._epoch:
            generator = np.random.RandomState(np.random.MT19937(np.random.SeedSequence([self.seed, epoch])))
            self._order = generator.permutation(self.size).astype(np.int64)
            self._epoch = epoch
        return self._order

    def batch(self, rank: int = 0, world: int = 1) -> NDArray[np.int64]:
        """Return a rank's rows of the batch at the position: int64 [its share of the global batch]."""
        start, end = share(self.global_batch, rank, world)
        at, until = self.position + start, self.position + end
        parts: list[NDArray[np.int64]] = []
        while at < until:
            epoch, offset = divmod(at, self.size)
            take = min(until - at, self.size - offset)
            parts.append(self.order(epoch)[offset : offset + take])
            at += take
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def advance(self) -> None:
        """Move on by one global batch."""
        self.position += self.global_batch

    def state(self) -> dict[str, int]:
        """Return what a checkpoint holds of it."""
        return {"size": self.size, "global_batch": self.global_batch, "seed": self.seed, "position": self.position}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a checkpoint's position.

        Raises:
            InvalidInput: the checkpoint was written with another data set, global batch or seed.
        """
        for name in ("size", "global_batch", "seed"):
            if state[name] != getattr(self, name):
                raise InvalidInput(
                    f"{name} is {getattr(self, name)}, the checkpoint was written with {state[name]}; "
                    "give the same, or start in another checkpoint directory"
                )
        self.position = int(state["position"])
