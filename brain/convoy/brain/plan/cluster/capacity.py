"""What a cluster has to give: pools of alike nodes, quotas, a budget."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Pool:
    """Nodes that are alike: one kind of machine with one kind of accelerator.

    Per node, what Convoy's jobs may take: allocatable, less what others hold. Infinite: doesn't bound.
    """

    name: str
    nodes: int
    accelerators_per_node: float = 0.0
    cpu_per_node: float = math.inf
    memory_per_node: float = math.inf
    accelerator: str = ""
    """Kind of accelerator; "": none, or not known."""


@dataclass(frozen=True)
class Quota:
    """The most that one user's jobs, or those of a namespace, may hold together, over all pools or in one."""

    user: str
    accelerators: float = math.inf
    cpu: float = math.inf
    memory: float = math.inf
    pool: str = ""
    """"": over all pools."""
    namespace: str = ""
    """"": in all of them. A namespace without a user: whoever's jobs they are."""

    def covers(self, user: str, namespace: str) -> bool:
        """Return whether a job counts against it."""
        if self.namespace:
            return namespace == self.namespace and self.user in ("", user)
        return user == self.user


@dataclass(frozen=True)
class Capacity:
    """All that there is to give."""

    pools: tuple[Pool, ...] = ()
    quotas: tuple[Quota, ...] = ()
    budget_per_hour: float = math.inf
    """Most that all jobs may cost an hour together, in the currency of the sizes' prices."""
