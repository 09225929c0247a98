"""What a plan asks of a change: gains that are worth a restart, not too often."""

from __future__ import annotations

import math

from convoy.brain.plan.limits import Limits

MIN_GAIN = 0.05
"""Hysteresis: an expected gain below it isn't worth moving."""

MIN_TRIAL_VALUE = 0.02
"""What a trial must be expected to win over the horizon, as a share of the samples trained in it."""

SURE = 0.8
"""Probability of being paid back within the horizon that a change needs."""

CLOSE = 0.02
"""Among sizes whose worth is within this of the best, the one that takes least is taken."""

DEFAULT_RESTART_SECONDS = 30.0
"""What a change is assumed to cost, in seconds at no speed, until it has been measured for the job."""


def restart_seconds(measured: float) -> float:
    """Return the restart's cost to count with: the measured one, else the default; never negative."""
    return measured if measured > 0 and not math.isnan(measured) else DEFAULT_RESTART_SECONDS


def too_often(changes_last_hour: int, limits: Limits) -> bool:
    """Return whether one more change would be more than the job may have an hour."""
    return limits.changes_per_hour > 0 and changes_last_hour >= limits.changes_per_hour
