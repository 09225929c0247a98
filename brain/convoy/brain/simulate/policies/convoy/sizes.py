"""The sizes that a job may take in a simulated cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convoy.brain.simulate.cluster import Cluster
from convoy.brain.simulate.policy import JobView

MULTIPLES = 16
"""Different numbers of whole nodes that are tried, at most."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of one job on one kind of accelerator, smallest first, all (n,)."""

    kind: str
    replicas: NDArray[np.int64]
    nodes: NDArray[np.int64]
    together: NDArray[np.int64]
    """Replicas on each node."""

    def __len__(self) -> int:
        return len(self.replicas)


def sizes_on(job: JobView, kind: str, cluster: Cluster, most: int, held: tuple[int, int] | None = None) -> Sizes:
    """Return a job's sizes on a kind: powers of two within a node, then whole nodes, so that all fit side by side.

    Args:
        job: whose limits count.
        kind: of accelerator, one that the job runs on.
        cluster: nodes that work.
        most: replicas that it may have, if that is more than one.
        held: replicas and nodes that it has there now: a size too, whatever it is.
    """
    each, limits = cluster.per_node(kind), job.limits[kind]
    by_batch = int(job.largest_batch // limits.smallest_local)
    most = max(1, min(most, limits.most, by_batch, cluster.capacity(kind)))
    within = [1 << power for power in range(each.bit_length()) if 1 << power <= min(each, most)]
    if each <= most and each not in within:
        within.append(each)
    whole = np.unique(np.geomspace(2, most // each, MULTIPLES).round()) if most // each >= 2 else np.zeros(0)
    found = {*((one, 1) for one in within), *((each * int(one), int(one)) for one in whole)}
    replicas, nodes = np.array(sorted(found | ({held} if held else set())), dtype=np.int64).T
    return Sizes(kind, replicas, nodes, replicas // np.maximum(nodes, 1))
