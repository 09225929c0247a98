"""The answer put together: the chosen option, or that nothing can be said, with all that was weighed."""

from __future__ import annotations

from dataclasses import replace

from convoy.brain.plan import guards
from convoy.brain.plan.answer import Decision, JobRecommendation, JobRequest, Option


def answered(
    decision: Decision, reason: str, message: str, chosen: Option, options: list[Option], verdict: str
) -> JobRecommendation:
    """Return an answer about one of the options."""
    weighed = tuple(
        replace(option, verdict=verdict) if option.workers == chosen.workers else option for option in options
    )
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
    )


def undefined(request: JobRequest, options: list[Option], reason: str, message: str) -> JobRecommendation:
    """Return that nothing can be said."""
    weighed = tuple(replace(option, verdict=option.verdict or "undefined") for option in options)
    return JobRecommendation(Decision.UNDEFINED, reason, message, request.current_workers, options=weighed)


def best_of(options: list[Option]) -> Option:
    """Return the smallest size whose predicted speed is within ``CLOSE`` of the fastest."""
    fastest = max(option.predicted for option in options)
    return min((o for o in options if o.predicted >= (1 - guards.CLOSE) * fastest), key=lambda o: o.workers)
