"""The plan of one job: keep its size, change it, explore, or say that nothing can be said; with what was weighed.

A change costs a restart: seconds at no speed. It is made when, on joint draws of the speeds, it is paid back within
the horizon with a probability of ``SURE`` and its expected gain passes the hysteresis. Where the speed at a size is
still too uncertain for that, the same draws say whether a trial, assumed to last ``trial_seconds``, is worth
it if the job returns from a disappointment; that is called an exploration.

Sizes are numbers of workers and parameter servers (``sizes``), and more cores where a role is short of them
(``heat``). Cores and memory that are idle, or that a pod was killed for, come after that (``roles``, ``resources``),
and last what forbids any change (``hold``).
"""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from convoy.brain.plan import explain
from convoy.brain.plan.answer import Decision, JobRecommendation, JobRequest, Objective, RoleAdvice, Stage
from convoy.brain.plan.batch import batches, with_larger_batches
from convoy.brain.plan.heat import Heat, heat_of, with_more_cores
from convoy.brain.plan.hold import held
from convoy.brain.plan.needs import Needs
from convoy.brain.plan.objective import obstacle
from convoy.brain.plan.options import SpeedModel, weighed
from convoy.brain.plan.prices import Prices
from convoy.brain.plan.reply import undefined
from convoy.brain.plan.resources import with_roles
from convoy.brain.plan.roles import Situation, roles_of, started
from convoy.brain.plan.running import running
from convoy.brain.plan.sizes import MOST_SIZES, Caps, Size, sizes_within
from convoy.brain.plan.start import back_within, start
from convoy.brain.plan.startup import Beginning, beginning


def plan_job(
    model: SpeedModel,
    observed: pd.DataFrame,
    request: JobRequest,
    prices: Prices | None = None,
    needs: Needs | None = None,
) -> JobRecommendation:
    """Recommend the size of one job, and the cores and memory of its pods.

    Args:
        model: predicts and draws speeds.
        observed: the job's own measurements (``ThroughputModel``'s columns); may be empty.
        request: the job and its limits.
        prices: of resources; missing ones leave the price unknown: only the objective ``cost`` needs them.
        needs: models of what pods use and need; what it lacks, nothing is said of.

    Returns:
        The decision; its reason is one of
        UNDEFINED: ``NothingFits``, ``NoObservations``, ``NothingKnown``, ``StrategyNotPlanned``,
        ``UnknownObjective``, ``PriceUnknown``, ``DeadlineUnknown``, ``RemainingUnknown``;
        KEEP: ``ReplicasGiven``, ``OnlySize``, ``AlreadyBest``, ``GainTooSmall``, ``RestartNotPaidBack``,
        ``TooUncertain``, ``InTime``, ``DeadlineOutOfReach``, ``DeadlinePassed``, ``NothingLeft``, ``Pinned``,
        ``Frozen``, ``ChangedTooOften``;
        CHANGE: ``MoreSpeed``, ``LessCost``, ``LateOtherwise``, ``CheaperInTime``, ``DeadlineAtRisk``, ``HotServer``,
        ``ServersOverloaded``, ``WorkersShortOfCores``, ``OutOfMemory``, ``IdleResources``, ``StartFromHistory``,
        ``StartLikeOthers``, ``BackWithinLimits``;
        EXPLORE: ``NoHistoryYet``, ``Uncertain``.
        Never a size outside the limits, never zero workers.
    """
    priced, known = prices or Prices(), needs or Needs()
    own = observed[observed["job"].eq(request.job)] if "job" in observed.columns else observed
    begun = beginning(_placed(request, own), known)
    heat = heat_of(own, begun.request)
    answer = _decide(model, own, begun, heat, priced)
    answer = _said_hot(answer, begun.request, heat)
    answer = with_roles(answer, begun.request, _roles(model, own, begun, answer, heat, known), priced)
    answer = held(answer, begun.request)
    return replace(
        answer,
        currency=priced.currency,
        observations=len(own),
        history_jobs=model.history_jobs,
        objective=request.objective,
    )


