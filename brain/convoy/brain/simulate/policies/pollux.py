"""Pollux: goodput, a fair power mean of speedups, a genetic search (Qiao et al., OSDI 2021).

Every job chooses its batch for most goodput (``convoy.brain.simulate.adaptive``). Each decision searches placements
that maximize the power mean of the jobs' speedups over an equal share of the cluster; a job that would restart counts
for the share of its age that it would have run. It knows one kind of accelerator: where there are several, it
takes them for the same, and keeps a job on one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from convoy.brain.simulate.adaptive.agent import Agents
from convoy.brain.simulate.adaptive.goodput import Goodput
from convoy.brain.simulate.batch import Batch
from convoy.brain.simulate.cluster import Cluster
from convoy.brain.simulate.placement import Placement, placed
from convoy.brain.simulate.policies.genetic import Effort, Problem, States, search
from convoy.brain.simulate.policy import JobView, Surroundings

Array = NDArray[np.float64]

SURVIVORS = 30
"""States of a search with which the next one begins."""
AT_ONCE = 2
"""A job may have so many times the accelerators that it ever had."""


class Pollux:
    """The whole cluster as one search."""

    def __init__(self, restart_seconds: float, seed: int, effort: Effort) -> None:
        self._agents = Agents(by_kind=False)
        self._restart = restart_seconds
        self._rng = np.random.default_rng(seed)
        self._effort = effort
        self._last: tuple[States, list[str], list[int]] | None = None
        self._tables: dict[str, tuple[object, Array]] = {}

    def batch(self, job: JobView, kind: str, nodes: int, replicas: int) -> Batch:
        """Return the batch of most goodput."""
        return self._agents.batch(job, kind, nodes, replicas)

    def allocate(
        self, now: float, jobs: Sequence[JobView], cluster: Cluster, previous: Mapping[str, Placement]
    ) -> Mapping[str, Placement]:
        """Return the fittest placements found."""
        if not cluster.nodes:
            return {}
        jobs = sorted(jobs, key=lambda job: (job.service, job.submitted))
        problem = self._problem(now, jobs, cluster, previous)
        states, _ = search(problem, self._first(jobs, cluster), self._effort, self._rng)
        nodes = [node.index for node in cluster.nodes]
        self._last = states[:SURVIVORS], [job.job for job in jobs], nodes
        best = states[0].tolist()
        return {job.job: placed(dict(zip(nodes, row, strict=True))) for job, row in zip(jobs, best, strict=True)}

    def _problem(
        self, now: float, jobs: Sequence[JobView], cluster: Cluster, previous: Mapping[str, Placement]
    ) -> Problem:
        place = {node.index: i for i, node in enumerate(cluster.nodes)}
        base = np.zeros((len(jobs), len(cluster.nodes)), dtype=np.int16)
        for row, job in zip(base, jobs, strict=True):
            for node, count in previous.get(job.job, ()):
                row[place[node]] = count
        ages = np.array([now - job.submitted for job in jobs])
        restarts = np.array([job.restarts for job in jobs])
        keep = np.maximum(ages - restarts * self._restart, 0.0) / np.maximum(ages + self._restart, 1e-9)
        most = np.array([_most(job, cluster) for job in jobs], dtype=np.int16)
        room = np.array([node.accelerators for node in cluster.nodes], dtype=np.int16)
        kinds = np.array([cluster.kinds.index(node.kind) for node in cluster.nodes], dtype=np.int16)
        return Problem(base, self._speedups(jobs, most, cluster), keep, most, room, kinds)

    def _speedups(self, jobs: Sequence[JobView], most: NDArray[np.int16], cluster: Cluster) -> Array:
        """Return (jobs, nodes + 1, most + 1) speedups over an equal share, for a node's share of the cluster each."""
        share = math.ceil(cluster.accelerators / len(jobs))
        found = np.zeros((len(jobs), len(cluster.nodes) + 1, int(most.max()) + 1))
        for table, job, limit in zip(found, jobs, most.tolist(), strict=True):
            expected = self._agents.goodput(job, _kind(job, cluster), fresh=True)
            if expected is None:
                table[1:] = np.arange(table.shape[1]) / share
                continue
            own = self._table(job.job, expected, limit, cluster)
            base = expected.best(np.array([1.0]), np.array([float(share)]))[0][0]
            table[:, : own.shape[1]] = own / base if base > 0 else own
        return found * (len(cluster.nodes) / cluster.accelerators)

    def _table(self, job: str, expected: Goodput, most: int, cluster: Cluster) -> Array:
        """Return (nodes + 1, most + 1) goodput, kept while nothing that it depends on changes."""
        widest = max(node.accelerators for node in cluster.nodes)
        key = (expected, most, len(cluster.nodes), widest)
        if job not in self._tables or self._tables[job][0] != key:
            nodes, replicas = np.meshgrid(np.arange(len(cluster.nodes) + 1.0), np.arange(most + 1.0), indexing="ij")
            possible = (nodes >= 1) & (nodes <= replicas) & (replicas <= nodes * widest)
            table = np.zeros(nodes.shape)
            table[possible] = expected.best(nodes[possible], replicas[possible])[0]
            self._tables[job] = (key, table)
        return self._tables[job][1]

    def _first(self, jobs: Sequence[JobView], cluster: Cluster) -> States:
        """Return the last search's survivors, with the jobs and nodes of now."""
        if self._last is None:
            return np.zeros((0, len(jobs), len(cluster.nodes)), dtype=np.int16)
        states, names, nodes = self._last
        first = np.zeros((len(states), len(jobs), len(cluster.nodes)), dtype=np.int16)
        columns = [(i, nodes.index(node.index)) for i, node in enumerate(cluster.nodes) if node.index in nodes]
        rows = [(i, names.index(job.job)) for i, job in enumerate(jobs) if job.job in names]
        for i, was in rows:
            first[:, i, [new for new, _ in columns]] = states[:, was, [old for _, old in columns]]
        return first


def _most(job: JobView, cluster: Cluster) -> int:
    """Return the accelerators that a job may have: twice what it ever had, within what was measured and its batch."""
    had = max((one.replicas for one in job.measurements), default=0)
    limits = [limit for kind, limit in job.limits.items() if kind in cluster.kinds]
    if not limits:
        return 0
    within = min(
        min(limit.most for limit in limits), int(job.largest_batch // max(one.smallest_local for one in limits))
    )
    return max(1, min(max(AT_ONCE * had, 1), within, cluster.accelerators))


def _kind(job: JobView, cluster: Cluster) -> str:
    """Return the kind whose limits of the micro-batch count: the tightest."""
    return min(job.limits, key=lambda kind: job.limits[kind].largest_local)


def build(surroundings: Surroundings) -> Pollux:
    """Return the policy; it knows what a restart costs."""
    return Pollux(surroundings.restart_seconds, surroundings.seed, Effort())
