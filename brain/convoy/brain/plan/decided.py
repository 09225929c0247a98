"""An answer changed by what others decided: people who refused a size, or the plan of all jobs together. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from convoy.brain.plan import explain
from convoy.brain.plan.answer import Decision, JobRecommendation
from convoy.brain.plan.hold import URGENT

REFUSED_BEFORE = "RefusedBefore"
"""Reason of keeping a size where the better one was refused by a person."""
_NUMBERS = ("predicted", "lower90", "upper90", "lower99", "upper99", "price_per_hour", "goodput")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Who refused to have a job that large, when and why."""

    workers: int
    by: str
    at: datetime
    why: str

    @property
    def words(self) -> str:
        """Return who refused it, when and why."""
        why = f" ({self.why})" if self.why else ""
        return f"{self.by} refused that on {self.at:%Y-%m-%d %H:%M} UTC{why}"


def resized(
    answer: JobRecommendation, decision: Decision, reason: str, message: str, workers: int, ps: int, batch: int = 0
) -> JobRecommendation:
    """Return another size as the answer, with the numbers that were weighed for it; NaN where it wasn't weighed."""
    wanted = (workers, ps, batch)
    option = next((one for one in answer.options if (one.workers, one.ps or ps, one.batch) == wanted), None)
    numbers: dict[str, Any] = {name: math.nan if option is None else getattr(option, name) for name in _NUMBERS}
    return replace(
        answer,
        decision=decision,
        reason=reason,
        message=message,
        target_workers=workers,
        target_ps=ps,
        target_batch=batch,
        roles=(),
        **numbers,
    )


def heeded(answer: JobRecommendation, current: int, ps: int, refusals: Iterable[Refusal]) -> JobRecommendation:
    """Return the answer, or that the job keeps its size where the one that it names was refused.

    Args:
        answer: as it would be.
        current: workers that the job has.
        ps: servers that it has.
        refusals: sizes that were refused lately, the latest first.
    """
    if not answer.moves or answer.target_workers == current or answer.reason in URGENT:
        return answer
    refused = next((one for one in refusals if one.workers == answer.target_workers), None)
    if refused is None:
        return answer
    message = (
        f"{explain.workers(refused.workers)} would be recommended [{answer.reason}], but {refused.words}; the job "
        "keeps its size"
    )
    told = tuple(
        replace(one, verdict=f"refused by {refused.by}") if one.workers == refused.workers else one
        for one in answer.options
    )
    return resized(replace(answer, options=told), Decision.KEEP, REFUSED_BEFORE, message, current, ps)
