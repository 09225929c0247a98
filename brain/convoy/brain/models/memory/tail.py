"""The upper tail of what a container will use in the next horizon, given its past: a location and a scale.

A quantile at each of ``BASES`` comes from boosted trees (pinball loss); what lies above it is taken as exponential,
with a mean that is log-linear in the same features (gamma regression). Above base q the use u is exceeded at rate p
where u = quantile + mean * log((1 - q) / p): linear in log(1 / p), so the average over the bases is, too. That line
is the location (at log(1 / p) = 0) and the scale; how often it is exceeded in truth is counted by ``calibration``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import GammaRegressor

from convoy.brain.models.memory.usage import Array
from convoy.brain.models.memory.windows import FEATURES, KILL_EXCESS, LOWEST, Examples
from convoy.brain.models.registry.estimators import from_tensor, to_tensor

BASES = (0.8, 0.9, 0.95)
LEAST_CONTAINERS = 20
LEAST_EXAMPLES = 200
LEAST_EXCESSES = 20
"""Of fewer examples, containers or excesses nothing but a constant is learned."""
SPREAD_PENALTY = 0.3
"""Ridge penalty of the mean excess: a tenth of the rows say all that is known of it."""
FARTHEST = 4.0
"""Standard deviations of a feature beyond which the mean excess doesn't follow it."""
TRUSTED = ("sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",)
"""What skops doesn't know of the trees: a class of arrays."""
NARROWEST, WIDEST = 0.02, 2.0
"""Bounds of the mean excess, in logarithms: where use is all but constant, the rate would hang on its rounding."""


@dataclass(frozen=True)
class Excess:
    """Mean of what lies above a quantile: exp(intercept + coefficients . standardized features), within bounds."""

    center: Array
    spread: Array
    coefficients: Array
    intercept: float

    @classmethod
    def fitted(cls, features: Array, excess: Array, weights: Array) -> Self:
        """Learn from rows with their excess (n,), of which the positive ones count."""
        center, spread = features.mean(axis=0), features.std(axis=0) + 1e-9
        over = excess > 0
        if over.sum() < LEAST_EXCESSES:
            mean = float(np.average(excess[over], weights=weights[over])) if over.any() else NARROWEST
            return cls(center, spread, np.zeros(features.shape[1]), float(np.log(mean)))
        scaled = _scaled(features[over], center, spread)
        model = GammaRegressor(alpha=SPREAD_PENALTY, max_iter=2000)
        model.fit(scaled, np.maximum(excess[over], NARROWEST), sample_weight=weights[over])
        return cls(center, spread, np.asarray(model.coef_, dtype=np.float64), float(model.intercept_))

    def mean(self, features: Array) -> Array:
        """Return the mean excess of rows (n,)."""
        # a sum of its own for each row: a matrix product may round a row otherwise beside others
        exponent = (_scaled(features, self.center, self.spread) * self.coefficients).sum(axis=1) + self.intercept
        return np.asarray(np.exp(np.clip(exponent, np.log(NARROWEST), np.log(WIDEST))))


@dataclass(frozen=True)
class Tail:
    """Location and scale of the upper tail by features."""

    quantiles: tuple[Any, ...]
    """A ``HistGradientBoostingRegressor`` a base."""
    excesses: tuple[Excess, ...]

    @classmethod
    def fitted(cls, examples: Examples, seed: int) -> Self | None:
        """Learn from examples; None where they are too few."""
        if len(examples) < LEAST_EXAMPLES or examples.containers < LEAST_CONTAINERS:
            return None
        needed = examples.needed + np.where(examples.killed, KILL_EXCESS, 0.0) - examples.anchor
        needed = np.maximum(needed, LOWEST)
        quantiles, excesses = [], []
        for base in BASES:
            model = HistGradientBoostingRegressor(
                loss="quantile",
                quantile=base,
                max_depth=3,
                learning_rate=0.08,
                max_iter=60,
                min_samples_leaf=40,
                l2_regularization=10.0,
                early_stopping=False,
                random_state=seed,
            ).fit(examples.features, needed)
            quantiles.append(model)
            over = needed - model.predict(examples.features)
            excesses.append(Excess.fitted(examples.features, over, weights_of(examples)))
        return cls(tuple(quantiles), tuple(excesses))

    def at(self, features: Array) -> tuple[Array, Array]:
        """Return location, relative to the anchor, and scale of rows of features (n, FEATURES): (n,), (n,)."""
        location, scale = np.zeros(len(features)), np.zeros(len(features))
        for base, quantile, excess in zip(BASES, self.quantiles, self.excesses, strict=True):
            mean = excess.mean(features)
            location += (quantile.predict(features) + mean * np.log(1.0 - base)) / len(BASES)
            scale += mean / len(BASES)
        return location, scale

    def tensors(self, prefix: str) -> dict[str, NDArray[np.generic]]:
        """Return all of it as tensors whose names begin with ``prefix``."""
        found: dict[str, NDArray[np.generic]] = {}
        for number, (quantile, excess) in enumerate(zip(self.quantiles, self.excesses, strict=True)):
            found[f"{prefix}.{number}.quantile"] = to_tensor(quantile)
            rows = [excess.center, excess.spread, excess.coefficients, np.full(FEATURES, excess.intercept)]
            found[f"{prefix}.{number}.excess"] = np.stack(rows)
        return found

    @classmethod
    def restored(cls, tensors: dict[str, NDArray[np.generic]], prefix: str) -> Self:
        """Return what ``tensors`` wrote.

        Raises:
            CorruptState: an estimator can't be read.
        """
        quantiles, excesses = [], []
        for number in range(len(BASES)):
            trees = tensors[f"{prefix}.{number}.quantile"]
            quantiles.append(from_tensor(trees, HistGradientBoostingRegressor, trusted=TRUSTED))
            rows = np.asarray(tensors[f"{prefix}.{number}.excess"], dtype=np.float64)
            excesses.append(Excess(rows[0], rows[1], rows[2], float(rows[3, 0])))
        return cls(tuple(quantiles), tuple(excesses))


def weights_of(examples: Examples) -> Array:
    """Return weights by which each container counts once; their mean is 1 (n,)."""
    _, place, counts = np.unique(examples.container, return_inverse=True, return_counts=True)
    weights = 1.0 / counts[place]
    return np.asarray(weights / weights.mean())


def _scaled(features: Array, center: Array, spread: Array) -> Array:
    return np.asarray(np.clip((features - center) / spread, -FARTHEST, FARTHEST))
