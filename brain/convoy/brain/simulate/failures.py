"""Nodes that fail and are repaired, at rates measured in public clusters."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np

from convoy.brain.simulate.cluster import Cluster

DAY = 86400.0

MEASURED = {"rsc-1": 6.50, "rsc-2": 2.34, "llama-3": 3.8}
"""Failures per 1,000 node-days of public clusters of 8 accelerators a node.

rsc-1, rsc-2: two research clusters of 16,000 and 8,000 accelerators over 11 months (Kokolis et al., Revisiting
Reliability in Large-Scale Machine Learning Research Clusters, 2024). llama-3: 419 unexpected interruptions of a job
on 16,384 accelerators in 54 days (Dubey et al., The Llama 3 Herd of Models, 2024): 419 / (2,048 nodes x 54 days).
"""


@dataclass(frozen=True, slots=True)
class Failures:
    """How nodes fail: independently, with times between failures that are exponential.

    Attributes:
        per_thousand_node_days: failures of a node that works.
        repair_seconds: until a node works again.
        checkpoint_seconds: between a job's checkpoints; a job that loses a node loses half of it, in the mean.
        seed: of the times; they are the same for every policy.
    """

    per_thousand_node_days: float
    repair_seconds: float = 7200.0
    checkpoint_seconds: float = 600.0
    seed: int = 0

    def timeline(self, cluster: Cluster) -> Iterator[tuple[float, int, bool, float]]:
        """Yield, for ever and ordered by time: seconds, a node's number, whether it works from then on, and how
        long ago the last checkpoint of a job there is.

        A rate of zero yields nothing.
        """
        mean = DAY * 1000.0 / self.per_thousand_node_days if self.per_thousand_node_days > 0 else np.inf
        if not np.isfinite(mean):
            return
        draws = {node.index: np.random.default_rng([self.seed, node.index]) for node in cluster.nodes}
        order = count()
        queue = [(float(rng.exponential(mean)), next(order), node, False) for node, rng in draws.items()]
        heapq.heapify(queue)
        while queue:
            time, _, node, works = heapq.heappop(queue)
            wait = float(draws[node].exponential(mean)) if works else self.repair_seconds
            heapq.heappush(queue, (time + wait, next(order), node, not works))
            yield time, node, works, float(draws[node].uniform(0.0, self.checkpoint_seconds))
