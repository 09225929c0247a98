"""The whole cluster planned at each decision, by goodput.

Of two jobs the one that will be done sooner counts for more: a job's weight falls with the root of the time that it
will have taken from its submission to its end, at a fair share. That is between the mean of completion times (which
asks for no weight) and the mean of their logarithms (which asks for the time itself).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from convoy.brain.plan.cluster import Capacity, ClusterJob, MarginalPrice, Policy, Pool, Sizes, plan_cluster
from convoy.brain.plan.guards import MIN_GAIN
from convoy.brain.simulate.batch import Batch, dealt
from convoy.brain.simulate.cluster import Cluster
from convoy.brain.simulate.placement import Placement, kind_of, placed, size
from convoy.brain.simulate.policies.convoy import sizes as own
from convoy.brain.simulate.policies.convoy.known import Known
from convoy.brain.simulate.policies.convoy.learned import Learned
from convoy.brain.simulate.policies.convoy.others import Others
from convoy.brain.simulate.policy import JobView, Surroundings
from convoy.core.api.errors import InvalidInput

Array = NDArray[np.float64]

AGING = 0.5
"""Power of the time to completion that a weight falls with."""
HORIZON = 200.0
"""Seconds within which a restart is paid back: sooner than that, jobs come and go."""
GROWTH = 4
"""A job may have so many times the accelerators that it ever ran on, or one node's."""
RULES = Policy(fairness=0.5, user_fairness=0.0, hysteresis=MIN_GAIN, seconds=1.0)


class Goodputs(Protocol):
    """Says how fast a job would be."""

    def of(self, job: JobView, sizes: own.Sizes) -> tuple[Array, list[Batch | None]]:
        """Return goodput at each size (n,), steps of the initial batch a second, NaN where unknown, and its batch."""
        ...

    def seconds_left(self, job: JobView, sizes: own.Sizes) -> Array:
        """Return the seconds to completion at each size (n,), NaN where unknown."""
        ...


