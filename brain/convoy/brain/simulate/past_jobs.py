"""The store's completed jobs as they were: what the simulator's files are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from convoy.brain.features.observations import history
from convoy.brain.store.engine import snapshot
from convoy.brain.store.tables import Job, JobAttempt, Node
from convoy.brain.store.tables.base import MEASURED

CPU = "cpu"
"""Kind of a machine or a job without accelerators and without a node type."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A stretch of a job at one size: samples are those of its steps."""

    workers: int
    nodes: int
    global_batch: float
    samples: float


@dataclass(frozen=True, slots=True)
class PastJob:
    """A job that succeeded.

    Attributes:
        uid, name, user: its.
        kind: of accelerator.
        submitted: when it was first seen.
        attempts: in order; at least one.
    """

    uid: str
    name: str
    user: str
    kind: str
    submitted: datetime
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True)
class Past:
    """What the store knows.

    Attributes:
        jobs: by submission.
        observations: speeds of all jobs, as models are fitted to them.
        machines: by (kind, accelerators).
        left_out: jobs that can't be replayed, and why.
    """

    jobs: tuple[PastJob, ...]
    observations: pd.DataFrame
    machines: Mapping[tuple[str, int], int]
    left_out: Mapping[str, str]


def read_past(engine: Engine) -> Past:
    """Read the measured jobs that are over, their speeds, and the machines that are there.

    Raises:
        Unavailable: the database can't be reached now.
    """
    with snapshot(engine, Job, JobAttempt, Node) as connection:
        jobs = connection.execute(sa.select(Job).where(Job.origin == MEASURED).order_by(Job.first_seen, Job.id)).all()
        tries = connection.execute(sa.select(JobAttempt).order_by(JobAttempt.job_id, JobAttempt.round)).all()
        nodes = connection.execute(sa.select(Node).where(Node.gone_at.is_(None))).all()
    attempts: dict[int, list[Attempt]] = {}
    for one in tries:
        if one.batch_size and one.workers:
            batch = float(one.batch_size) * one.workers * (one.accumulation_steps or 1)
            steps = one.last_step - one.first_step + 1
            attempts.setdefault(one.job_id, []).append(Attempt(one.workers, one.nodes or 1, batch, steps * batch))
    found, left_out = [], {}
    for job in jobs:
        reason = _unfit(job, attempts.get(job.id))
        if reason:
            left_out[job.name] = reason
            continue
        kind = job.accelerator or job.node_type or CPU
        found.append(PastJob(job.uid, job.name, job.user, kind, job.first_seen, tuple(attempts[job.id])))
    return Past(tuple(found), history(engine), _machines(nodes), left_out)


def _unfit(job: sa.Row[Any], attempts: list[Attempt] | None) -> str:
    """Return why a job can't be replayed; empty: it can."""
    if job.state != "Succeeded":
        return f"it is {job.state}: only jobs that succeeded say how much work they were"
    if job.strategy not in ("", "allreduce"):
        return f"its strategy is {job.strategy}: only all-reduce jobs are simulated"
    return "" if attempts else "no window of its speed says its batch"


def _machines(nodes: Sequence[sa.Row[Any]]) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    for node in nodes:
        accelerators = int(node.accelerators_allocatable or node.accelerators_capacity or 0)
        if accelerators > 0:
            kind = (node.accelerator or node.node_type or CPU, accelerators)
            found[kind] = found.get(kind, 0) + 1
    return found
