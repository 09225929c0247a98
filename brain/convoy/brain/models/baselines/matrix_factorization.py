"""Jobs x configurations as a matrix of low rank: a job is a mix of the jobs of history, at a level of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist

from convoy.brain.models.baselines.base import Baseline, Fitted
from convoy.brain.models.baselines.rows import FOREIGN, Array, Rows

NOISE = 0.1
"""Standard deviation of log speed that factors don't explain."""
LEVEL_SD = 10.0
"""Of a job's own level: free."""
GAP_NOISE = 0.03
"""Of log speed in the smoother that fills the matrix's gaps."""
MOST_FACTORS = 6


class MatrixFactorization(Baseline):
    """Log speed of job j at configuration x = level_j + column mean(x) + sum over factors f of a_jf v_f(x).

    Factors are the principal components of the history's matrix, each job centred, as collaborative filtering has
    them in schedulers since Paragon and Quasar (Delimitrou and Kozyrakis, ASPLOS 2013 and 2014). Jobs of one history
    were seldom measured at the same configurations: the matrix's gaps are filled for each job by a Gaussian process
    on logarithms of its sizes (a plane and a Matern 5/2 part). A job's own mix is a ridge fit to its rows, whose
    weights are the variances that the history's jobs show. Jobs of another strategy or mode aren't used.
    """

    least = 0

    def _learn(self, history: Rows) -> None:
        self._smoothers = [_Smoother.of(name, history.of_job(name)) for name in history.names]

    def _covers(self, rows: Rows) -> NDArray[np.bool_]:
        return np.asarray(rows.strategy != FOREIGN)

    def _fit_job(self, name: str, own: Rows, asked: Rows) -> Fitted:
        kind = _kind(own if len(own) else asked)
        others = [one for one in self._smoothers if one.name != name and one.kind == kind]
        if not others:
            level = float(np.mean(own.log_speed)) if len(own) else np.nan
            return Fitted(np.full(len(asked), level), own.log_speed - level, 1, reason="NothingKnown")
        features = np.vstack([own.features, asked.features])
        typical = np.median(features[:, 3])
        matrix = np.array([one.at(features - [0.0, 0.0, 0.0, typical]) for one in others])
        levels = matrix.mean(axis=1, keepdims=True)
        column_mean = (matrix - levels).mean(axis=0)
        factors = _factors(matrix - levels - column_mean)
        history = np.array([one.level for one in others])
        middle = column_mean + float(np.mean(history))
        terms = np.column_stack([np.full(len(features), LEVEL_SD), factors.T])
        seen = terms[: len(own)]
        gram = seen.T @ seen + NOISE**2 * np.eye(terms.shape[1])
        weights = np.linalg.solve(gram, seen.T @ (own.log_speed - middle[: len(own)]))
        fitted = middle + terms @ weights
        if not len(own):  # the level is anyone's of the history
            return Fitted(fitted, history - np.mean(history))
        return Fitted(fitted[len(own) :], own.log_speed - fitted[: len(own)], 1 + len(factors))


def _kind(rows: Rows) -> tuple[float, float]:
    return float(rows.strategy[0]), float(rows.asynchronous[0])


def _factors(centred: Array) -> Array:
    """Return the factors (f, columns) of a matrix (jobs, columns), each scaled by how much jobs differ in it."""
    if len(centred) < 2:
        return np.zeros((0, centred.shape[1]))
    _, sizes, across = np.linalg.svd(centred, full_matrices=False)
    return np.asarray((sizes[:, None] * across)[:MOST_FACTORS] / np.sqrt(len(centred) - 1.0))


@dataclass(frozen=True)
class _Smoother:
    """Log speed of one job at any configuration, from its rows."""

    name: str
    kind: tuple[float, float]
    features: Array
    """Of its rows; samples a step relative to the job's median."""
    level: float
    weights: Array

    @classmethod
    def of(cls, name: str, rows: Rows) -> _Smoother:
        features = rows.features - [0.0, 0.0, 0.0, np.median(rows.features[:, 3])]
        level = float(np.mean(rows.log_speed))
        covariance = _covariance(features, features) + GAP_NOISE**2 * np.eye(len(features))
        weights = cho_solve(cho_factor(covariance), rows.log_speed - level)
        return cls(name, _kind(rows), features, level, weights)

    def at(self, features: Array) -> Array:
        return np.asarray(self.level + _covariance(features, self.features) @ self.weights)


def _covariance(left: Array, right: Array) -> Array:
    """Return a plane's covariance, slopes of standard deviation 1, and a Matern 5/2 one of scale 1."""
    distance = np.sqrt(5.0) * cdist(left, right)
    matern = (1.0 + distance + distance**2 / 3.0) * np.exp(-distance)
    return np.asarray(1.0 + left @ right.T + matern)
