"""Decisions in words: one sentence with the numbers, for people, conditions and the report."""

from __future__ import annotations

import math

from convoy.brain.plan.prices import Prices


def speed(value: float) -> str:
    """Return samples/s to three figures."""
    return "unknown" if math.isnan(value) else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def interval(predicted: float, lower: float, upper: float) -> str:
    """Return a predicted speed with its 90 % interval."""
    return f"{speed(predicted)} samples/s (90 % interval {speed(lower)} to {speed(upper)})"


def price(per_hour: float, prices: Prices) -> str:
    """Return a price per hour, or that it isn't known."""
    return "price unknown" if math.isnan(per_hour) else f"{per_hour:.3g} {prices.currency}/h"


def workers(count: int) -> str:
    """Return a number of workers."""
    return f"{count} worker" if count == 1 else f"{count} workers"


def duration(seconds: float) -> str:
    """Return seconds in the largest unit that reads well."""
    if not math.isfinite(seconds):
        return "unbounded time"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def change(current: int, target: int, gain: float, sure: float, restart: float, horizon: float) -> str:
    """Return why a change pays."""
    return (
        f"from {workers(current)} to {workers(target)}: expected {gain:+.0%} speed; a restart of {duration(restart)} "
        f"is paid back within {duration(horizon)} with probability {sure:.0%}"
    )
