"""Where a job's coefficients are likeliest, given a Gaussian for them and what was seen of the job."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from convoy.brain.models.throughput.misfit import Seen
from convoy.brain.models.throughput.physics import Array, Form

DAMPING: Array = np.array([1.0, 0.5, 0.25, 0.0625])
"""Parts of a Gauss-Newton step that are tried."""
LONGEST_MOVE = 3.0
"""The most by which a coefficient moves in one step."""
LEAST_GAIN = 1e-4
"""Of the objective, in one step; with less the mode is reached."""


@dataclass(frozen=True)
class Scope:
    """A Gaussian that history, or its absence, gives for a job's coefficients."""

    name: str
    weight: float
    mean: Array
    covariance: Array
    jobs: int
    """Jobs whose evidence formed it."""
    form: Form


@dataclass(frozen=True)
class Mode:
    """A posterior mode and the covariance of a Gaussian there."""

    theta: Array
    covariance: Array
    value: Array
    """What the physics makes of what was seen, there, (k + r,)."""
    slope: Array
    """Its derivative (k + r, d)."""

    def evidence(self, seen: Seen, scope: Scope, covariance: Array) -> float:
        """Return the log likelihood of what was seen under ``scope``, the physics linear around the mode.

        ``covariance`` is that of what was seen around the physics.
        """
        residual = seen.values - self.value - self.slope @ (scope.mean - self.theta)
        factor = cho_factor(covariance + self.slope @ scope.covariance @ self.slope.T, lower=True)
        return float(-0.5 * residual @ cho_solve(factor, residual) - np.sum(np.log(np.diag(factor[0]))))


def find_mode(seen: Seen, scope: Scope, covariance: Array, start: Array | None = None, steps: int = 12) -> Mode:
    """Climb to the posterior mode of ``theta`` by damped Gauss-Newton; ``covariance`` is that of what was seen."""
    precision = np.linalg.inv(scope.covariance)
    factor = cho_factor(covariance, lower=True)
    theta = scope.mean.copy() if start is None else start.copy()

    def objective(candidates: Array) -> Array:
        residual = seen.values - seen.physics(candidates)
        away = candidates - scope.mean
        fit = np.sum(residual.T * cho_solve(factor, residual.T), axis=0)
        return np.asarray(0.5 * fit + 0.5 * np.sum(away * (away @ precision), axis=1))

    best = float(objective(theta[None])[0])
    value, slope = seen.jacobian(theta)
    for _ in range(steps):
        weighted = cho_solve(factor, slope)
        gradient = weighted.T @ (seen.values - value) - precision @ (theta - scope.mean)
        move = np.linalg.solve(slope.T @ weighted + precision, gradient)
        move *= min(1.0, LONGEST_MOVE / max(1e-12, float(np.max(np.abs(move)))))
        attempts = theta + DAMPING[:, None] * move
        found = objective(attempts)
        chosen = int(np.nanargmin(found))
        if not found[chosen] < best - LEAST_GAIN:
            break
        theta, best = attempts[chosen], float(found[chosen])
        value, slope = seen.jacobian(theta)
    inverse = np.linalg.inv(slope.T @ cho_solve(factor, slope) + precision)
    return Mode(theta, (inverse + inverse.T) / 2, value, slope)
