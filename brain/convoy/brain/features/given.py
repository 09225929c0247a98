"""What people give for the plan of all jobs: machines to plan for, quotas, shares, a budget."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from convoy.brain.plan.cluster import Capacity, Pool, Quota

MOST_NODES = 1_000_000
"""Of a pool: each is looked at by itself."""


@dataclass(frozen=True, slots=True)
class Given:
    """What is given; what isn't is empty, and bounds nothing.

    Attributes:
        pools: in place of the machines that the store knows; empty: those.
        users, namespaces: by name, how much its jobs count beside the 1 of others.
    """

    pools: tuple[Pool, ...] = ()
    quotas: tuple[Quota, ...] = ()
    budget_per_hour: float = math.inf
    users: Mapping[str, float] = field(default_factory=dict)
    namespaces: Mapping[str, float] = field(default_factory=dict)

    def over(self, known: Capacity) -> Capacity:
        """Return the capacity to plan for.

        Args:
            known: of the machines that the store knows.
        """
        return Capacity(self.pools or known.pools, self.quotas, self.budget_per_hour)

    def weight(self, user: str, namespace: str) -> float:
        """Return how much a job counts: its user's share times its namespace's."""
        return self.users.get(user, 1.0) * self.namespaces.get(namespace, 1.0)

    def without_effect(self, capacity: Capacity) -> list[str]:
        """Return what bounds nothing in a capacity, a sentence each."""
        there = {pool.name for pool in capacity.pools}
        return [
            f"the quota of {one.user or one.namespace} in pool {one.pool} bounds nothing: there is no such pool now"
            for one in self.quotas
            if one.pool and one.pool not in there
        ]
