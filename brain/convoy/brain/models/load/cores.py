"""Cores used at other configurations, from what a job's speeds and readings say of its step.

    log cores(x) = physics of the channel(theta, x) + error(x) + noise

``theta`` are the draws of the job's posterior, which the same readings have shaped; the error is the channel's own
Gaussian process (``throughput.misfit``), here conditioned on the job's readings, draw by draw.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from convoy.brain.models.throughput import channels
from convoy.brain.models.throughput.misfit import channel_covariance, matern
from convoy.brain.models.throughput.physics import Array, Configurations, step_of
from convoy.brain.models.throughput.posterior import Latent, Posterior
from convoy.brain.models.throughput.summary import summary

STRAY = 2.0
"""Standard deviations beyond which a reading is doubted."""


def cores_used(posterior: Posterior, query: Configurations, channel: int, level: float) -> Array:
    """Return mean, lower and upper (n, 3) of the cores that ``channel`` reads, at ``query``; NaN without servers.

    The interval is that of one more reading. It may reach beyond the allotment: whoever asks knows that.
    """
    seen, errors = posterior.seen, posterior.misfit.errors
    theta = seen.form.full(posterior.theta)
    expected = channels.expected(theta, query, step_of(theta, query), channel)
    features = query.features
    left = np.full(len(query), errors.channel[channel] ** 2)
    mine = np.flatnonzero(seen.channel == channel)
    if len(mine):
        places = seen.features[seen.place[mine]]
        at = len(seen.observations) + mine
        residual = (seen.values - seen.physics(posterior.theta))[:, at]
        covariance = channel_covariance(errors, seen.channel[mine], places)
        covariance[np.diag_indices_from(covariance)] += errors.channel_noise[channel] ** 2 * _distrust(
            residual, covariance
        )
        factor = cholesky(covariance, lower=True)
        cross = errors.channel[channel] ** 2 * matern(features, places, errors.lengths)
        expected = expected + residual @ cho_solve((factor, True), cross.T)
        left = left - np.sum(solve_triangular(factor, cross.T, lower=True) ** 2, axis=0)
    numbers = np.full((len(query), 3), np.nan)
    some = np.isfinite(expected).all(axis=0)
    noise = np.full(int(some.sum()), errors.channel_noise[channel] ** 2)
    latent = Latent(expected[:, some], np.maximum(left[some], 1e-8))
    numbers[some] = summary([latent], 0.0, noise, level)[:, :3]
    return numbers


def _distrust(residual: Array, covariance: Array) -> Array:
    """Return how many times its noise is added to each reading (r,), 0 to likely ones; ``residual`` is (draws, r).

    A reading far from where the others and the physics would have it is a stray one, and counts the less the farther
    it is.
    """
    precision = np.linalg.inv(covariance)
    error = (precision @ residual.mean(axis=0)) / np.diag(precision)
    excess = error**2 / (1 / np.diag(precision) + residual.var(axis=0))
    return np.asarray(np.maximum(0.0, excess - STRAY**2))
