"""Where demand is going: a path of hours from a history of hours, as the median of what known methods say.

A history is split into a weekly shape, as strong as one week's shape foretells the next, and a level by the day. Four
methods forecast the level; with last week's hours as they were that makes five members, and each hour's forecast is
their median. Medians and means of simple methods lose to few single methods and fail seldom (Makridakis et al., The
M4 Competition, International Journal of Forecasting 36, 2020); no weights are learned, since a few months of
demand hold too few independent weeks to learn them from.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
from statsmodels.tsa.forecasting.theta import ThetaModel
from statsmodels.tsa.holtwinters import SimpleExpSmoothing

from convoy.brain.models.demand.series import WEEK, Array

DAY = 24
SHAPE_WEEKS = 8
"""Weeks that the weekly shape is taken from."""
REVERTING_DAYS = 28
REVERTING_TIME = 5.0
"""Days in which a level comes nearer to its mean by a factor of e: about how long large training jobs run."""
LEAST_HOURS = 2 * WEEK
"""Of history that the members need."""
FILLING_SHARE = 0.5


def seasonal_naive(values: Array, hours: int) -> Array:
    """Return last week's same hour, again and again; of less than a week, the last day's, or the last value."""
    period = WEEK if len(values) >= WEEK else DAY if len(values) >= DAY else 1
    path: Array = np.resize(values[-period:], hours)
    return path


def combined(values: Array, hours: int) -> Array:
    """Return the median of the members, at least 0; of less than two weeks, the median of the last week (hours,)."""
    if len(values) < LEAST_HOURS:
        return np.full(hours, float(np.median(values[-WEEK:])))
    path: Array = np.maximum(np.median(np.array(list(members(values, hours).values())), axis=0), 0.0)
    return path


def members(values: Array, hours: int) -> dict[str, Array]:
    """Return each member's path (hours,) from two weeks of hourly values or more."""
    shape = weekly_shape(values)
    repeated = np.resize(shape, hours)
    days = _daily(values - _until_now(shape, len(values)))
    number = -(-hours // DAY)
    levels = {
        "last_week": np.full(number, days[-7:].mean()),
        "smoothing": _smoothing(days, number),
        "theta": _theta(days, number),
        "reverting": _reverting(days, number),
    }
    paths = {name: np.repeat(level, DAY)[:hours] + repeated for name, level in levels.items()}
    return {"seasonal_naive": seasonal_naive(values, hours), **paths}


def weekly_shape(values: Array) -> Array:
    """Return how each hour of the week differs from the week's mean (WEEK,), beginning with the hour after the last.

    The medians over weeks are multiplied by how much of a week's shape the weeks before it foretold: the slope of the
    regression of each week's shape on the medians of those before it, within 0 and 1.
    """
    number = min(len(values) // WEEK, SHAPE_WEEKS)
    weeks = values[-WEEK * number :].reshape(number, WEEK)
    weeks = weeks - weeks.mean(axis=1, keepdims=True)
    agreed = known = 0.0
    for week in range(1, number):
        before = np.median(weeks[:week], axis=0)
        agreed, known = agreed + float(before @ weeks[week]), known + float(before @ before)
    strength = min(max(agreed / known, 0.0), 1.0) if known > 0 else 0.0
    return np.asarray(np.median(weeks, axis=0) * strength)


def since_filled(values: Array) -> int:
    """Return where a history begins once its cluster, or its measuring, had filled up.

    Days before the daily mean first reaches half the median of the history's latter half are the filling; without
    them what is left is at least two weeks.
    """
    days = _daily(values)
    if len(days) < 2 * LEAST_HOURS // DAY:
        return 0
    usual = float(np.median(days[len(days) // 2 :]))
    first = int(np.argmax(days >= FILLING_SHARE * usual))
    begin = len(values) - DAY * (len(days) - first)
    return min(begin, len(values) - LEAST_HOURS) if first else 0


def _until_now(shape: Array, hours: int) -> Array:
    """Return the shape over the hours that end now."""
    return np.tile(shape, hours // WEEK + 1)[-hours:]


def _daily(values: Array) -> Array:
    """Return means over stretches of 24 hours, the last of which ends now."""
    number = len(values) // DAY
    return np.asarray(values[-DAY * number :].reshape(number, DAY).mean(axis=1)) if number else np.empty(0)


def _smoothing(days: Array, number: int) -> Array:
    if np.ptp(days) == 0:
        return np.full(number, days[-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a smoothing constant at its bound is an answer
        fitted = SimpleExpSmoothing(days, initialization_method="estimated").fit()
    return _finite(np.asarray(fitted.forecast(number)), days)


def _theta(days: Array, number: int) -> Array:
    if np.ptp(days) == 0:
        return np.full(number, days[-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = ThetaModel(pd.Series(days), period=7, deseasonalize=False).fit()
    return _finite(np.asarray(fitted.forecast(number)), days)


def _reverting(days: Array, number: int) -> Array:
    mean = days[-REVERTING_DAYS:].mean()
    return np.asarray(mean + (days[-1] - mean) * np.exp(-np.arange(1, number + 1) / REVERTING_TIME))


def _finite(path: Array, days: Array) -> Array:
    return np.where(np.isfinite(path), path, days[-7:].mean())
