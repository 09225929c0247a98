"""A job's plan; where its batch may be raised by goodput, speed times what a sample of a larger batch is worth."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from convoy.brain.models.efficiency import EfficiencyModel, GoodputModel
from convoy.brain.plan import JobRecommendation, JobRequest, Needs, Prices, plan_job
from convoy.brain.plan.options import SpeedModel, completed, query

UNIT = "speeds are in samples/s of its initial batch: a sample of a larger one is worth less"


def planned(
    model: SpeedModel,
    observed: pd.DataFrame,
    request: JobRequest,
    prices: Prices,
    needs: Needs,
    efficiency: EfficiencyModel,
) -> JobRecommendation:
    """Return the plan, with larger batches weighed where the job allows them and its gradients' noise is known.

    Where the batch can't be adjusted they are a note.
    """
    by_speed = replace(request, adjustable=tuple(name for name in request.adjustable if name != "batch"))
    answer = plan_job(model, observed, by_speed, prices, needs)
    batch = request.limits.global_batch
    if not 0 < batch < request.limits.max_batch or not answer.observations:
        return answer
    worth = efficiency.predict(completed(observed, request), query(observed, request, [request.current])).iloc[0]
    if not worth["mean"] > 0:
        note = f"its batch may be raised, but what that is worth isn't known: {worth['reason']}"
        return replace(answer, notes=(*answer.notes, note))
    raised = replace(request, adjustable=(*by_speed.adjustable, "batch"))
    found = plan_job(GoodputModel(model, efficiency), observed, raised, prices, needs)
    if "batch" in request.adjustable:
        return replace(found, notes=(*found.notes, UNIT))
    if not found.target_batch:
        return answer
    return replace(answer, notes=(*answer.notes, f"advice that isn't carried out by itself: {found.message}; {UNIT}"))
