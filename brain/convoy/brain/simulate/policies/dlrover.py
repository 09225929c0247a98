"""The rules by which DLRover grows a job, applied to all-reduce jobs, each alone.

DLRover itself never resizes an all-reduce job. Its rules for the workers of parameter-server jobs are used in their
place, so that there is something to compare: a job starts with what was asked for, first come first served; grows by
up to four workers an hour, where there is room and nobody waits; goes on while the speed that each new worker adds is
a fifth or more of what each had before; goes back where the change made it slower by a tenth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from convoy.brain.simulate.cluster import Cluster
from convoy.brain.simulate.placement import Placement, free, kind_of, placed, size
from convoy.brain.simulate.policies.requested import Requested
from convoy.brain.simulate.policy import JobView, RequestedBatch, Surroundings, requested_batch

BETWEEN_PLANS = 3600.0
"""Seconds between changes of a job."""
STEP = 4
"""Workers that a change adds at most."""
WORTH = 0.2
"""Speed that a new worker adds, relative to that of the earlier ones, below which a job stops growing."""
SLOWER = 0.1
"""Share of its speed by which a change must slow a job to be taken back."""
WORKERS = 60
"""Most workers."""


@dataclass
class _Growth:
    """One job's last change: when, from what size, and whether it still grows."""

    changed: float
    before: int = 0
    growing: bool = True


class DLRover(RequestedBatch):
    """Rules for each job alone; who comes first takes what is free."""

    def __init__(self) -> None:
        self._queue = Requested()
        self._growth: dict[str, _Growth] = {}

    def allocate(
        self, now: float, jobs: Sequence[JobView], cluster: Cluster, previous: Mapping[str, Placement]
    ) -> Mapping[str, Placement]:
        """Return placements: those of the queue, then growth and returns of the jobs whose hour has come."""
        answer = dict(self._queue.allocate(now, jobs, cluster, previous))
        self._growth = {name: one for name, one in self._growth.items() if name in previous}
        for job in jobs:
            if job.job not in answer:
                continue
            growth = self._growth.setdefault(job.job, _Growth(now))
            if job.job not in previous or now - growth.changed < BETWEEN_PLANS or not growth.growing:
                continue
            waiting = any(one.job not in answer for one in jobs)
            answer[job.job] = self._next(now, job, growth, answer, cluster, room=not waiting)
        return answer

    def _next(
        self,
        now: float,
        job: JobView,
        growth: _Growth,
        answer: Mapping[str, Placement],
        cluster: Cluster,
        *,
        room: bool,
    ) -> Placement:
        placement = answer[job.job]
        kind, workers = kind_of(placement, cluster), size(placement)
        if growth.before:
            old, new = (_speed(job, kind, count) for count in (growth.before, workers))
            if old > 0 and new > 0:
                growth.growing = (new - old) / (workers - growth.before) >= WORTH * old / growth.before
                if new < (1.0 - SLOWER) * old:
                    return _shrunk(placement, growth.before)
        left = free(cluster, answer.values())
        there = {node.index: left[node.index] for node in cluster.by_kind[kind]}
        most = min(WORKERS, job.limits[kind].most, int(job.requested_batch // job.limits[kind].smallest_local))
        more = min(STEP, most - workers, sum(there.values()))
        if not growth.growing or not room or more <= 0:
            return placement
        growth.before, growth.changed = workers, now
        return _grown(placement, there, more)


def _speed(job: JobView, kind: str, workers: int) -> float:
    """Return the samples a second that a job measured last with so many workers; 0: never."""
    batch = requested_batch(job, kind, workers)
    for one in reversed(job.measurements):
        if one.kind == kind and one.replicas == workers and one.local == batch.local:
            compute = one.step_seconds - one.sync_seconds
            return batch.samples(workers) / (one.step_seconds + (batch.accumulation - 1) * compute)
    return 0.0


def _grown(placement: Placement, there: Mapping[int, int], more: int) -> Placement:
    """Add workers next to those that are there first."""
    counts = dict(placement)
    for node in sorted(there, key=lambda one: (one not in counts, -there[one], one)):
        taken = min(there[node], more)
        counts[node] = counts.get(node, 0) + taken
        more -= taken
    return placed(counts)


def _shrunk(placement: Placement, workers: int) -> Placement:
    """Take workers away where fewest are."""
    counts = dict(placement)
    over = size(placement) - workers
    for node in sorted(counts, key=lambda one: (counts[one], -one)):
        taken = min(counts[node], over)
        counts[node] -= taken
        over -= taken
    return placed(counts)


def build(surroundings: Surroundings) -> DLRover:
    """Return the policy; it needs nothing of its surroundings."""
    return DLRover()
