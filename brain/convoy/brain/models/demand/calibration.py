"""How far demand strayed from a method's own earlier forecasts, by lead time: what its intervals are made of.

From origins within the history the method forecasts what came after (rolling origin). The interval at a lead of so
many days is the quantile of the errors' sizes at that lead (conformal prediction by horizon; Stankeviciute, Alaa and
van der Schaar, NeurIPS 2021), with three corrections: it doesn't shrink with the lead (isotonic regression); errors
count in units of the square root of the level, since a sum of independent jobs varies so; and errors of overlapping
spans aren't independent, so the quantile is widened by Student's t with as many degrees of freedom as spans fit into
the history.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.stats import norm
from scipy.stats import t as student

from convoy.brain.models.demand.series import WEEK, Array

DAY = 24
LEAD_DAYS = 14
"""Leads that are calibrated; beyond, errors grow with the lead's square root, as a random walk's do."""
MOST_ORIGINS = 40
LEVEL_HOURS = 4 * WEEK
SMALLEST_LEVEL = 0.1
"""A level counts as this part of the whole history's mean at least."""
UNTRIED = 9.0
"""The error where no origin could be tried, in multiples of the level: up to ten times what was seen."""

Path = Callable[[Array, int], Array]
"""Forecasts so many hours from hourly values."""


@dataclass(frozen=True)
class Errors:
    """A method's errors on one history.

    Attributes:
        sizes: absolute error over the square root of the level at the origin (origins, leads in hours); NaN where
            what came isn't known.
        span: days from the first origin to the end.
    """

    sizes: Array
    span: float

    def widths(self, level: float, hours: int) -> Array:
        """Return the half-widths of intervals of that probability (hours,), in the units of ``sizes``.

        NaN where nothing was learned.
        """
        quantiles, counts = self._by_day(level)
        tried = np.flatnonzero(counts)
        if not len(tried):
            return np.full(hours, np.nan)
        smooth = isotonic_regression(quantiles[tried], weights=counts[tried]).x
        days = np.arange(1, -(-hours // DAY) + 1)
        last = int(tried[-1]) + 1
        beyond = np.sqrt(np.maximum(days / last, 1.0))
        inner = np.interp(np.minimum(days, last), tried + 1, smooth)
        freedom = np.maximum(self.span / np.minimum(days, last), 1.0)
        widened = student.ppf(0.5 + level / 2, freedom) / norm.ppf(0.5 + level / 2)
        return np.asarray(np.repeat(inner * beyond * widened, DAY)[:hours])

    def _by_day(self, level: float) -> tuple[Array, Array]:
        """Return the quantile and the number of errors at each lead in days (LEAD_DAYS,)."""
        quantiles, counts = np.full(LEAD_DAYS, np.nan), np.zeros(LEAD_DAYS)
        for day in range(LEAD_DAYS):
            sizes = self.sizes[:, day * DAY : (day + 1) * DAY]
            sizes = sizes[np.isfinite(sizes)]
            if len(sizes):
                quantiles[day], counts[day] = np.quantile(sizes, level), len(sizes)
        return quantiles, counts


def rolling_errors(values: Array, known: NDArray[np.bool_], path: Path, first: int) -> Errors:
    """Return the errors of a path from origins a day or more apart.

    Args:
        values, known: hourly values, and which of them were measured.
        path: what is tried.
        first: hours of history at the first origin.
    """
    origins = np.arange(first, len(values) - DAY + 1, DAY)
    if len(origins):
        origins = origins[:: -(-len(origins) // MOST_ORIGINS)]
    hours = LEAD_DAYS * DAY
    sizes = np.full((len(origins), hours), np.nan)
    for row, origin in enumerate(origins):
        came, measured = values[origin : origin + hours], known[origin : origin + hours]
        error = np.abs(came - path(values[:origin], len(came))) / unit(values[:origin], values)
        sizes[row, : len(came)] = np.where(measured, error, np.nan)
    span = (len(values) - first) / DAY
    return Errors(sizes, span)


def unit(values: Array, history: Array) -> float:
    """Return the unit of errors after ``values``, which begin ``history``: the square root of their latest level."""
    level = max(float(values[-LEVEL_HOURS:].mean()), SMALLEST_LEVEL * float(history.mean()))
    return float(np.sqrt(level)) if level > 0 else 1.0
