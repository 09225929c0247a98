"""The answer put together: the chosen option, or that nothing can be said, with all that was weighed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from convoy.brain.plan.answer import Decision, JobRecommendation, JobRequest, Option


def answered(
    decision: Decision, reason: str, message: str, chosen: Option, options: Sequence[Option], verdict: str
) -> JobRecommendation:
    """Return an answer about one of the options."""
    weighed = tuple(replace(option, verdict=verdict) if option.size == chosen.size else option for option in options)
    return JobRecommendation(
        decision,
        reason,
        message,
        chosen.workers,
        chosen.predicted,
        chosen.lower90,
        chosen.upper90,
        chosen.lower99,
        chosen.upper99,
        chosen.price_per_hour,
        options=weighed,
        target_ps=chosen.ps,
        target_batch=chosen.batch,
        goodput=chosen.goodput,
    )


def undefined(request: JobRequest, options: Sequence[Option], reason: str, message: str) -> JobRecommendation:
    """Return that nothing can be said."""
    weighed = tuple(replace(option, verdict=option.verdict or "undefined") for option in options)
    return JobRecommendation(
        Decision.UNDEFINED,
        reason,
        message,
        request.current_workers,
        options=weighed,
        target_ps=request.current.ps,
    )
