"""Tiresias: two queues by the service that jobs have had (Gu et al., NSDI 2019), with what users ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from convoy.brain.simulate.cluster import Cluster
from convoy.brain.simulate.placement import Placement, free, kind_of, size, spread
from convoy.brain.simulate.policies.asked import Asked, asked
from convoy.brain.simulate.policy import JobView, RequestedBatch, Surroundings

DEMOTED = 16 * 3600.0
"""Accelerator-seconds after which a job falls into the second queue, as in the study of Pollux."""


class Tiresias(RequestedBatch):
    """Discretized least attained service: whoever had less than ``DEMOTED`` goes first, then first come first served.

    A job runs with all that its user asked for or not at all; one that doesn't fit is passed over. A job that goes on
    running stays where it is. Users name no kind of accelerator: it is the one with most left.
    """

    def __init__(self) -> None:
        self._queues: tuple[list[str], list[str]] = ([], [])
        self._ran: dict[str, float] = {}
        self._last = 0.0

    def allocate(
        self, now: float, jobs: Sequence[JobView], cluster: Cluster, previous: Mapping[str, Placement]
    ) -> Mapping[str, Placement]:
        """Return placements for the jobs at the head of the queues."""
        by_name = {job.job: job for job in jobs}
        self._age(now, {job.job: asked(job, cluster) for job in jobs}, previous)
        left = {kind: cluster.capacity(kind) for kind in cluster.kinds}
        running = []
        for name in [*self._queues[0], *self._queues[1]]:
            want = asked(by_name[name], cluster, left)
            if want is not None and name in previous:  # also where it began with fewer nodes than work now
                want = Asked(kind_of(previous[name], cluster), size(previous[name]))
            if want is not None and want.replicas <= left[want.kind]:
                left[want.kind] -= want.replicas
                running.append((name, want))
        return place(running, cluster, previous)

    def _age(self, now: float, wanted: Mapping[str, Asked | None], running: Mapping[str, Placement]) -> None:
        first, second = ([name for name in queue if name in wanted] for queue in self._queues)
        first += [name for name in wanted if name not in first and name not in second]
        for name in running:
            self._ran[name] = self._ran.get(name, 0.0) + (now - self._last)
        for name in list(first):
            want = wanted[name]
            if want is not None and self._ran.get(name, 0.0) * want.replicas >= DEMOTED:
                first.remove(name)
                second.append(name)
        self._queues, self._last = (first, second), now


def place(
    running: Sequence[tuple[str, Asked]], cluster: Cluster, previous: Mapping[str, Placement]
) -> dict[str, Placement]:
    """Return a placement for each job, in their order: its earlier one, or accelerators of the emptiest nodes."""
    kept = {name: previous[name] for name, _ in running if name in previous}
    left = free(cluster, kept.values())
    for name, want in running:
        if name not in kept:
            there = {node.index: left[node.index] for node in cluster.by_kind[want.kind]}
            kept[name] = spread(there, want.replicas)
            left.update(there)
    return kept


def build(surroundings: Surroundings) -> Tiresias:
    """Return the policy; it needs nothing of its surroundings."""
    return Tiresias()
