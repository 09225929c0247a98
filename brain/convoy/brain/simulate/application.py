"""What a training program needs: the progress that it is to make, and how much of it a step of each batch makes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from convoy.brain.models.efficiency import gain

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Application:
    """A program whose statistical efficiency was measured at several global batches.

    An epoch is over when the gains of its steps, in steps of the initial batch, add up to what the measured runs took
    (the least of them). The job is complete after its last epoch. Between measured batches, the gradient's statistics
    are interpolated linearly; beyond them, the nearest ones count.

    Attributes:
        name: of the program.
        batches: (b,) measured global batches, ascending; the first is the initial batch.
        ends: (e,) progress at each epoch's end, ascending.
        grad_sqr, grad_var: (b, e) squared norm of the mean gradient and its variance, both at the initial batch.
        iterations: (b, e) steps until each epoch's end, as measured.
    """

    name: str
    batches: Array
    ends: Array
    grad_sqr: Array
    grad_var: Array
    iterations: Array
    _known: dict[tuple[float, int], tuple[float, float, float]] = field(default_factory=dict, repr=False)

    @property
    def initial_batch(self) -> float:
        """The smallest batch measured; progress is counted in its steps."""
        return float(self.batches[0])

    @property
    def largest_batch(self) -> float:
        """The largest batch measured."""
        return float(self.batches[-1])

    @property
    def epochs(self) -> int:
        """To run."""
        return len(self.ends)

    def gradient(self, global_batch: float, epoch: int) -> tuple[float, float]:
        """Return the squared norm of the mean gradient and its variance in an epoch, counted from 0."""
        square, variance, _ = self._at(global_batch, epoch)
        return square, variance

    def gain(self, global_batch: float, epoch: int) -> float:
        """Return the progress of one step of a batch in an epoch, counted from 0."""
        return self._at(global_batch, epoch)[2]

    def steps_to(self, global_batch: float, epoch: int) -> float:
        """Return the steps of a batch that the first ``epoch`` epochs took where they were measured."""
        if epoch <= 0:
            return 0.0
        return float(np.interp(global_batch, self.batches, self.iterations[:, epoch - 1]))

    def _at(self, global_batch: float, epoch: int) -> tuple[float, float, float]:
        key = (global_batch, epoch)
        if key not in self._known:
            square = float(np.interp(global_batch, self.batches, self.grad_sqr[:, epoch]))
            variance = float(np.interp(global_batch, self.batches, self.grad_var[:, epoch]))
            worth = float(gain(global_batch / self.initial_batch, square, variance))
            self._known[key] = (square, variance, worth)
        return self._known[key]
