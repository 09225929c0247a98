"""A Gaussian process of log speed on logarithms of sizes, of one job's own rows."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from convoy.brain.models.baselines.base import Baseline, Fitted
from convoy.brain.models.baselines.rows import FOREIGN, Array, Rows

DIMENSIONS = 4
LEARNED_JOBS, LEARNED_ROWS = 12, 60
DEFAULT = np.log(np.array([1.0, *[2.0] * DIMENSIONS, 0.05]))
"""Log amplitude, log length scales, log noise (standard deviations) where no history teaches them."""
LEVEL_VARIANCE = 25.0


class GaussianProcess(Baseline):
    """Matern 5/2, a length scale for each size, and a level of its own; the posterior's variance is the interval's.

    Amplitude, length scales and noise are medians of the maximum-likelihood ones of the history's jobs, since a few
    rows of the job can't tell them. Nothing else is learned from history. Draws of ``sample`` are independent.
    """

    def __init__(self) -> None:
        super().__init__()
        self._scales: dict[str, Array] = {}

    def _learn(self, history: Rows) -> None:
        jobs = {name: history.of_job(name) for name in history.names[:LEARNED_JOBS]}
        self._scales = {
            name: log_scales(rows.features, rows.log_speed)
            for name, rows in jobs.items()
            if len(rows) >= 2 * DIMENSIONS
        }

    def _covers(self, rows: Rows) -> NDArray[np.bool_]:
        return np.asarray(rows.strategy != FOREIGN)

    def _fit_job(self, name: str, own: Rows, asked: Rows) -> Fitted:
        learned = [scales for job, scales in self._scales.items() if job != name]
        amplitude, *lengths, noise = np.exp(np.median(learned, axis=0) if learned else DEFAULT)
        center = float(np.mean(own.log_speed))
        seen, wanted = own.features / lengths, asked.features / lengths
        level = LEVEL_VARIANCE
        factor = cho_factor(level + amplitude**2 * _matern(seen, seen) + noise**2 * np.eye(len(own)))
        cross = level + amplitude**2 * _matern(wanted, seen)
        weights = cho_solve(factor, own.log_speed - center)
        explained = np.einsum("ij,ji->i", cross, cho_solve(factor, cross.T))
        variance = np.maximum(level + amplitude**2 - explained, 0.0) + noise**2
        inside = level + amplitude**2 * _matern(seen, seen)
        residuals = own.log_speed - center - inside @ weights
        return Fitted(center + cross @ weights, residuals, 1, np.sqrt(variance))


def log_scales(features: Array, log_speed: Array) -> Array:
    """Return the maximum-likelihood log amplitude, log length scales (d,) and log noise; of long jobs a part."""
    rows = np.linspace(0, len(features) - 1, min(len(features), LEARNED_ROWS)).round().astype(np.intp)
    kernel = ConstantKernel(1.0, (1e-2, 1e2)) * Matern(
        np.full(features.shape[1], 2.0), (0.1, 20.0), nu=2.5
    ) + WhiteKernel(0.01, (1e-5, 1.0))
    process = GaussianProcessRegressor(kernel, normalize_y=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a scale at its bound: the size doesn't matter
        process.fit(features[rows], log_speed[rows] - np.mean(log_speed[rows]))
    amplitude_2, *lengths, noise_2 = process.kernel_.theta
    return np.array([amplitude_2 / 2, *lengths, noise_2 / 2])


def _matern(left: Array, right: Array) -> Array:
    distance = np.sqrt(5.0) * cdist(left, right)
    return np.asarray((1.0 + distance + distance**2 / 3.0) * np.exp(-distance))
