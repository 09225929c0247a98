"""The plan of one job: keep its size, change it, explore, or say that nothing can be said; with what was weighed.

A change costs a restart: seconds at no speed. It is made when, on joint draws of the speeds, it is paid back within
the horizon with a probability of ``SURE`` and its expected gain passes the hysteresis. Where the speed at a size is
still too uncertain for that, the same draws say whether a trial, assumed to last ``trial_seconds``, is worth
it if the job returns from a disappointment; that is called an exploration.
"""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from convoy.brain.plan import explain, guards
from convoy.brain.plan.answer import Decision, JobRecommendation, JobRequest, Stage
from convoy.brain.plan.options import SpeedModel, weighed
from convoy.brain.plan.prices import Prices
from convoy.brain.plan.running import running
from convoy.brain.plan.start import back_within, start


def plan_job(
    model: SpeedModel, observed: pd.DataFrame, request: JobRequest, prices: Prices | None = None
) -> JobRecommendation:
    """Recommend the size of one job.

    Args:
        model: predicts and draws speeds.
        observed: the job's own measurements (``ThroughputModel``'s columns); may be empty.
        request: the job and its limits.
        prices: of resources; missing ones leave the price unknown and change no decision.

    Returns:
        The decision; its reason is one of ``NothingFits``, ``NoObservations``, ``NothingKnown``,
        ``StrategyNotPlanned``, ``UnknownObjective`` (UNDEFINED); ``ReplicasGiven``, ``OnlySize``,
        ``ChangedTooOften``, ``AlreadyBest``, ``GainTooSmall``, ``RestartNotPaidBack``, ``TooUncertain`` (KEEP);
        ``MoreSpeed``, ``StartFromHistory``, ``BackWithinLimits`` (CHANGE); ``NoHistoryYet``, ``Uncertain`` (EXPLORE).
        Never a size outside the limits, never zero workers.
    """
    priced = prices or Prices()
    recommendation = _decide(model, observed, request, priced)
    own = observed["job"].eq(request.job).sum() if "job" in observed.columns else len(observed)
    return replace(recommendation, currency=priced.currency, observations=int(own), history_jobs=model.history_jobs)


def _decide(model: SpeedModel, observed: pd.DataFrame, request: JobRequest, prices: Prices) -> JobRecommendation:
    current = request.current_workers
    if request.objective != "throughput":
        message = f"objective '{request.objective}' isn't known: expected 'throughput'"
        return JobRecommendation(Decision.UNDEFINED, "UnknownObjective", message, current)
    if request.strategy not in ("", "allreduce"):
        message = f"sizes of jobs with strategy '{request.strategy}' aren't planned yet: expected 'allreduce'"
        return JobRecommendation(Decision.UNDEFINED, "StrategyNotPlanned", message, current)
    caps = guards.allowed_sizes(request.limits, request.processes_per_worker)
    if not caps.sizes:
        message = (
            f"no size fits: at least {explain.workers(max(1, request.limits.min_workers))} wanted, "
            f"but the limit is {caps.bound}"
        )
        return JobRecommendation(Decision.UNDEFINED, "NothingFits", message, current)
    sizes = list(caps.sizes) if current in caps.sizes or current <= 0 else sorted({*caps.sizes, current})
    own = observed[observed["job"].eq(request.job)] if "job" in observed.columns else observed
    table = weighed(model, own, request, sizes, prices)
    if request.stage is Stage.START or current <= 0:
        return start(model, own, request, table, caps)
    if current not in caps.sizes:
        return back_within(request, table, caps)
    return running(model, own, request, table, caps, prices)
