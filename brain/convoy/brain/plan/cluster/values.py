"""What a size is worth: goodput relative to the job's fair share, less for who has much, restart counted. Pure.

Of a job with relative goodput s the objective counts w ((s + s0)^(1 - a) - s0^(1 - a)) / (1 - a), the family of
alpha-fair utilities (Mo and Walrand 2000, "Fair end-to-end window-based congestion control"), shifted by s0 so that
waiting counts zero whatever a is; a = 1 is the logarithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from convoy.brain.plan.cluster.capacity import Capacity
from convoy.brain.plan.cluster.choices import Bools, Choices, node_of
from convoy.brain.plan.cluster.jobs import Array, ClusterJob, Policy

SHIFT = 0.1
"""s0: a tenth of the fair share."""
LARGEST = 1e6


@dataclass(frozen=True)
class Values:
    """What the objective counts for each choice, (n,)."""

    net: Array
    """A change of size costs a restart."""
    moved: Array
    """Keeping a size costs one too: on other nodes."""
    gross: Array
    """Nothing costs a restart."""


def values_of(c: Choices, jobs: Sequence[ClusterJob], capacity: Capacity, policy: Policy) -> Values:
    """Return what the objective counts for each choice; zero where it isn't known."""
    runs = np.array([job.current is not None for job in jobs], dtype=np.bool_)[c.job]
    weights = weights_of(jobs, policy)[c.job]
    fair = fair_goodput(c, jobs, capacity, policy)[c.job]
    kept = _share_kept(jobs, policy)[c.job]
    blind = (c.size >= 0) & ~runs & ~(c.goodput > 0.0)  # of no known speed: its fair share's worth, to start at all

    def counted(moves: Bools) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = c.goodput * np.where(moves, kept, 1.0) / fair
        relative = np.where(np.isfinite(relative), np.clip(relative, 0.0, LARGEST), 0.0)
        return np.asarray(weights * utility(np.where(blind, 1.0, relative), policy.fairness))

    moves = runs & (c.size >= 0)
    return Values(counted(moves & ~c.present), counted(moves), counted(np.zeros_like(moves)))


def utility(relative: Array, fairness: float) -> Array:
    """Return the worth of relative goodput; zero at zero, rising, concave."""
    if abs(fairness - 1.0) < 1e-9:
        return np.asarray(np.log1p(relative / SHIFT))
    power = 1.0 - fairness
    return np.asarray(((relative + SHIFT) ** power - SHIFT**power) / power)


def weights_of(jobs: Sequence[ClusterJob], policy: Policy) -> Array:
    """Return each job's weight, (jobs,): its own, its priority's, and its user's share."""
    own = np.array([job.weight for job in jobs], dtype=np.float64)
    own = np.where(np.isfinite(own) & (own > 0.0), own, 1.0)
    steps = np.clip(np.array([job.priority for job in jobs], dtype=np.float64), -6, 6)
    _, user, count = np.unique(np.array([job.user for job in jobs]), return_inverse=True, return_counts=True)
    even = len(jobs) / len(count) / count[user]
    return np.asarray(own * policy.priority_base**steps * even**policy.user_fairness)


def fair_goodput(c: Choices, jobs: Sequence[ClusterJob], capacity: Capacity, policy: Policy) -> Array:
    """Return what each job's fair share of the cluster would give it, (jobs,); NaN where no size says.

    The share is of the scarcest resource (Ghodsi et al. 2011, "Dominant resource fairness"): split between users,
    then between a user's jobs, as far as ``user_fairness`` goes. Within it, and at the least for its smallest size,
    the best goodput in each pool, averaged by the pools' size.
    """
    pools = len(capacity.pools)
    fair = np.full((len(jobs), max(pools, 1)), -np.inf)
    nodes = np.array([max(pool.nodes, 0) for pool in capacity.pools], dtype=np.float64)
    all_nodes = node_of(capacity) * nodes[:, None]
    total = all_nodes.sum(axis=0)
    usable = (c.barred == 0) & (c.size >= 0) & (c.goodput > 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        dominant = np.where((c.demand > 0) & np.isfinite(total), c.demand / total, 0.0).max(axis=1, initial=0.0)
    smallest = np.full(len(jobs), np.inf)
    np.minimum.at(smallest, c.job[usable], dominant[usable])
    weights = weights_of(jobs, Policy(user_fairness=policy.user_fairness, priority_base=1.0))
    share = weights / weights.sum() if len(jobs) else weights
    within = usable & (dominant <= np.maximum(share, smallest)[c.job] * (1 + 1e-9))
    np.maximum.at(fair, (c.job[within], np.maximum(c.pool[within], 0)), c.goodput[within])
    size = np.maximum(all_nodes[:, 0] if total[0] > 0 else nodes, 1e-9) if pools else np.ones(1)
    known = fair > 0.0
    with np.errstate(invalid="ignore"):
        mean = np.where(known, fair * size, 0.0).sum(axis=1) / np.where(known, size, 0.0).sum(axis=1)
    told = np.array([job.fair_goodput for job in jobs], dtype=np.float64)
    return np.asarray(np.where(told > 0.0, told, mean))


def _share_kept(jobs: Sequence[ClusterJob], policy: Policy) -> Array:
    """Return the share of a size's samples that is left of it after a move, (jobs,)."""
    restart = np.array([job.restart_seconds for job in jobs], dtype=np.float64)
    horizon = np.array([job.horizon_seconds for job in jobs], dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        left = 1.0 - np.where(restart > 0.0, restart / horizon, 0.0)
    left = np.where(np.isnan(left), 0.0, np.clip(left, 0.0, 1.0))
    return np.asarray(left / (1.0 + max(policy.hysteresis, 0.0)))
