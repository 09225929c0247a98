"""How the noise of gradients moves as a job ages and as its batch grows: a Gaussian process of the noise scale.

The logarithm of the noise scale is a line over the logarithm of age, a random walk about it (learning rates fall in
steps, losses in bends), an offset between batches, which grows from none at the beginning (all of them begin with the
same weights), and the noise of a reading. Random walks over a logarithm know no unit of time: the next hour of a job
of a week is as certain as the next minute of a job of an hour and a bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from convoy.brain.models.efficiency.readings import Readings

Array = NDArray[np.float64]

LEARNED_JOBS = 200
"""Jobs that drift is learned from, those with the most readings: eight numbers need no more."""
ROUNDS = 4
FREEDOM = 4.0
"""Degrees of freedom of a reading's Student-t error: outliers count less."""
_PRIOR_SD = 1.0
"""How far, as a logarithm, history is expected to move the spreads below."""


@dataclass(frozen=True)
class Drift:
    """What is learned of jobs; spreads as logarithms of standard deviations of the noise scale's logarithm.

    The defaults are assumed where there is no history: anything from a tenth of to a hundred times the initial batch
    to begin with, growing with age as it does where losses fall by a power of it, known no better than that.
    """

    level: float = 1.0
    slope: float = 0.5
    level_sd: float = float(np.log(3.0))
    slope_sd: float = float(np.log(0.5))
    age_sd: float = float(np.log(0.5))
    size_sd: float = float(np.log(0.3))
    reading_sd: float = float(np.log(0.3))

    def mean(self, age: Array) -> Array:
        """Return the expected noise at ages (n,)."""
        return self.level + self.slope * age

    def covariance(self, age: Array, size: Array, other_age: Array, other_size: Array) -> Array:
        """Return the covariance (n, m) of the noise between ages and sizes (n,) and others (m,)."""
        walk = np.minimum(age[:, None], other_age[None, :])
        same = np.sign(size)[:, None] * np.sign(other_size)[None, :] > 0
        offset = np.where(same, np.minimum(np.abs(size)[:, None], np.abs(other_size)[None, :]), 0.0)
        line = _square(self.level_sd) + _square(self.slope_sd) * age[:, None] * other_age[None, :]
        return np.asarray(line + walk * (_square(self.age_sd) + _square(self.size_sd) * offset))


def _square(log_sd: float) -> float:
    return float(np.exp(2.0 * log_sd))


@dataclass(frozen=True)
class Belief:
    """What is believed of a job's noise scale at some ages and sizes."""

    mean: Array
    """(n,)"""
    covariance: Array
    """(n, n)"""
    reading_sd: float
    """Of one more reading."""


def believe(drift: Drift, seen: Readings, age: Array, size: Array) -> Belief:
    """Return the belief about the noise at ``age`` and ``size`` (n,) after the readings (one at least)."""
    among = drift.covariance(seen.age, seen.size, seen.age, seen.size)
    across = drift.covariance(age, size, seen.age, seen.size)
    error = seen.noise - drift.mean(seen.age)
    variance = _square(drift.reading_sd) * np.ones(len(seen))
    for _ in range(ROUNDS):
        factor = cho_factor(among + np.diag(variance), lower=True)
        solved = cho_solve(factor, error)
        left = (variance * solved) ** 2  # what the reading's own error has to explain
        variance = (FREEDOM * _square(drift.reading_sd) + left) / (FREEDOM + 1.0)
        variance = np.maximum(variance, _square(drift.reading_sd))
    factor = cho_factor(among + np.diag(variance), lower=True)
    covariance = drift.covariance(age, size, age, size) - across @ cho_solve(factor, across.T)
    mean = drift.mean(age) + across @ cho_solve(factor, error)
    return Belief(mean, (covariance + covariance.T) / 2.0, float(np.exp(drift.reading_sd)))


def learn(jobs: Sequence[Readings]) -> Drift:
    """Return the drift that jobs' readings are most likely under, held near the assumed one where they say little."""
    told = sorted((job for job in jobs if len(job) > 1), key=len, reverse=True)[:LEARNED_JOBS]
    start = np.array(astuple(Drift()))
    if not told:
        return Drift()

    def cost(parameters: Array) -> float:
        drift = Drift(*parameters)
        return -sum(_evidence(drift, job) for job in told) + 0.5 * float(
            np.sum(((parameters - start) / _PRIOR_SD) ** 2)
        )

    found = minimize(cost, start, method="L-BFGS-B", bounds=[(-30.0, 30.0)] * 2 + [(-5.0, 3.0)] * 5)
    return Drift(*(float(value) for value in found.x))


def _evidence(drift: Drift, job: Readings) -> float:
    among = drift.covariance(job.age, job.size, job.age, job.size) + _square(drift.reading_sd) * np.eye(len(job))
    factor, lower = cho_factor(among, lower=True)
    error = job.noise - drift.mean(job.age)
    return float(-0.5 * error @ cho_solve((factor, lower), error) - np.sum(np.log(np.diag(factor))))
