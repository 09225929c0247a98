"""What a scheduling policy is: it sees jobs as they can be seen from outside, and says which accelerators each gets.

A policy is a class with ``allocate`` and ``batch``. The engine calls

- ``allocate`` at each decision (every ``interval`` seconds while there are unfinished jobs), with all jobs that were
  submitted and aren't complete. What isn't in its answer, or has an empty placement, runs no more until a later
  decision. A job whose answer differs from ``previous`` in anything, be it the number of a node, restarts: it makes
  no progress for the restart's seconds. So a policy that wants to keep a job running hands back ``previous[job]``.
- ``batch`` whenever a job starts somewhere, at the end of each of its epochs and at each decision: how the job itself
  deals its samples on what it has. It costs nothing to change it. Inherit ``RequestedBatch`` for a job that keeps the
  global batch its user asked for, as far as it fits.

Policies see measurements, never the truth: only those called oracles are built with it (``Surroundings.truth``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from convoy.brain.simulate.batch import Batch, dealt
from convoy.brain.simulate.cluster import Cluster
from convoy.brain.simulate.placement import Placement
from convoy.brain.simulate.truth import Limits, Truth


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a job measured at one configuration: once each, when it first ran there.

    Attributes:
        kind: of accelerator.
        nodes: that its accelerators were on.
        replicas: accelerators, a process each.
        local: samples of a micro-batch.
        step_seconds: of a micro-step with synchronization, with the scatter of a replicate.
        sync_seconds: the part of it that isn't overlapped with computing.
    """

    kind: str
    nodes: int
    replicas: int
    local: int
    step_seconds: float
    sync_seconds: float


@dataclass(frozen=True, slots=True)
class JobView:
    """A job that isn't complete, as a policy sees it.

    Attributes:
        job: its name.
        application: name of what it trains: the history's ``model``, not to be used to look into the truth.
        user: whose it is; empty: unknown.
        submitted: seconds from zero.
        requested_replicas: accelerators that its user asks for.
        requested_batch: global batch that its user asks for.
        initial_batch: global batch that its hyper-parameters were chosen for; less is never better.
        largest_batch: global batch that isn't to be passed.
        limits: by kind of accelerator on which it can run (of the whole cluster, also where nodes are down).
        started: seconds from zero of its first placement; None: it has never run.
        service: accelerator-seconds that it has had, its restarts' included.
        restarts: how often its placement changed after the first, pauses not counted by themselves.
        epoch: epochs that are over.
        epochs: that it is to run.
        progress: steps of the initial batch that its steps so far were worth.
        work: progress at which it is complete.
        measurements: at distinct (kind, nodes, replicas, local), oldest first.
        gradient: squared norm and variance of the gradient, both at the initial batch, as last measured; None: it
            has never run. ``convoy.brain.models.efficiency.gain`` makes progress of it.
        resting: seconds of the current restart that are still to pass.
    """

    job: str
    application: str
    user: str
    submitted: float
    requested_replicas: int
    requested_batch: float
    initial_batch: float
    largest_batch: float
    limits: Mapping[str, Limits]
    started: float | None
    service: float
    restarts: int
    epoch: int
    epochs: int
    progress: float
    work: float
    measurements: Sequence[Measurement]
    gradient: tuple[float, float] | None
    resting: float


class Policy(Protocol):
    """Decides for a whole cluster."""

    def allocate(
        self, now: float, jobs: Sequence[JobView], cluster: Cluster, previous: Mapping[str, Placement]
    ) -> Mapping[str, Placement]:
        """Return where each job is to run from now on.

        Args:
            now: seconds from zero.
            jobs: that were submitted and aren't complete, ordered by submission.
            cluster: nodes that work now.
            previous: placements of the jobs that run now; each on nodes of ``cluster``.

        Returns:
            Placements by job: nodes of one kind, within each node's accelerators, within the job's ``limits``.
        """
        ...

    def batch(self, job: JobView, kind: str, nodes: int, replicas: int) -> Batch:
        """Return how a job deals its samples to replicas on a kind of accelerator."""
        ...


class RequestedBatch:
    """Jobs keep the global batch that was asked for."""

    def batch(self, job: JobView, kind: str, nodes: int, replicas: int) -> Batch:
        """Return shares of the requested batch, in micro-batches that fit."""
        return requested_batch(job, kind, replicas)


def requested_batch(job: JobView, kind: str, replicas: int) -> Batch:
    """Return shares of the batch that a job's user asked for, in micro-batches that fit the accelerator."""
    return dealt(
        job.requested_batch,
        replicas,
        initial=job.initial_batch,
        largest=job.largest_batch,
        largest_local=job.limits[kind].largest_local,
    )


@dataclass(frozen=True)
class Surroundings:
    """What policies are built with; each takes what it needs.

    Attributes:
        cluster: with all of its nodes.
        truth: for oracles alone.
        restart_seconds: that a change of placement costs.
        interval: seconds between decisions.
        seed: of a policy's own randomness.
        history: observations of earlier jobs, with the columns of ``convoy.brain.features.columns``; None: there are
            none. It may hold no row of the workload's own programs.
    """

    cluster: Cluster
    truth: Truth
    restart_seconds: float
    interval: float
    seed: int = 0
    history: Any = None


Builder = Callable[[Surroundings], Policy]
"""How a policy is built for one run."""