def _placed(request: JobRequest, own: pd.DataFrame) -> JobRequest:
    """Return the request with the servers that the job was last measured with, where it doesn't say."""
    if not request.served or request.current_ps > 0 or request.stage is Stage.START:
        return request
    told = own["ps"].dropna() if "ps" in own.columns else pd.Series(dtype=float)
    return replace(request, current_ps=max(1, int(told.iloc[-1])) if len(told) else 1)


def _decide(
    model: SpeedModel, own: pd.DataFrame, begun: Beginning, heat: tuple[Heat, ...], prices: Prices
) -> JobRecommendation:
    request = begun.request
    if request.strategy not in ("allreduce", "ps"):
        message = f"strategy {request.strategy!r} isn't planned for by this version; its size stays as it is"
        return undefined(request, [], "StrategyNotPlanned", message)
    problem = obstacle(request, None)
    if problem is not None and (request.stage is Stage.RUNNING or problem[0] == "UnknownObjective"):
        return undefined(request, [], *problem)
    caps = _caps(request)
    if not caps.sizes:
        message = (
            f"no size fits: at least {explain.workers(max(1, request.limits.min_workers))} wanted, "
            f"but the limit is {caps.bound}"
        )
        return undefined(request, [], "NothingFits", message)
    before = request.stage is Stage.START or request.current_workers <= 0
    sizes = set(caps.sizes) | ({request.current} if request.current_workers > 0 else set())
    if not before:
        sizes |= {*with_more_cores(heat, request), *with_larger_batches(request)}
    options = weighed(model, own, request, sorted(sizes), prices)
    if before:
        return start(request, options, caps, model.history_jobs, begun.alike, begun.scope)
    if request.current not in caps.sizes:
        return back_within(request, options, caps)
    return running(model, own, request, options, caps, prices)


def _caps(request: JobRequest) -> Caps:
    """Return the sizes within the limits, of what can be adjusted."""
    limits, here = request.limits, request.current
    if "ps" not in request.adjustable and here.ps > 0:
        limits = replace(limits, min_ps=here.ps, max_ps=here.ps)
    if "workers" not in request.adjustable and here.workers > 0:
        limits = replace(limits, min_workers=here.workers, max_workers=here.workers)
    present = here if here.workers > 0 else None
    most = MOST_SIZES // (len(batches(request)) + 1)
    return sizes_within(limits, request.processes_per_worker, served=request.served, present=present, at_most=most)


def _said_hot(answer: JobRecommendation, request: JobRequest, heat: tuple[Heat, ...]) -> JobRecommendation:
    """Return the answer, with a shortage of cores as its reason where that is what it ends."""
    if not answer.moves or answer.decision is Decision.EXPLORE:
        return answer
    chosen = next((option for option in answer.options if option.verdict == "chosen"), None)
    if chosen is None or request.objective != Objective.THROUGHPUT:
        return answer
    for one in heat:
        more = chosen.ps_cpu > 0 or chosen.ps > request.current.ps if one.role == "ps" else chosen.worker_cpu > 0
        if more:
            return replace(answer, reason=one.reason, message=f"{one.words}: {answer.message}")
    return answer


def _roles(
    model: SpeedModel,
    own: pd.DataFrame,
    begun: Beginning,
    answer: JobRecommendation,
    heat: tuple[Heat, ...],
    needs: Needs,
) -> tuple[RoleAdvice, ...]:
    request = begun.request
    if answer.target_workers <= 0:
        return ()
    chosen = next((option for option in answer.options if option.verdict.startswith("chosen")), None)
    target = chosen.size if chosen is not None else Size(answer.target_workers, answer.target_ps)
    if request.stage is Stage.START or request.current_workers <= 0:
        return started(request, target, begun.before, begun.scope)
    return roles_of(Situation(model, own, request, target, needs, heat))
