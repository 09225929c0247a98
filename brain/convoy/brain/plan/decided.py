"""What people decided about recommendations, heeded in the next one. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from convoy.brain.plan import explain
from convoy.brain.plan.answer import Decision, JobRecommendation

REFUSED_BEFORE = "RefusedBefore"
"""Reason of keeping a size where the better one was refused by a person."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Who refused to have a job that large, when and why."""

    workers: int
    by: str
    at: datetime
    why: str


def heeded(answer: JobRecommendation, current: int, refusals: Iterable[Refusal]) -> JobRecommendation:
    """Return the answer, or that the job keeps its size where the one that it names was refused.

    Args:
        answer: as it would be.
        current: size of the job, workers.
        refusals: sizes that were refused lately, the latest first.
    """
    if answer.decision not in (Decision.CHANGE, Decision.EXPLORE) or answer.target_workers == current:
        return answer
    refused = next((one for one in refusals if one.workers == answer.target_workers), None)
    if refused is None:
        return answer
    why = f" ({refused.why})" if refused.why else ""
    message = (
        f"{explain.workers(refused.workers)} would be recommended [{answer.reason}], but {refused.by} refused that on "
        f"{refused.at:%Y-%m-%d %H:%M} UTC{why}; the job keeps its size"
    )
    kept = next((option for option in answer.options if option.workers == current), None)
    numbers: dict[str, Any] = {
        name: math.nan if kept is None else getattr(kept, name)
        for name in ("predicted", "lower90", "upper90", "lower99", "upper99", "price_per_hour")
    }
    return replace(
        answer,
        decision=Decision.KEEP,
        reason=REFUSED_BEFORE,
        message=message,
        target_workers=current,
        options=tuple(replace(one, verdict=_verdict(one.workers, refused, one.verdict)) for one in answer.options),
        **numbers,
    )


def _verdict(workers: int, refused: Refusal, verdict: str) -> str:
    return f"refused by {refused.by}" if workers == refused.workers else verdict
