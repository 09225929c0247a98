"""What a simulation is judged by, and two of them beside each other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convoy.brain.simulate.batch import dealt
from convoy.brain.simulate.cluster import Cluster
from convoy.brain.simulate.outcome import JobOutcome, Outcome
from convoy.brain.simulate.truth import Truth
from convoy.brain.simulate.workload import Submission

Array = NDArray[np.float64]

RESAMPLES = 2000
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Measures:
    """One simulation in numbers.

    Attributes:
        policy: its name.
        jobs: that it completed.
        mean_completion, geometric_completion, p99_completion: seconds from submission to completion.
        makespan: seconds from the first submission to the last completion.
        utilization: accelerator-seconds that jobs held, of those of the whole cluster during the makespan.
        accelerator_hours: that jobs held.
        cost: of them; NaN where a kind that was used has no price.
        restarts: changes of placement after each job's first.
        restarts_per_job_hour: of the time between each job's start and completion.
        worst_fairness: 99th percentile of completion time over that on an equal share (``fairness``).
        unfair: share of jobs that took longer than on an equal share.
        ooms: micro-batches chosen that fit no accelerator.
        failures: nodes lost, counted for each job.
    """

    policy: str
    jobs: int
    mean_completion: float
    geometric_completion: float
    p99_completion: float
    makespan: float
    utilization: float
    accelerator_hours: float
    cost: float
    restarts: int
    restarts_per_job_hour: float
    worst_fairness: float
    unfair: float
    ooms: int
    failures: int


def measured(
    outcome: Outcome, workload: Mapping[str, Submission], truth: Truth, prices: Mapping[str, float] | None = None
) -> Measures:
    """Return an outcome in numbers.

    Args:
        outcome: of a simulation.
        workload: its jobs by name.
        truth: of its speeds.
        prices: of an accelerator-hour, by kind.
    """
    jobs = outcome.jobs
    times = np.array([job.completion_seconds for job in jobs])
    makespan = max(job.completed for job in jobs) - min(job.submitted for job in jobs)
    held = _held(jobs)
    ran = sum(job.completed - job.started for job in jobs)
    unfairness = fairness(outcome, workload, truth)
    return Measures(
        policy=outcome.policy,
        jobs=len(jobs),
        mean_completion=float(times.mean()),
        geometric_completion=float(np.exp(np.log(times).mean())),
        p99_completion=float(np.percentile(times, 99)),
        makespan=makespan,
        utilization=sum(held.values()) / (makespan * outcome.cluster.accelerators),
        accelerator_hours=sum(held.values()) / 3600.0,
        cost=sum(seconds / 3600.0 * (prices or {}).get(kind, math.nan) for kind, seconds in held.items()),
        restarts=sum(job.restarts for job in jobs),
        restarts_per_job_hour=sum(job.restarts for job in jobs) / (ran / 3600.0),
        worst_fairness=float(np.percentile(unfairness, 99)),
        unfair=float(np.mean(unfairness > 1.0)),
        ooms=sum(job.ooms for job in jobs),
        failures=sum(job.failures for job in jobs),
    )


def fairness(outcome: Outcome, workload: Mapping[str, Submission], truth: Truth) -> Array:
    """Return each job's finish-time fairness: its completion time over that which it would have had, alone, on an
    equal share of the cluster, with no more than its user asked for.

    The share is the cluster divided by the mean number of incomplete jobs during the job's life; on several kinds of
    accelerators it is of each of them. Source: Mahajan et al., Themis, NSDI 2020.
    """
    others = _contention(outcome.jobs)
    alone = [
        _alone(workload[job.job], truth, outcome.cluster, count)
        for job, count in zip(outcome.jobs, others, strict=True)
    ]
    times = np.array([job.completion_seconds for job in outcome.jobs])
    return np.asarray(times / np.array(alone))


def _contention(jobs: tuple[JobOutcome, ...]) -> Array:
    """Return the mean number of incomplete jobs during each job's life, itself included."""
    begin, end = np.array([job.submitted for job in jobs]), np.array([job.completed for job in jobs])
    together = np.minimum(end[:, None], end) - np.maximum(begin[:, None], begin)
    return np.asarray(np.maximum(together, 0.0).sum(axis=1) / (end - begin))


def _alone(asked: Submission, truth: Truth, cluster: Cluster, jobs: float) -> float:
    """Return the seconds of a job by itself on an equal share."""
    application = truth.application(asked.application)
    kinds = [kind for kind in cluster.kinds if truth.runs_on(asked.application, kind)]
    speed = np.zeros(application.epochs)
    for kind in kinds:
        limits, each = truth.limits(asked.application, kind), cluster.per_node(kind)
        replicas = max(1, min(asked.replicas, limits.most, cluster.capacity(kind), int(cluster.accelerators / jobs)))
        full, rest = divmod(replicas, each)
        shape = tuple(sorted([each] * full + [rest] * (rest > 0)))
        batch = dealt(
            asked.global_batch,
            replicas,
            initial=application.initial_batch,
            largest=application.largest_batch,
            largest_local=limits.largest_local,
        )
        share = cluster.capacity(kind) / sum(cluster.capacity(one) for one in kinds)
        speed += share * np.array(
            [truth.goodput(asked.application, kind, shape, batch, epoch) for epoch in range(application.epochs)]
        )
    return float(np.sum(np.diff(application.ends, prepend=0.0) / speed))


def _held(jobs: tuple[JobOutcome, ...]) -> dict[str, float]:
    held: dict[str, float] = {}
    for job in jobs:
        for kind, seconds in job.gpu_seconds.items():
            held[kind] = held.get(kind, 0.0) + seconds
    return held


@dataclass(frozen=True, slots=True)
class Paired:
    """Completion times of one outcome over those of another, job by job.

    Attributes:
        ratio: geometric mean.
        low, high: its 95 % interval by bootstrap over jobs.
        p99: 99th percentile of the jobs' ratios.
        worst: the largest.
        worst_job: whose it is.
    """

    ratio: float
    low: float
    high: float
    p99: float
    worst: float
    worst_job: str


def paired(one: Outcome, other: Outcome, seed: int = 0) -> Paired:
    """Return how much longer jobs took in one outcome than in another of the same workload."""
    times = {job.job: job.completion_seconds for job in other.jobs}
    names = [job.job for job in one.jobs]
    logs = np.log([job.completion_seconds / times[job.job] for job in one.jobs])
    rng = np.random.default_rng(seed)
    means = logs[rng.integers(len(logs), size=(RESAMPLES, len(logs)))].mean(axis=1)
    low, high = np.exp(np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]))
    place = int(logs.argmax())
    return Paired(
        float(np.exp(logs.mean())),
        float(low),
        float(high),
        float(np.exp(np.percentile(logs, 99))),
        float(np.exp(logs[place])),
        names[place],
    )
