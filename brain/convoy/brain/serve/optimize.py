"""``convoy brain optimize``: what all jobs together should become now, from the store alone; nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass

from convoy.brain.features.given import Given
from convoy.brain.plan.cluster import ClusterPlan, Policy, plan_cluster
from convoy.brain.plan.cluster.answer import Watch
from convoy.brain.serve.advise import Adviser
from convoy.brain.serve.all_jobs import Asked, asked_of
from convoy.brain.settings import BrainSettings
from convoy.brain.store.engine import check, open_engine
from convoy.brain.store.migrate import require_schema
from convoy.core.process.clock import SystemClock


@dataclass(frozen=True, slots=True)
class Optimized:
    """The question and its answer."""

    asked: Asked
    plan: ClusterPlan


def optimize(
    settings: BrainSettings,
    *,
    given: Given | None = None,
    policy: Policy | None = None,
    any_pool: bool = False,
    watch: Watch | None = None,
) -> Optimized:
    """Plan for all jobs that the store knows to run or wait.

    Args:
        settings: of the Brain.
        given: machines, quotas, shares and budget to plan with; None: no quota, on the machines that the store knows.
        policy: what is preferred.
        any_pool: let jobs go to other pools than the one they are in.
        watch: is told of each better plan.

    Raises:
        InvalidSetting, Unusable, Unavailable: the database can't be used.
    """
    url = settings.database()
    check(url, must_exist=True)
    engine = open_engine(url, must_exist=True)
    try:
        require_schema(engine)
        clock = SystemClock()
        asked = asked_of(engine, clock, settings, Adviser(engine, clock, settings), given=given, any_pool=any_pool)
        return Optimized(asked, plan_cluster(asked.jobs, asked.capacity, policy, watch=watch))
    finally:
        engine.dispose()
