"""What would change the choice of a configuration: how far others would have to be off, what to measure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from convoy.brain.models.throughput.physics import Array, Configurations
from convoy.brain.models.throughput.posterior import Posterior

DRAWS = 512
OUTCOMES: Array = ndtri((np.arange(64) + 0.5) / 64)
"""Equally likely outcomes of a measurement, in its own standard deviations."""


@dataclass(frozen=True)
class Change:
    """What would make another configuration the answer, by speed alone. Names are those of the options."""

    expected_loss: float
    """Of speed, by the choice, against whatever is really the fastest; relative."""
    rival: str
    """Who might be faster: the one from which most speed is expected where it is."""
    rival_faster: float
    """Probability that the rival is the faster."""
    rival_needs: float
    """By how much the rival must differ from its prediction to be as fast as the chosen one is predicted, relative;
    negative: it is predicted to be faster."""
    measure: str
    """Whose measurement is expected to bring most."""
    measure_gain: float
    """Speed expected from choosing anew after it, relative; 0: no outcome of it changes the choice."""


def change_of(posterior: Posterior, options: Configurations, noise: Array, names: list[str], seed: int) -> Change:
    """Return what would change the choice of the first of at least two ``options``.

    ``noise`` (n,) is the variance of measuring log speed at each.
    """
    draws = posterior.joint(options, DRAWS, np.random.default_rng(seed))
    mean = draws.mean(axis=0)
    ahead = draws[:, 1:] - draws[:, :1]
    rival = 1 + int(np.argmax(np.mean(np.maximum(ahead, 0.0), axis=0)))
    gains = _gains(draws - mean, mean, noise)
    best = int(np.argmax(gains))
    return Change(
        expected_loss=float(np.mean(-np.expm1(draws[:, 0] - draws.max(axis=1)))),
        rival=names[rival],
        rival_faster=float(np.mean(ahead[:, rival - 1] > 0)),
        rival_needs=float(np.expm1(mean[0] - mean[rival])),
        measure=names[best],
        measure_gain=float(np.expm1(gains[best])),
    )


def _gains(away: Array, mean: Array, noise: Array) -> NDArray[np.float64]:
    """Return what measuring each option is expected to add to log speed at the then fastest, (n,).

    As of Gaussians: an outcome moves each option's mean by its covariance with the one measured. (The knowledge
    gradient; Frazier, Powell and Dayanik 2009.)
    """
    covariance = away.T @ away / (len(away) - 1)
    slopes = covariance / np.sqrt(np.diag(covariance) + noise)[:, None]
    moved = mean + slopes[:, None, :] * OUTCOMES[:, None]
    return np.asarray(np.maximum(moved.max(axis=2).mean(axis=1) - mean.max(), 0.0))