class Convoy:
    """The cluster's planner, with the goodputs that it is given."""

    def __init__(self, goodputs: Goodputs, cluster: Cluster, restart_seconds: float) -> None:
        """Take what is known of goodputs, the cluster, and what a restart costs.

        Raises:
            InvalidInput: nodes of one type have different numbers of accelerators.
        """
        for kind, nodes in cluster.by_kind.items():
            if len(each := {node.accelerators for node in nodes}) > 1:
                raise InvalidInput(
                    f"nodes of type {kind} have {' and '.join(map(str, sorted(each)))} accelerators: convoy's plan "
                    "takes nodes of one type for equal; leave the fewer ones out, or choose another policy"
                )
        self._goodputs = goodputs
        self._restart = restart_seconds
        self._warm: Sequence[MarginalPrice] = ()

    def batch(self, job: JobView, kind: str, nodes: int, replicas: int) -> Batch:
        """Return the batch of most goodput."""
        count, on = np.array([replicas]), np.array([nodes])
        _, (best,) = self._goodputs.of(job, own.Sizes(kind, count, on, count // on))
        if best is not None:
            return best
        limits = job.limits[kind]
        wanted = max(job.initial_batch, float(limits.smallest_local * replicas))
        return dealt(wanted, replicas, initial=job.initial_batch, largest=job.largest_batch,
                     largest_local=limits.largest_local)  # fmt: skip

    def allocate(
        self, now: float, jobs: Sequence[JobView], cluster: Cluster, previous: Mapping[str, Placement]
    ) -> Mapping[str, Placement]:
        """Return the plan's placements."""
        if not cluster.nodes:
            return {}
        capacity = Capacity(tuple(Pool(kind, len(nodes), cluster.per_node(kind)) for kind, nodes in
                                  cluster.by_kind.items()))  # fmt: skip
        asked = [self._job(now, job, cluster, previous.get(job.job, ()), len(jobs)) for job in jobs]
        plan = plan_cluster(asked, capacity, RULES, warm=self._warm)
        if not plan.decided:
            return dict(previous)
        self._warm = plan.prices
        answer = {}
        for job, told in zip(asked, plan.jobs, strict=True):
            if told.size is not None:
                kept = told.size == job.current and told.nodes == job.nodes
                answer[told.name] = (
                    previous[told.name] if kept else _placement(job.sizes, told.size, told.nodes, cluster)
                )
        return answer

    def _job(self, now: float, job: JobView, cluster: Cluster, held: Placement, others: int) -> ClusterJob:
        had = max((one.replicas for one in job.measurements), default=0)
        where = kind_of(held, cluster) if held else ""
        by_kind = [own.sizes_on(job, kind, cluster, max(GROWTH * had, cluster.per_node(kind)),
                                (size(held), len(held)) if kind == where else None)
                   for kind in cluster.kinds if kind in job.limits]  # fmt: skip
        goodput = [self._goodputs.of(job, sizes)[0] for sizes in by_kind]
        fair = _fair(by_kind, goodput, cluster, others)
        seconds = [self._goodputs.seconds_left(job, sizes) for sizes in by_kind]
        pace = _fair(by_kind, [1.0 / one for one in seconds], cluster, others)
        left = 1.0 / pace if pace > 0 else HORIZON
        sizes = _asked(by_kind, goodput)
        current, nodes = _held(by_kind, held, cluster)
        here = left if current is None else float(np.concatenate(seconds)[current])
        return ClusterJob(
            name=job.job,
            sizes=sizes,
            user=job.user,
            current=current,
            nodes=nodes,
            weight=(now - job.submitted + left + self._restart) ** -AGING,
            restart_seconds=self._restart,
            horizon_seconds=min(HORIZON, here) if here > 0 else HORIZON,
            preemptible=True,
            fair_goodput=fair,
        )


def _fair(by_kind: Sequence[own.Sizes], goodput: Sequence[Array], cluster: Cluster, jobs: int) -> float:
    """Return the goodput of an equal share, averaged over the kinds by what there is of each."""
    shares, weights = [], []
    for sizes, speeds in zip(by_kind, goodput, strict=True):
        share = max(1.0, cluster.capacity(sizes.kind) / jobs)
        known = np.isfinite(speeds) & (sizes.replicas <= share)
        if known.any():
            shares.append(float(speeds[known].max()))
            weights.append(cluster.capacity(sizes.kind))
    return float(np.average(shares, weights=weights)) if shares else float("nan")


def _asked(by_kind: Sequence[own.Sizes], goodput: Sequence[Array]) -> Sizes:
    replicas = np.concatenate([sizes.replicas for sizes in by_kind])
    return Sizes(
        pool=tuple(sizes.kind for sizes in by_kind for _ in range(len(sizes))),
        workers=replicas,
        goodput=np.concatenate(list(goodput)),
        accelerators=np.ones(len(replicas)),
        cpu=np.zeros(len(replicas)),
        memory=np.zeros(len(replicas)),
        together=np.concatenate([sizes.together for sizes in by_kind]),
    )


def _held(by_kind: Sequence[own.Sizes], held: Placement, cluster: Cluster) -> tuple[int | None, tuple[int, ...]]:
    """Return the place among the sizes of what a job holds, and its nodes' numbers within the pool."""
    if not held:
        return None, ()
    kind, before = kind_of(held, cluster), 0
    for sizes in by_kind:
        if sizes.kind == kind:
            at = np.flatnonzero((sizes.replicas == size(held)) & (sizes.nodes == len(held)))
            place = {node.index: i for i, node in enumerate(cluster.by_kind[kind])}
            return before + int(at[0]), tuple(place[node] for node, _ in held)
        before += len(sizes)
    raise AssertionError(f"a job runs on {kind}, which isn't among its kinds")


def _placement(sizes: Sizes, chosen: int, nodes: Sequence[int], cluster: Cluster) -> Placement:
    there, each = cluster.by_kind[sizes.pool[chosen]], int(sizes.together[chosen])
    return placed({there[node].index: each for node in nodes})


def build(surroundings: Surroundings, others: Others | None = None) -> Convoy:
    """Return the policy with the models, fitted to the history; ``others``: what was learned from it already."""
    learned = Others(surroundings.history) if others is None else others
    return Convoy(Learned(learned), surroundings.cluster, surroundings.restart_seconds)


def build_oracle(surroundings: Surroundings) -> Convoy:
    """Return the policy with the truth."""
    return Convoy(Known(surroundings.truth), surroundings.cluster, surroundings.restart_seconds)
