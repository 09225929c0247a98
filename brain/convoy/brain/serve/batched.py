"""A job's plan; where its batch may be raised by goodput, speed times what a sample of a larger batch is worth.

What is predicted of a size stays a speed: samples/s that can be measured. So what comes of a plan is compared with
what was said of it, whatever it was chosen by; the goodput that it was chosen by stands beside it.
"""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from convoy.brain.models.efficiency import EfficiencyModel, GoodputModel
from convoy.brain.plan import JobRecommendation, JobRequest, Needs, Option, Prices, plan_job
from convoy.brain.plan.explain import interval, speed
from convoy.brain.plan.options import SpeedModel, completed, query, weighed

UNIT = "sizes were chosen by goodput, speed times what a sample of a batch is worth beside one of its initial batch"
_SPEEDS = ("predicted", "lower90", "upper90", "lower99", "upper99", "price_per_million_samples")


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
    by_goodput = plan_job(GoodputModel(model, efficiency), observed, raised, prices, needs)
    found = in_speeds(by_goodput, model, observed, request, prices)
    if "batch" in request.adjustable:
        return replace(found, notes=(*found.notes, UNIT))
    if not found.target_batch:
        return answer
    return replace(answer, notes=(*answer.notes, f"advice that isn't carried out by itself: {found.message}; {UNIT}"))


def in_speeds(
    answer: JobRecommendation, model: SpeedModel, observed: pd.DataFrame, request: JobRequest, prices: Prices
) -> JobRecommendation:
    """Return an answer by goodput with the speeds that can be measured in their place, the goodput beside them.

    Args:
        answer: its predictions are goodput.
        model: of speeds.
        observed: the job's measurements.
        request: the job.
        prices: of resources.
    """
    own = observed[observed["job"].eq(request.job)] if "job" in observed.columns else observed
    if not answer.options:
        return answer
    speeds = weighed(model, own, request, [option.size for option in answer.options], prices)
    options = tuple(_measured(one, beside) for one, beside in zip(answer.options, speeds, strict=True))
    target = next((one for one in options if one.goodput == answer.predicted and _is_target(one, answer)), None)
    if target is None:
        return replace(answer, options=options)
    numbers = {name: getattr(target, name) for name in (*_SPEEDS[:-1], "goodput")}
    measured = interval(target.predicted, target.lower90, target.upper90)
    message = answer.message
    if abs(target.predicted / target.goodput - 1.0) > 1e-6:
        message += f"; that is goodput: {speed(target.goodput)} of its initial batch are measured as {measured}"
    return replace(answer, options=options, message=message, **numbers)


def _is_target(option: Option, answer: JobRecommendation) -> bool:
    return (option.workers, option.ps, option.batch) == (answer.target_workers, answer.target_ps, answer.target_batch)


def _measured(option: Option, speeds: Option) -> Option:
    return replace(option, goodput=option.predicted, **{name: getattr(speeds, name) for name in _SPEEDS})
