"""Why nothing may be changed now, whatever would be better: a pin, a freeze, too many changes within the hour."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from convoy.brain.plan import explain, guards
from convoy.brain.plan.answer import Decision, JobRecommendation, JobRequest, Stage
from convoy.brain.plan.reply import answered

URGENT = ("BackWithinLimits", "OutOfMemory")
"""Reasons of changes that don't wait for the hour to be over."""


@dataclass(frozen=True, slots=True)
class Hold:
    """What keeps a job from being changed: a stable reason, and words for it."""

    reason: str
    words: str


def hold_of(request: JobRequest, *, urgent: bool = False) -> Hold | None:
    """Return what keeps a job as it is now, whatever would be better; None: nothing does.

    Args:
        request: the job.
        urgent: of a change that doesn't wait for the hour to be over.
    """
    if request.pinned:
        return Hold("Pinned", "the job is pinned")
    if request.frozen_seconds > 0:
        return Hold("Frozen", f"nothing may be changed for another {explain.duration(request.frozen_seconds)}")
    if guards.too_often(request.changes_last_hour, request.limits) and not urgent:
        words = f"{request.changes_last_hour} changes in the last hour, {request.limits.changes_per_hour} allowed"
        return Hold("ChangedTooOften", words)
    return None


def held(answer: JobRecommendation, request: JobRequest) -> JobRecommendation:
    """Return the answer, or that the present size is kept, and what would be recommended otherwise."""
    if not answer.moves or request.stage is Stage.START or request.current_workers <= 0:
        return answer
    obstacle = hold_of(request, urgent=answer.reason in URGENT)
    if obstacle is None:
        return answer
    reason, why = obstacle.reason, obstacle.words
    message = f"keeping {explain.size(request.current)}: {why}; otherwise: {answer.message}"
    present = next((option for option in answer.options if option.size == request.current), None)
    roles = tuple(replace(role, decided=False) for role in answer.roles)
    if present is None:
        return replace(
            answer,
            decision=Decision.KEEP,
            reason=reason,
            message=message,
            target_workers=request.current_workers,
            target_ps=request.current.ps,
            target_batch=0,
            predicted=math.nan,
            lower90=math.nan,
            upper90=math.nan,
            lower99=math.nan,
            upper99=math.nan,
            price_per_hour=math.nan,
            goodput=math.nan,
            roles=roles,
        )
    kept = answered(Decision.KEEP, reason, message, present, answer.options, f"chosen: {why}")
    return replace(kept, roles=roles, notes=answer.notes)
