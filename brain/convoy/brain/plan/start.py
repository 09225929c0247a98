"""The size that a job starts with, and the way back within its limits."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd

from convoy.brain.plan import explain, guards
from convoy.brain.plan.answer import Decision, JobRecommendation, JobRequest, Option
from convoy.brain.plan.options import SpeedModel
from convoy.brain.plan.reply import answered, best_of, undefined


def start(
    model: SpeedModel, own: pd.DataFrame, request: JobRequest, options: list[Option], caps: guards.Caps
) -> JobRecommendation:
    """Return what a job starts with: what it asks for, else what history says, else nothing."""
    if request.current_workers > 0:
        chosen = next((o for o in options if o.workers == request.current_workers), options[0])
        if chosen.workers in caps.sizes:
            message = f"starting with {explain.workers(chosen.workers)}, as the job asks"
            return answered(Decision.KEEP, "ReplicasGiven", message, chosen, options, "chosen: the job asks for it")
        return back_within(request, options, caps)
    known = [option for option in options if math.isfinite(option.predicted)]
    if not known or not model.history_jobs:
        return undefined(
            request, options, "NothingKnown", "no history says how such a job scales: the job starts as it is written"
        )
    best = best_of(known)
    judged = [
        replace(
            o, verdict=f"expected {o.predicted / best.predicted - 1:+.0%} against {explain.workers(best.workers)}"
        )
        for o in options
    ]
    interval = explain.interval(best.predicted, best.lower90, best.upper90)
    message = f"starting with {explain.workers(best.workers)}: by {model.history_jobs} past jobs, {interval}"
    return answered(Decision.CHANGE, "StartFromHistory", message, best, judged, "chosen")


def back_within(request: JobRequest, options: list[Option], caps: guards.Caps) -> JobRecommendation:
    """Move a job whose present size isn't allowed (any more) to the nearest size that is."""
    nearest = min(caps.sizes, key=lambda size: (abs(size - request.current_workers), size))
    chosen = next(option for option in options if option.workers == nearest)
    message = (
        f"{explain.workers(request.current_workers)} are outside the limits ({caps.sizes[0]} to {caps.sizes[-1]}, "
        f"{caps.bound}): {explain.workers(nearest)} is the nearest size"
    )
    return answered(
        Decision.CHANGE, "BackWithinLimits", message, chosen, options, "chosen: nearest within the limits"
    )
