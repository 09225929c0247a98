"""The cluster's plan: all jobs together under one capacity. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from convoy.brain.plan.cluster.answer import ClusterDecision, ClusterPlan, JobAnswer, Watch
from convoy.brain.plan.cluster.capacity import Capacity
from convoy.brain.plan.cluster.jobs import ClusterJob, Policy


def plan_cluster(
    jobs: Sequence[ClusterJob],
    capacity: Capacity,
    policy: Policy | None = None,
    *,
    warm: Sequence[float] = (),
    watch: Watch | None = None,
) -> ClusterPlan:
    """Return what becomes of each job, in the order of ``jobs``. Never raises for what jobs and capacity say.

    Args:
        jobs: all that run or wait; names differ.
        capacity: what there is, what the running jobs hold included.
        policy: what is preferred; None: the defaults.
        warm: ``ClusterPlan.warm`` of the last plan under the same pools and quotas.
        watch: is told of each better plan as it is found, the first one before anything slow begins.
    """
    answers = tuple(
        JobAnswer(
            job.name, job.user, ClusterDecision.WAIT if job.current is None else ClusterDecision.KEEP, "NoCapacity",
            "no capacity is known", job.current,
        )
        for job in jobs
    )  # fmt: skip
    return ClusterPlan(False, "Unchanged", "NoCapacity", "no capacity is known", answers)
