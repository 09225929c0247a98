"""The jobs' plans made one: under the capacity that the store knows, the cluster's plan says what size each job gets.

What one job alone would want stands beside it, among the options that were weighed. Without machines in the store, or
where nothing could be decided for all together, each job's own plan stands.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from convoy.brain.batch.work import Document, Work, told
from convoy.brain.plan import Decision, JobRecommendation, Option
from convoy.brain.plan.cluster import ClusterDecision, ClusterPlan, JobAnswer, known, plan_cluster
from convoy.brain.plan.decided import resized
from convoy.brain.plan.hold import URGENT
from convoy.brain.serve.knowledge import Knowledge
from convoy.brain.serve.optimize import asked_of
from convoy.core.api.errors import Unavailable
from convoy.core.process import logs

log = logs.get("brain.batch")

OTHER_POOL = "OtherPool"
"""The cluster's plan would have the job move to other machines: a size can be changed, a pool can't."""
_PRICES = 50
"""Marginal prices that the run's row holds at most."""


@dataclass(frozen=True)
class Joint:
    """The cluster's plan.

    Attributes:
        document: of it, for the run's row.
        answers: by job's uid; empty: nothing was decided for all together.
    """

    document: Document
    answers: dict[str, JobAnswer]


def planned_jointly(work: Work, knowledge: Knowledge) -> Joint:
    """Plan for all jobs together. A failure is told, and leaves each job its own plan.

    Raises:
        Unavailable: the database can't be reached.
    """
    around = work.around
    try:
        learned = knowledge.learned()
        with learned.lock:
            asked = asked_of(around.engine, work.clock, around.settings, model=learned.model)
        if not asked.capacity.pools:
            return Joint({"decided": False, "message": "no machines are known: each job is planned for alone"}, {})
        plan = plan_cluster(asked.jobs, asked.capacity)
    except Unavailable:
        raise
    except Exception as error:
        log.error("all jobs couldn't be planned for together", exc_info=error)
        return Joint({"decided": False, "message": "each job is planned for alone", "error": told(error)}, {})
    return Joint(_document(plan), {one.name: one for one in plan.jobs} if plan.decided else {})


def agreed(answer: JobRecommendation, joint: JobAnswer, current: int, current_ps: int) -> JobRecommendation:
    """Return a job's recommendation as the cluster's plan has it.

    Args:
        answer: of the job's own plan.
        joint: of the cluster's plan.
        current: workers that the job has.
        current_ps: servers that it has.
    """
    if answer.decision is Decision.UNDEFINED or answer.reason in URGENT:
        return answer
    if joint.decision is ClusterDecision.WAIT:
        return replace(
            answer, decision=Decision.UNDEFINED, reason=joint.reason, message=joint.message, target_workers=current
        )
    ps = joint.ps or current_ps
    stays = joint.decision is ClusterDecision.KEEP or (joint.workers, ps) == (current, current_ps)
    if stays or joint.reason == OTHER_POOL:
        return _at(answer, joint, Decision.KEEP, current, current_ps)
    return _at(answer, joint, Decision.CHANGE, joint.workers, ps)


def _at(answer: JobRecommendation, joint: JobAnswer, decision: Decision, workers: int, ps: int) -> JobRecommendation:
    """Return the recommendation of a size, with the numbers of it; a job's own plan that says the same stands."""
    if answer.moves and (answer.target_workers, answer.target_ps or ps) == (workers, ps):
        return answer
    alone = f"; alone it would get {answer.target_workers} workers [{answer.reason}]" if answer.moves else ""
    seen = replace(answer, options=tuple(_seen(option, workers, ps) for option in answer.options))
    found = resized(seen, decision, joint.reason, f"{joint.message}{alone}", workers, ps)
    if math.isnan(found.predicted):  # the job's own plan didn't weigh that size
        return replace(found, predicted=joint.goodput, price_per_hour=joint.price_per_hour)
    return found


def _seen(option: Option, workers: int, ps: int) -> Option:
    """Return an option with a verdict that doesn't contradict the cluster's plan."""
    if (option.workers, option.ps or ps) == (workers, ps):
        return replace(option, verdict="chosen for all jobs together")
    return replace(option, verdict="best for this job alone") if option.verdict == "chosen" else option


def _document(plan: ClusterPlan) -> Document:
    prices = [one for one in plan.prices if one.price > 0][:_PRICES]
    shown = ("resource", "pool", "user", "price", "used", "available")
    return {**plan.document(), "prices": [{name: known(getattr(one, name)) for name in shown} for one in prices]}
