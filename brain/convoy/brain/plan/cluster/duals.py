"""Marginal prices of what couples the jobs, and the bound that they give. Pure.

With prices y on the limits, each job takes the choice of the largest surplus by itself; what that comes to, plus what
the limits cost at the prices, is no less than any plan's value (Lagrangian duality). The lowest such bound is that of
the linear relaxation, which counts each job's choices as their concave hull.

It is found with the maximum over choices replaced by a soft one (Nesterov 2005, "Smooth minimization of non-smooth
functions"), by L-BFGS-B, while the softness is lowered. Prices of the last plan are a start that makes it quicker,
and plans alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import optimize

from convoy.brain.plan.cluster.choices import Choices
from convoy.brain.plan.cluster.jobs import Array, Ints
from convoy.brain.plan.cluster.limits import Limits

SOFTNESS = (0.1, 0.01, 0.001, 0.0001)
"""Of the maximum, relative to a job's typical value."""
STEPS = 40


@dataclass(frozen=True)
class Priced:
    """Prices, and what they say."""

    prices: Array
    """(limits,), objective per share of what there is."""
    bound: float


def surplus_of(value: Array, limits: Limits, prices: Array) -> Array:
    """Return each choice's value less what it takes at the prices, (choices,)."""
    return np.asarray(value - limits.demand @ prices)


def best_of(surplus: Array, first: Ints) -> Array:
    """Return each job's largest surplus, (jobs,)."""
    return np.asarray(np.maximum.reduceat(surplus, first[:-1]))


def bound_at(value: Array, limits: Limits, first: Ints, prices: Array) -> float:
    """Return what no plan's value exceeds."""
    return float(limits.most @ prices + best_of(surplus_of(value, limits, prices), first).sum())


def prices_of(c: Choices, value: Array, limits: Limits, warm: Array | None = None) -> Priced:
    """Return near-best prices, each job having at least one choice.

    Args:
        c: choices that can be taken.
        value: of each.
        limits: of them.
        warm: prices to start from.
    """
    prices = np.zeros(len(limits.of)) if warm is None or len(warm) != len(limits.of) else np.maximum(warm, 0.0)
    best, lowest = prices, bound_at(value, limits, c.first, prices)
    if len(limits.of):
        best_values = best_of(value, c.first)
        typical = max(float(np.mean(np.abs(best_values))), 1e-12)
        transposed = limits.demand.T.tocsr()
        for softness in SOFTNESS:
            scale = softness * typical

            def smoothed(y: Array, scale: float = scale) -> tuple[float, Array]:
                total, weights = _softly(value - limits.demand @ y, c.first, c.job, scale)
                return float(limits.most @ y + total), np.asarray(limits.most - transposed @ weights)

            found = optimize.minimize(
                smoothed, prices, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * len(prices),
                options={"maxiter": STEPS, "maxfun": 2 * STEPS},
            )  # fmt: skip
            prices = np.asarray(found.x)
            bound = bound_at(value, limits, c.first, prices)
            if bound < lowest:
                best, lowest = prices, bound
    return Priced(best, lowest)


def _softly(surplus: Array, first: Ints, job: Ints, scale: float) -> tuple[float, Array]:
    """Return the sum over jobs of the soft maximum, and the weights of the choices in it."""
    most = np.maximum.reduceat(surplus, first[:-1])
    parts = np.exp((surplus - most[job]) / scale)
    sums = np.add.reduceat(parts, first[:-1])
    return float(most.sum() + scale * np.log(sums).sum()), parts / sums[job]
