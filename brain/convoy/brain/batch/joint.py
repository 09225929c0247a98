"""The jobs' plans made one: under the capacity that the store knows, the cluster's plan says what size each job gets.

What one job alone would want stands beside it, among the options that were weighed, with what each is worth for all
together. Without machines, or where nothing could be decided for all together, each job's own plan stands.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

from convoy.brain.batch.work import Document, Work, told
from convoy.brain.features.capacity_file import given_by
from convoy.brain.plan import Decision, JobRecommendation, Option
from convoy.brain.plan.cluster import (
    Alternative,
    ClusterDecision,
    ClusterPlan,
    JobAnswer,
    known,
    plan_cluster,
)
from convoy.brain.plan.cluster.valued import Currency
from convoy.brain.plan.decided import resized
from convoy.brain.plan.hold import URGENT
from convoy.brain.plan.sizes import Size
from convoy.brain.serve.advise import Adviser
from convoy.brain.serve.all_jobs import Asked, asked_of
from convoy.core.api.errors import Unavailable
from convoy.core.process import logs

log = logs.get("brain.batch")

OTHER_POOL = "OtherPool"
"""The cluster's plan would have the job move to other machines: a size can be changed, a pool can't."""
_PRICES = 50
"""Marginal prices that the run's row holds at most."""


@dataclass(frozen=True)
class Part:
    """What the cluster's plan says of one job.

    Attributes:
        answer: what becomes of it.
        weighed: all of its sizes.
        currency: what they were compared by.
    """

    answer: JobAnswer
    weighed: tuple[Alternative, ...]
    currency: Currency


@dataclass(frozen=True)
class Joint:
    """The cluster's plan.

    Attributes:
        document: of it, for the run's row.
        parts: by job's uid; empty: nothing was decided for all together.
    """

    document: Document
    parts: dict[str, Part]


def planned_jointly(work: Work, adviser: Adviser) -> Joint:
    """Plan for all jobs together. A failure is told, and leaves each job its own plan.

    Raises:
        InvalidInput: the file of quotas and shares can't be right: without them nobody is planned for.
        Unavailable: the database can't be reached.
    """
    around = work.around
    file = around.settings.capacity_file
    given = None if file is None else given_by(file)
    try:
        asked = asked_of(around.engine, work.clock, around.settings, adviser, given=given)
        if not asked.capacity.pools:
            return Joint({"decided": False, "message": "no machines are known: each job is planned for alone"}, {})
        plan = plan_cluster(asked.jobs, asked.capacity)
    except Unavailable:
        raise
    except Exception as error:
        log.error("all jobs couldn't be planned for together", exc_info=error)
        return Joint({"decided": False, "message": "each job is planned for alone", "error": told(error)}, {})
    parts = {
        one.name: Part(one, plan.weighed(one.name), currency)
        for one, currency in zip(plan.jobs, asked.currencies, strict=True)
    }
    return Joint(_document(asked, plan), parts if plan.decided else {})


def agreed(answer: JobRecommendation, part: Part, current: int, current_ps: int) -> JobRecommendation:
    """Return a job's recommendation as the cluster's plan has it.

    Args:
        answer: of the job's own plan.
        part: of the cluster's plan, the job's.
        current: workers that the job has.
        current_ps: servers that it has.
    """
    joint = part.answer
    if answer.decision is Decision.UNDEFINED or answer.reason in URGENT:
        return answer
    if joint.decision is ClusterDecision.WAIT:
        return replace(
            answer, decision=Decision.UNDEFINED, reason=joint.reason, message=joint.message, target_workers=current
        )
    ps = joint.ps or current_ps
    stays = joint.decision is ClusterDecision.KEEP or (joint.workers, ps, joint.batch) == (current, current_ps, 0)
    if stays or joint.reason == OTHER_POOL:
        return _at(answer, part, Decision.KEEP, Size(current, current_ps))
    return _at(answer, part, Decision.CHANGE, Size(joint.workers, ps, batch=joint.batch))


def _at(answer: JobRecommendation, part: Part, decision: Decision, size: Size) -> JobRecommendation:
    """Return the recommendation of a size, with the numbers of it; a job's own plan that says the same stands."""
    joint = part.answer
    same = (answer.target_workers, answer.target_ps or size.ps, answer.target_batch)
    seen = replace(answer, options=tuple(_seen(option, part, size) for option in answer.options))
    if answer.moves and same == (size.workers, size.ps, size.batch):
        return replace(seen, message=f"{answer.message}; for all jobs together: {joint.message}")
    alone = f"; alone it would get {answer.target_workers} workers [{answer.reason}]" if answer.moves else ""
    found = resized(seen, decision, joint.reason, f"{joint.message}{alone}", size.workers, size.ps, size.batch)
    if math.isnan(found.predicted):  # the job's own plan didn't weigh that size
        found = replace(found, predicted=joint.speed, price_per_hour=joint.price_per_hour)
    return replace(found, goodput=joint.goodput) if part.currency.name == "goodput" else found


def _seen(option: Option, part: Part, size: Size) -> Option:
    """Return an option with a verdict that doesn't contradict the cluster's plan, and what that says of it."""
    if (option.workers, option.ps or size.ps, option.batch) == (size.workers, size.ps, size.batch):
        return replace(option, verdict="chosen for all jobs together")
    alone = "best for this job alone" if option.verdict == "chosen" else option.verdict
    pool = part.answer.pool
    theirs = (
        one
        for one in part.weighed
        if one.pool == pool
        and (one.workers, one.ps or option.ps, one.batch) == (option.workers, option.ps, option.batch)
    )
    told = next((f"for all jobs together: {one.message} [{one.verdict}]" for one in theirs), "")
    return replace(option, verdict="; ".join(text for text in (alone, told) if text))


def _document(asked: Asked, plan: ClusterPlan) -> Document:
    prices = [one for one in plan.prices if one.price > 0][:_PRICES]
    shown = ("resource", "pool", "user", "namespace", "price", "used", "available")
    return {
        **plan.document(),
        "notes": list(asked.notes),
        "prices": [{name: known(getattr(one, name)) for name in shown} for one in prices],
        "valued_by": dict(sorted(Counter(map(str, asked.currencies)).items())),
    }
