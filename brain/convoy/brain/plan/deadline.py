"""Finishing in time: the cheapest size that does, restart counted; by price, where none is known by nodes.

A job that is late at every size goes for speed, as with the objective of throughput.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from convoy.brain.plan import explain, guards
from convoy.brain.plan.answer import Decision, JobRecommendation, JobRequest, Option
from convoy.brain.plan.options import Array
from convoy.brain.plan.prices import Prices
from convoy.brain.plan.reply import answered


def in_time(
    options: Sequence[Option], speeds: Array, present: Option, request: JobRequest, restart: float
) -> list[Option]:
    """Return the options with the probability that the job finishes before its deadline at each."""
    judged = []
    for place, option in enumerate(options):
        left = request.deadline_seconds - (0.0 if option.size == present.size else restart)
        drawn = speeds[:, place]
        known = bool(np.isfinite(drawn).all())
        sure = float(np.mean(max(left, 0.0) * drawn >= request.remaining_samples)) if known else math.nan
        judged.append(replace(option, in_time=sure))
    return judged


def settled(
    options: Sequence[Option], present: Option, request: JobRequest, restart: float, prices: Prices
) -> JobRecommendation | None:
    """Return the answer where some size finishes in time with probability ``SURE``; None where none does."""
    if request.remaining_samples <= 0:
        return answered(
            Decision.KEEP, "NothingLeft", "no sample is left to train", present, options, "chosen: present size"
        )
    good = [option for option in options if option is not present and _sure(option)]
    best = min(good, key=lambda option: (_cost(option, request, restart), option.amount), default=None)
    if _sure(present):
        now = _cost(present, request, 0.0)
        if best is None or _cost(best, request, restart) >= (1 - guards.MIN_GAIN) * now:
            message = f"keeping {explain.size(present.size)}: {told(request, present)}, and no other size is cheaper"
            return answered(Decision.KEEP, "InTime", message, present, _told(options, best), "chosen: present size")
        saved = 1 - _cost(best, request, restart) / now
        message = (
            f"from {explain.size(present.size)} to {explain.size(best.size)}: {told(request, best)} as well, for "
            f"{saved:.0%} less; {explain.price(best.price_per_hour, prices)}"
        )
        return answered(Decision.CHANGE, "CheaperInTime", message, best, _told(options, best), "chosen")
    if best is None:
        return None
    message = (
        f"from {explain.size(present.size)} to {explain.size(best.size)}: {told(request, best)}, a restart of "
        f"{explain.duration(restart)} counted; as it is it would with probability {present.in_time:.0%} only; "
        f"{explain.price(best.price_per_hour, prices)}"
    )
    return answered(Decision.CHANGE, "LateOtherwise", message, best, _told(options, best), "chosen")


def told(request: JobRequest, option: Option) -> str:
    """Return how likely a size finishes in time, in words."""
    left = max(request.deadline_seconds, 0.0)
    return (
        f"its {request.remaining_samples:,.0f} samples are done within the {explain.duration(left)} left with "
        f"probability {option.in_time:.0%}"
    )


def _sure(option: Option) -> bool:
    """Whether a size finishes in time, and enough is known of it to rely on that."""
    return option.in_time >= guards.SURE and option.basis != "NoHistory"


def _cost(option: Option, request: JobRequest, restart: float) -> float:
    """Return what finishing costs: price, or nodes where that isn't known, times the seconds that it takes."""
    price, nodes = option.amount
    seconds = restart + request.remaining_samples / option.predicted
    return (price or nodes) * seconds


def _told(options: Sequence[Option], best: Option | None) -> list[Option]:
    return [
        option
        if option.verdict == "present size" or (best is not None and option.size == best.size)
        else replace(option, verdict=f"in time with probability {option.in_time:.0%}")
        for option in options
    ]
