"""Sia: sizes and kinds of accelerators by an integer program on goodput (Jayaram Subramanya et al., SOSP 2023).

A job's configurations are, on each kind, powers of two within a node and whole nodes beyond. Their goodput is divided
by the least of the job's one-accelerator goodputs, lessened by the restart where the configuration isn't the one that
the job has, and raised to the power of ``FAIRNESS``. A job sees its own speed as Pollux's jobs do, fitted for each
kind apart; on a kind where it hasn't run, a fit on another kind is scaled by what one accelerator of each does, which
the paper's jobs measure before they are queued. That profile is given for nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, vstack

from convoy.brain.simulate.adaptive.agent import Agents
from convoy.brain.simulate.batch import Batch
from convoy.brain.simulate.cluster import Cluster
from convoy.brain.simulate.placement import Placement, kind_of, size
from convoy.brain.simulate.policies.packing import packed
from convoy.brain.simulate.policy import JobView, Surroundings
from convoy.brain.simulate.truth import Truth

Array = NDArray[np.float64]

FAIRNESS = -0.5
"""Exponent of speedups."""
WAITING = 1.1
"""Penalty of a job that gets nothing; a job with one of its slowest accelerators counts 1."""
AT_ONCE = 2
"""A job may have so many times the accelerators that it ever had."""
GAP = 1e-4
"""Relative gap to the best sum with which the solver is content."""
SECONDS = 5.0
"""After which the solver's best answer so far is taken."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a job can be given: accelerators of a kind, on as few nodes as hold them."""

    kind: str
    nodes: int
    replicas: int


class Sia:
    """One integer program a decision."""

    def __init__(self, truth: Truth, restart_seconds: float) -> None:
        self._agents = Agents(by_kind=True)
        self._truth = truth
        self._restart = restart_seconds
        self._rows: dict[str, tuple[object, Array]] = {}

    def batch(self, job: JobView, kind: str, nodes: int, replicas: int) -> Batch:
        """Return the batch of most goodput."""
        return self._agents.batch(job, kind, nodes, replicas)

    def allocate(
        self, now: float, jobs: Sequence[JobView], cluster: Cluster, previous: Mapping[str, Placement]
    ) -> Mapping[str, Placement]:
        """Return placements of the configurations that the integer program chose."""
        able = [job for job in jobs if any(kind in cluster.kinds for kind in job.limits)]
        if not able:
            return {}
        there = configurations(cluster)
        speedups = np.stack([self._speedups(job, there, cluster) for job in able])
        held = [_held(previous.get(job.job, ()), cluster, there) for job in able]
        for row, own, job in zip(speedups, held, able, strict=True):
            if own is not None:
                kept = row[own]
                row *= self._keep(now, job)
                row[own] = kept
        chosen = _solve(speedups, there, cluster)
        return self._placements(able, chosen, there, cluster, previous)

    def _keep(self, now: float, job: JobView) -> float:
        """Return what a restart leaves of a job's speed: the share of its age in which it would have run."""
        age = now - job.submitted
        if age < self._restart:
            return 1.0
        return max(age - job.restarts * self._restart, 0.0) / (age + self._restart)

    def _speedups(self, job: JobView, there: Sequence[Configuration], cluster: Cluster) -> Array:
        """Return goodput over that of one of the job's slowest accelerators; 0 where it can't run."""
        most = max(1, AT_ONCE * max((one.replicas for one in job.measurements), default=0))
        fits = {kind: self._agents.goodput(job, kind, fresh=True) for kind in job.limits}
        key = (most, tuple(fits.items()), cluster.kinds, len(there))
        if job.job in self._rows and self._rows[job.job][0] == key:
            return self._rows[job.job][1].copy()
        allowed = np.array([_allowed(job, one, most) for one in there])
        known = [kind for kind, fit in fits.items() if fit is not None]
        row = np.zeros(len(there))
        if not known:
            row[allowed & np.array([one.replicas == 1 for one in there])] = 1.0
        for kind in cluster.kinds if known else ():
            places = np.flatnonzero(allowed & np.array([one.kind == kind for one in there]))
            fit = fits.get(kind)
            source, fit = (kind, fit) if fit is not None else (known[0], fits[known[0]])
            if not len(places) or fit is None:
                continue
            nodes, replicas = np.array([(there[i].nodes, there[i].replicas) for i in places.tolist()], dtype=float).T
            row[places] = fit.best(nodes, replicas)[0] * self._ratio(job, kind, source)
        row = _by_least(row, there)
        self._rows[job.job] = (key, row)
        return row.copy()

    def _ratio(self, job: JobView, kind: str, known: str) -> float:
        """Return the speed of one accelerator of a kind over that of another, as profiled with the initial batch."""
        if kind == known:
            return 1.0
        speeds = []
        for one in (kind, known):
            limits = job.limits[one]
            local = int(min(max(job.initial_batch, limits.smallest_local), limits.largest_local))
            step, _ = self._truth.measured(job.job, job.application, one, (1,), local)
            speeds.append(local / step)
        return speeds[0] / speeds[1]

    def _placements(
        self,
        jobs: Sequence[JobView],
        chosen: Sequence[int | None],
        there: Sequence[Configuration],
        cluster: Cluster,
        previous: Mapping[str, Placement],
    ) -> dict[str, Placement]:
        sizes: dict[str, dict[str, int]] = {kind: {} for kind in cluster.kinds}
        for job, which in zip(jobs, chosen, strict=True):
            if which is not None:
                sizes[there[which].kind][job.job] = there[which].replicas
        answer: dict[str, Placement] = {}
        for kind, wanted in sizes.items():
            answer |= packed(wanted, cluster.by_kind[kind], previous)
        return answer


