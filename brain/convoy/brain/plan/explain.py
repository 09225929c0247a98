"""Decisions in words: one sentence with the numbers, for people, conditions and the report."""

from __future__ import annotations

import math

from convoy.brain.plan.prices import Prices
from convoy.brain.plan.sizes import Size


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


def size(one: Size) -> str:
    """Return a size: workers, servers if there are any, and what is other than now."""
    words = workers(one.workers) + (f" of {one.worker_cpu:g} cores" if one.worker_cpu else "")
    if one.ps:
        words += f" and {one.ps} server{'' if one.ps == 1 else 's'}"
        words += f" of {one.ps_cpu:g} cores" if one.ps_cpu else ""
    return words + (f" with a batch of {one.batch}" if one.batch else "")


def memory(amount: float) -> str:
    """Return bytes in the unit that reads well."""
    return f"{amount / 2**30:.3g} GiB" if amount >= 2**30 else f"{amount / 2**20:.3g} MiB"


def duration(seconds: float) -> str:
    """Return seconds in the largest unit that reads well."""
    if not math.isfinite(seconds):
        return "unbounded time"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def change(current: Size, target: Size, gain: float, of: str, sure: float, restart: float, horizon: float) -> str:
    """Return why a change pays; ``of``: what is gained."""
    return (
        f"from {size(current)} to {size(target)}: expected {gain:+.0%} {of}; a restart of {duration(restart)} "
        f"is paid back within {duration(horizon)} with probability {sure:.0%}"
    )
