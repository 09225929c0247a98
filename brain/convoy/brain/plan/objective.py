"""What sizes are compared by: samples a second, or samples for the money."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from convoy.brain.plan.answer import JobRequest, Objective, Option
from convoy.brain.plan.guards import CLOSE
from convoy.brain.plan.options import Array

WORDS = {Objective.THROUGHPUT: "speed", Objective.COST: "samples for the money", Objective.DEADLINE: "speed"}
BETTER = {Objective.THROUGHPUT: "faster", Objective.COST: "cheaper per sample", Objective.DEADLINE: "faster"}
CHANGED = {Objective.THROUGHPUT: "MoreSpeed", Objective.COST: "LessCost", Objective.DEADLINE: "DeadlineAtRisk"}


def obstacle(request: JobRequest, present: Option | None) -> tuple[str, str] | None:
    """Return why the objective can't be planned for, a stable reason and a sentence; None: it can.

    ``present``: the size that the job has; None before its start.
    """
    if request.objective not in set(Objective):
        expected = ", ".join(Objective)
        return "UnknownObjective", f"objective {request.objective!r} isn't known; expected one of {expected}"
    if request.objective == Objective.COST and present is not None and not present.price_per_hour > 0:
        return "PriceUnknown", (
            "nothing is known of what the job's resources cost, so that cost can't be compared; set the prices "
            "(CONVOY_PRICE_CPU_HOUR and the like), or another objective"
        )
    if request.objective == Objective.DEADLINE and math.isnan(request.deadline_seconds):
        return "DeadlineUnknown", "the objective is a deadline, and none is given"
    if request.objective == Objective.DEADLINE and math.isnan(request.remaining_samples):
        return "RemainingUnknown", "the objective is a deadline, and how many samples are left isn't known"
    return None


def worth(option: Option, objective: str) -> float:
    """Return what an option is expected to be worth by the objective; NaN where that isn't known."""
    if objective == Objective.COST:
        return option.predicted / option.price_per_hour if option.price_per_hour > 0 else math.nan
    return option.predicted


def worths(speeds: Array, options: Sequence[Option], objective: str) -> Array:
    """Return joint draws (draws, options) of what options are worth."""
    if objective != Objective.COST:
        return speeds
    prices = np.array([option.price_per_hour if option.price_per_hour > 0 else np.nan for option in options])
    return np.asarray(speeds / prices)


def best_of(options: Sequence[Option], objective: str) -> Option:
    """Return the option that takes the least of those whose worth is within ``CLOSE`` of the best; one at least."""
    known = [option for option in options if math.isfinite(worth(option, objective))] or list(options)
    best = max(worth(option, objective) for option in known)
    return min(
        (option for option in known if not worth(option, objective) < (1 - CLOSE) * best),
        key=lambda option: option.amount,
    )