def configurations(cluster: Cluster) -> list[Configuration]:
    """Return what jobs can be given: powers of two below a node's accelerators, then whole nodes, of each kind."""
    found = []
    for kind, nodes in cluster.by_kind.items():
        each = cluster.per_node(kind)
        found += [Configuration(kind, 1, 2**i) for i in range(each.bit_length()) if 2**i < each]
        found += [Configuration(kind, count, count * each) for count in range(1, len(nodes) + 1)]
    return found


def _allowed(job: JobView, one: Configuration, most: int) -> bool:
    limits = job.limits.get(one.kind)
    if limits is None:
        return False
    return one.replicas <= min(most, limits.most) and one.replicas * limits.smallest_local <= job.largest_batch


def _by_least(row: Array, there: Sequence[Configuration]) -> Array:
    """Divide by the least goodput of the smallest configuration of each kind on which the job can run."""
    least = [row[i] for i, one in enumerate(there) if one.replicas == 1 and row[i] > 0]
    return row / min(least) if least else row


def _held(placement: Placement, cluster: Cluster, there: Sequence[Configuration]) -> int | None:
    """Return the number of the configuration that a job has now."""
    if not placement:
        return None
    one = Configuration(kind_of(placement, cluster), len(placement), size(placement))
    return there.index(one) if one in there else None


def _solve(speedups: Array, there: Sequence[Configuration], cluster: Cluster) -> list[int | None]:
    """Return the configuration of each job that makes the sum of powers least, or None for a job that waits."""
    jobs, columns = np.nonzero(speedups > 1e-9)
    if not len(jobs):
        return [None] * len(speedups)
    cost = speedups[jobs, columns] ** FAIRNESS - WAITING
    replicas = np.array([there[column].replicas for column in columns.tolist()], dtype=np.float64)
    kinds = np.array([cluster.kinds.index(there[column].kind) for column in columns.tolist()])
    count = len(jobs)
    once = coo_array((np.ones(count), (jobs, np.arange(count))), shape=(len(speedups), count))
    used = coo_array((replicas, (kinds, np.arange(count))), shape=(len(cluster.kinds), count))
    room = np.concatenate([np.ones(len(speedups)), [float(cluster.capacity(kind)) for kind in cluster.kinds]])
    found = milp(
        cost,
        integrality=np.ones(count),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(vstack([once, used]).tocsr(), ub=room),
        options={"mip_rel_gap": GAP, "time_limit": SECONDS},
    )
    chosen: list[int | None] = [None] * len(speedups)
    if found.x is not None:
        for i in np.flatnonzero(found.x > 0.5).tolist():
            chosen[int(jobs[i])] = int(columns[i])
    return chosen


def build(surroundings: Surroundings) -> Sia:
    """Return the policy; of the truth it measures one accelerator of each kind."""
    return Sia(surroundings.truth, surroundings.restart_seconds)
