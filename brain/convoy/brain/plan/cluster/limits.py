"""What couples the jobs: a row a resource of a pool, of a quota, or the budget. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from convoy.brain.plan.cluster.capacity import Capacity, Quota
from convoy.brain.plan.cluster.choices import RESOURCES, Bools, Choices, node_of
from convoy.brain.plan.cluster.jobs import Array, ClusterJob

HALVES = (2, 3)
"""Parts of a node of which it holds only so many: see ``_crowding``."""


@dataclass(frozen=True)
class Limit:
    """What one row is of."""

    resource: str
    """accelerators | cpu | memory | nodes (what packing adds) | budget."""
    pool: str
    most: float
    """What there is, in the resource's unit."""
    quota: Quota | None = None
    """Whose it is; None: everybody's."""

    @property
    def whose(self) -> tuple[str, str]:
        """Return user and namespace of the quota; empty: everybody's."""
        return (self.quota.user, self.quota.namespace) if self.quota is not None else ("", "")


@dataclass(frozen=True)
class Limits:
    """Rows (limits,); demands are in shares of what there is, so that each row's right side is 1 unless raised."""

    of: tuple[Limit, ...]
    demand: sparse.csr_matrix
    """(choices, limits)"""
    most: Array
    """(limits,)"""

    def used(self, rows: np.ndarray) -> Array:
        """Return what some choices take together, (limits,)."""
        return np.asarray(self.demand[rows].sum(axis=0)).ravel()

    def take(self, kept: Bools) -> Limits:
        """Return the limits of some of the choices."""
        return replace(self, demand=self.demand[np.flatnonzero(kept)])


def limits_of(c: Choices, jobs: Sequence[ClusterJob], capacity: Capacity) -> Limits:
    """Return the rows that can bind; what nothing takes, or nothing bounds, has none."""
    demand = c.demand
    found: list[tuple[Limit, Array]] = []
    for place, pool in enumerate(capacity.pools):
        inside = (c.pool == place)[:, None]
        total = node_of(capacity)[place] * max(pool.nodes, 0)
        for column, resource in enumerate(RESOURCES):
            taken = np.where(inside[:, 0], demand[:, column], 0.0)
            if np.isfinite(total[column]) and taken.any():
                found.append((Limit(resource, pool.name, float(total[column])), taken))
        found += _crowding(c, place, capacity)
    for quota in capacity.quotas:
        found += _of_quota(c, demand, jobs, capacity, quota)
    if np.isfinite(capacity.budget_per_hour):
        found.append((Limit("budget", "", capacity.budget_per_hour), np.nan_to_num(np.maximum(c.price, 0.0))))
    of = tuple(limit for limit, _ in found)
    columns = [sparse.csc_matrix(taken[:, None] / (limit.most or 1.0)) for limit, taken in found]
    matrix = sparse.hstack(columns, format="csr") if columns else sparse.csr_matrix((len(c), 0))
    return Limits(of, matrix, np.array([1.0 if limit.most > 0 else 0.0 for limit in of]))


def _of_quota(
    c: Choices, demand: Array, jobs: Sequence[ClusterJob], capacity: Capacity, quota: Quota
) -> list[tuple[Limit, Array]]:
    theirs = np.array([quota.covers(job.user, job.namespace) for job in jobs], dtype=np.bool_)[c.job]
    if quota.pool:
        theirs &= c.pool == next((at for at, pool in enumerate(capacity.pools) if pool.name == quota.pool), -2)
    found = []
    for column, resource in enumerate(RESOURCES):
        most = float(getattr(quota, resource))
        taken = np.where(theirs, demand[:, column], 0.0)
        if np.isfinite(most) and taken.any():
            found.append((Limit(resource, quota.pool, max(most, 0.0), quota), taken))
    return found


def _crowding(c: Choices, place: int, capacity: Capacity) -> list[tuple[Limit, Array]]:
    """Return rows that packing onto nodes adds: of what is more than half a node, a node holds one.

    By the dual feasible functions u^(k) (Fekete and Schepers 2001, "New classes of fast lower bounds for bin packing
    problems"): x is a share of a node, u(x) = x where (k + 1) x is whole, floor((k + 1) x) / k else; what packs onto
    N nodes has sum u(x) <= N. Only where it says more than the plain row does.
    """
    found = []
    room = node_of(capacity)[place]
    nodes = max(capacity.pools[place].nodes, 0)
    for column in range(len(RESOURCES)):
        if not (np.isfinite(room[column]) and room[column] > 0):
            continue
        share = np.where((c.pool == place)[:, None], c.share[:, :, column] / room[column], 0.0)
        for k in (part - 1 for part in HALVES):
            scaled = share * (k + 1)
            whole = np.abs(scaled - np.round(scaled)) < 1e-6
            crowded = np.where(whole, share, np.floor(scaled + 1e-6) / k)
            if (crowded > share + 1e-6).any():
                taken = (crowded * c.groups).sum(axis=1)
                limit = Limit("nodes", capacity.pools[place].name, float(nodes))
                found.append((limit, taken))
    return found


def raised(limits: Limits, present: np.ndarray) -> Limits:
    """Return the limits with quotas and the budget raised to what the running jobs hold: nothing is stopped for them.

    Args:
        limits: of all choices.
        present: rows of what the running jobs have.
    """
    used = limits.used(present)
    soft = np.array([limit.quota is not None or limit.resource == "budget" for limit in limits.of], dtype=np.bool_)
    return replace(limits, most=np.where(soft, np.maximum(limits.most, used), limits.most))
