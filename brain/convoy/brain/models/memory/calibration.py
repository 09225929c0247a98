"""How often containers exceed a limit: counted over windows, with a prior where containers are few.

Rows of one container aren't independent: what is few or many are containers, not rows. That is conformal risk control
(Angelopoulos et al., ICLR 2024) over containers, with one change: it takes the container to come as exceeding always,
so that n containers can't promise less than 1 / (n + 1); here it is taken to exceed as often as a heavy-tailed prior
says. With many containers the two agree; with few, ours is an honest guess instead of no answer, and ``promises``
tells them apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from convoy.brain.models.memory.usage import Array, Flags

PRIOR_WEIGHT = 1.0
"""Containers that the prior counts as."""
PRIOR_AT_ZERO = 0.5
"""How often the prior exceeds a score of zero."""
HIGHEST = 1e6


@dataclass(frozen=True)
class Calibration:
    """Scores that containers reached, in units in which the next one reached is compared."""

    scores: Array
    """What was needed, as a score (n,)."""
    killed: Flags
    """At least that score was wanted (n,)."""
    containers: int
    prior_scale: float
    """Score over which the prior falls to a third."""

    @classmethod
    def of(cls, scores: Array, container: Array, killed: Flags, prior_scale: float) -> Calibration:
        """Return the calibration to scores (n,) of the windows of containers, named by number (n,)."""
        return cls(scores, killed, len(np.unique(container)), prior_scale)

    def rate(self, score: float) -> float:
        """Return in which share of windows ``score`` is expected to be exceeded: falls with it, strictly."""
        over = (self.scores > score).astype(np.float64)
        # how much more a killed container would have used is as unknown as the tail of the prior
        beyond = np.exp(-np.maximum(score - self.scores, 0.0) / self.prior_scale)
        over = np.where(self.killed, beyond, over)
        seen = self.containers * over.mean() if len(over) else 0.0
        return float((seen + PRIOR_WEIGHT * self._prior(score)) / (self.containers + PRIOR_WEIGHT))

    def score(self, rate: float) -> float:
        """Return the least score that is exceeded at ``rate`` (in (0, 1)) at most."""
        used = self.scores[np.isfinite(self.scores)]  # a window in which nothing was used exceeds no score
        lowest = min(float(used.min(initial=0.0)), 0.0) - 50.0 * self.prior_scale
        if self.rate(lowest) <= rate:
            return lowest
        highest = max(float(self.scores.max(initial=0.0)), 1.0)
        while self.rate(highest) > rate and highest < HIGHEST:
            highest *= 2.0
        if self.rate(highest) > rate:
            return highest
        return float(brentq(lambda at: self.rate(at) - rate, lowest, highest, xtol=1e-9, maxiter=200)) + 1e-9

    def promises(self, rate: float) -> bool:
        """Return whether there are containers enough for ``rate`` to rest on them, without a prior."""
        return (self.containers + 1) * rate >= 1.0

    def _prior(self, score: float) -> float:
        fall = np.clip(score / self.prior_scale, -50.0, 700.0)
        return float(1.0 - (1.0 - PRIOR_AT_ZERO) * np.exp(fall)) if fall < 0 else float(PRIOR_AT_ZERO * np.exp(-fall))
