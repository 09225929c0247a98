"""Why the speed of a recommended size is predicted to be what it is, for the evidence that is stored with an answer.

An explanation that fails is named and costs no answer.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from convoy.brain.models import ThroughputModel
from convoy.brain.models.throughput.explain import nothing
from convoy.brain.plan import JobRecommendation, JobRequest
from convoy.brain.plan.options import completed, query
from convoy.core.process import logs

log = logs.get("brain")

FAILED = "ExplanationFailed"
"""Reason of an explanation that a fault prevented."""


def explained(
    model: ThroughputModel, observed: pd.DataFrame, request: JobRequest, answer: JobRecommendation
) -> dict[str, Any]:
    """Return the explanation of the size that ``answer`` names as JSON has it; ``undefined`` where there is none."""
    try:
        return _explained(model, observed, request, answer)
    except Exception as error:
        log.error("an explanation failed", job=request.job, exc_info=error)
        return nothing(FAILED).document()


def _explained(
    model: ThroughputModel, observed: pd.DataFrame, request: JobRequest, answer: JobRecommendation
) -> dict[str, Any]:
    named = [at for at, one in enumerate(answer.options) if one.predicted == answer.predicted]
    same = [at for at in named if answer.options[at].workers == answer.target_workers]
    if not same:
        return nothing(answer.reason).document()
    own = observed[observed["job"].eq(request.job)] if "job" in observed.columns else observed
    asked = query(own, request, [option.size for option in answer.options])
    return model.explain(completed(own, request), asked, chosen=same[0]).document()


def sentences(explanation: dict[str, Any]) -> tuple[str, ...]:
    """Return an explanation's sentences; none of an answer that was stored without one."""
    found = explanation.get("sentences")
    return tuple(str(one) for one in found) if isinstance(found, list) else ()
