"""All jobs of a cluster planned together, under one capacity, onto nodes. Pure: no I/O, no clock."""

from convoy.brain.plan.cluster.answer import (
    Alternative,
    ClusterDecision,
    ClusterPlan,
    JobAnswer,
    MarginalPrice,
    Progress,
    known,
)
from convoy.brain.plan.cluster.capacity import Capacity, Pool, Quota
from convoy.brain.plan.cluster.jobs import ClusterJob, Policy, Sizes
from convoy.brain.plan.cluster.plan import plan_cluster

__all__ = [
    "Alternative",
    "Capacity",
    "ClusterDecision",
    "ClusterJob",
    "ClusterPlan",
    "JobAnswer",
    "MarginalPrice",
    "Policy",
    "Pool",
    "Progress",
    "Quota",
    "Sizes",
    "known",
    "plan_cluster",
]
