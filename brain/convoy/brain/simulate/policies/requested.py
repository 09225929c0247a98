"""What users request, first come first served: the cluster without any planning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from convoy.brain.simulate.cluster import Cluster
from convoy.brain.simulate.placement import Placement, free, pack
from convoy.brain.simulate.policies.asked import Asked, asked
from convoy.brain.simulate.policy import JobView, RequestedBatch, Surroundings


class Requested(RequestedBatch):
    """A job starts with what was asked for once it is at the head of the queue and there is room; then it stays."""

    def allocate(
        self, now: float, jobs: Sequence[JobView], cluster: Cluster, previous: Mapping[str, Placement]
    ) -> Mapping[str, Placement]:
        """Return the running jobs' placements, and those of the first waiting jobs that fit."""
        answer = dict(previous)
        left = free(cluster, answer.values())
        for job in jobs:
            if job.job in answer:
                continue
            want = asked(job, cluster, _by_kind(cluster, left))
            if want is None:
                continue
            there = {node.index: left[node.index] for node in cluster.by_kind[want.kind]}
            if not _fits(want, there):
                break  # who comes later waits too
            answer[job.job] = pack(there, want.replicas)
            left.update(there)
        return answer


def _fits(want: Asked, there: Mapping[int, int]) -> bool:
    return want.replicas <= sum(there.values())


def _by_kind(cluster: Cluster, left: Mapping[int, int]) -> dict[str, int]:
    return {kind: sum(left[node.index] for node in nodes) for kind, nodes in cluster.by_kind.items()}


def build(surroundings: Surroundings) -> Requested:
    """Return the policy; it needs nothing of its surroundings."""
    return Requested()
