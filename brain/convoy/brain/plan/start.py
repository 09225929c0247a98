"""The size that a job starts with, and the way back within its limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from convoy.brain.plan import explain
from convoy.brain.plan.answer import Decision, JobRecommendation, JobRequest, Objective, Option
from convoy.brain.plan.objective import best_of, worth
from convoy.brain.plan.reply import answered, undefined
from convoy.brain.plan.sizes import Caps, Size


def start(
    request: JobRequest, options: list[Option], caps: Caps, history_jobs: int, alike: Size | None, scope: str
) -> JobRecommendation:
    """Return what a job starts with: what it asks for, else what history says, else nothing.

    Args:
        request: the job, which may ask for a number of workers.
        options: the sizes within its limits.
        caps: its limits.
        history_jobs: past jobs whose speeds the predictions rest on.
        alike: what turned out right for jobs like it; None: that isn't known.
        scope: how that is known, a stable word.
    """
    if request.current_workers > 0:
        chosen = next((o for o in options if o.size == request.current), options[0])
        if chosen.size in caps.sizes:
            message = f"starting with {explain.size(chosen.size)}, as the job asks"
            return answered(Decision.KEEP, "ReplicasGiven", message, chosen, options, "chosen: the job asks for it")
        return back_within(request, options, caps)
    objective = request.objective if request.objective == Objective.COST else Objective.THROUGHPUT
    known = [option for option in options if math.isfinite(worth(option, objective))]
    if known and history_jobs:
        return _by_speed(known, options, objective, history_jobs)
    if alike is not None:
        chosen = _nearest(alike, [option for option in options if option.size in caps.sizes])
        message = f"starting with {explain.size(chosen.size)}: what turned out right for jobs like it ({scope})"
        return answered(Decision.CHANGE, "StartLikeOthers", message, chosen, options, "chosen")
    return undefined(
        request, options, "NothingKnown", "no history says how such a job scales: the job starts as it is written"
    )


def _by_speed(
    known: Sequence[Option], options: Sequence[Option], objective: str, history_jobs: int
) -> JobRecommendation:
    best = best_of(known, objective)
    judged = [
        replace(
            option,
            verdict=f"expected {worth(option, objective) / worth(best, objective) - 1:+.0%} against "
            f"{explain.size(best.size)}",
        )
        for option in options
    ]
    interval = explain.interval(best.predicted, best.lower90, best.upper90)
    message = f"starting with {explain.size(best.size)}: by {history_jobs} past jobs, {interval}"
    return answered(Decision.CHANGE, "StartFromHistory", message, best, judged, "chosen")


def back_within(request: JobRequest, options: list[Option], caps: Caps) -> JobRecommendation:
    """Move a job whose present size isn't allowed (any more) to the nearest size that is."""
    allowed = [option for option in options if option.size in caps.sizes]
    chosen = _nearest(request.current, allowed)
    first, last = caps.sizes[0], caps.sizes[-1]
    message = (
        f"{explain.size(request.current)} {'is' if request.current_workers == 1 else 'are'} outside the limits "
        f"({first.workers} to {last.workers}, {caps.bound}): {explain.size(chosen.size)} is the nearest size"
    )
    return answered(
        Decision.CHANGE, "BackWithinLimits", message, chosen, options, "chosen: nearest within the limits"
    )


def _nearest(wanted: Size, options: Sequence[Option]) -> Option:
    """Return the option that is nearest in workers, then in servers; the smaller of two."""
    return min(
        options,
        key=lambda o: (abs(o.workers - wanted.workers), abs(o.ps - wanted.ps), o.workers, o.ps, o.size),
    )
