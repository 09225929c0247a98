"""What jobs that succeeded ended with, beside what was known before they began: start-up models learn from it.

A job's size is that of its last round, else the number of its pods; what its workers and servers were allotted is the
most among the pods that were last in their ranks. Workers are processes, as in the frames of observations, and a
pod's allotment is shared out among its processes.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from convoy.brain.features.columns import COLUMNS, Column
from convoy.brain.features.hours import Span
from convoy.brain.features.layout import Layout, read_all
from convoy.brain.store.engine import snapshot
from convoy.brain.store.jobs import PRIORITY
from convoy.brain.store.tables import Job, JobAttempt, JobFeature, JobNode

SUCCEEDED = "Succeeded"
ROLES = ("worker", "ps")
PREFIX = "feature_"
_COLUMN = {column.name: column for column in COLUMNS}
_BEFORE = ("template", "strategy", "mode", "model", "cluster", "accelerator", "node_type")
STARTUP_JOBS = Layout(
    "startup_jobs",
    "A job that succeeded. After these columns stands one for each other number that masters told of jobs, "
    "`feature_` before its name.",
    (
        Column("job", "label", "its uid"),
        _COLUMN["template"],
        Column("image", "label", "that its pods run"),
        Column("user", "label", "whose job it is"),
        *(_COLUMN[name] for name in _BEFORE[1:]),
        Column("dataset", "label", "that it was trained on"),
        Column("model_parameters", "count", "numbers that the model learns"),
        Column("dataset_samples", "count", "samples of an epoch"),
        Column("batch_size", "number", "samples of a step, of all workers together, as asked for"),
        Column("learning_rate", "number", "as asked for"),
        Column("workers", "count", "processes, in its last round"),
        Column("ps", "count", "parameter servers, in its last round"),
        *(_COLUMN[name] for name in ("worker_cpu", "worker_memory", "ps_cpu", "ps_memory")),
        Column("completed_at", "time", "the last sign of it"),
    ),
    order=("completed_at", "job"),
)
_TOLD = ("dataset", "model_parameters", "dataset_samples", "batch_size", "learning_rate")


def startup_jobs(engine: Engine, *, since: datetime | None = None, until: datetime | None = None) -> pd.DataFrame:
    """Return the jobs that succeeded (``STARTUP_JOBS``), the earliest first; all that is known of one is its row.

    Args:
        engine: of the store.
        since, until: jobs whose last sign lies in [since, until); None: from the beginning, to the end.

    Raises:
        InvalidInput: a moment that is no datetime, or has no time zone.
        Unavailable: the database can't be reached now.
    """
    over = [Job.state == SUCCEEDED, *Span(since, until).holds(Job.last_seen)]
    chosen = sa.select(Job.id).where(*over)
    with snapshot(engine) as connection:
        jobs = read_all(connection, _jobs(over))
        rounds = read_all(connection, _last_rounds(chosen))
        pods = _last_pods(connection, chosen)
        features = read_all(connection, _features(chosen))
    described = jobs.merge(rounds, on="job_id", how="left").merge(_by_role(pods), on="job_id", how="left")
    frame = STARTUP_JOBS.typed(_sized(described))
    told = features.pivot(index="job_id", columns="name", values="value") if len(features) else pd.DataFrame()
    told = told.reindex(described["job_id"]).add_prefix(PREFIX).astype("float64").reset_index(drop=True)
    whole = pd.concat([frame, told], axis=1) if len(told.columns) else frame
    return whole.sort_values(list(STARTUP_JOBS.order), kind="stable", ignore_index=True)


def _jobs(over: list[sa.ColumnElement[bool]]) -> sa.Select[*tuple[Any, ...]]:
    columns = (getattr(Job, name) for name in (*_BEFORE, "image", "user", *_TOLD))
    return sa.select(
        Job.id.label("job_id"), Job.uid.label("job"), Job.last_seen.label("completed_at"), *columns
    ).where(*over)


def _features(jobs: sa.Select[Any]) -> sa.Select[*tuple[Any, ...]]:
    """Return what masters told of jobs; a priority says when a job runs, and nothing of what it needs."""
    told = sa.select(JobFeature.job_id, JobFeature.name, JobFeature.value)
    return told.where(JobFeature.job_id.in_(jobs), JobFeature.name != PRIORITY)


def _last_rounds(jobs: sa.Select[Any]) -> sa.Select[*tuple[Any, ...]]:
    last = (
        sa.select(JobAttempt.job_id, sa.func.max(JobAttempt.round).label("round"))
        .where(JobAttempt.job_id.in_(jobs))
        .group_by(JobAttempt.job_id)
        .subquery()
    )
    same = sa.and_(JobAttempt.job_id == last.c.job_id, JobAttempt.round == last.c.round)
    return sa.select(JobAttempt.job_id, JobAttempt.workers, JobAttempt.ps, JobAttempt.nodes).join(last, same)


def _last_pods(connection: Connection, jobs: sa.Select[Any]) -> pd.DataFrame:
    """Return the pod that was last in each rank of a job's role; pods without a rank all count."""
    began = sa.func.coalesce(JobNode.started_at, JobNode.created_at)
    query = (
        sa.select(
            JobNode.job_id,
            JobNode.role,
            JobNode.rank,
            JobNode.id,
            JobNode.cpu_allotted.label("cpu"),
            JobNode.memory_allotted.label("memory"),
        )
        .where(JobNode.job_id.in_(jobs), JobNode.role.in_(ROLES))
        .order_by(JobNode.job_id, JobNode.role, began.is_not(None), began, JobNode.id)
    )
    pods = read_all(connection, query).astype({"rank": "float64", "cpu": "float64", "memory": "float64"})
    rank = pods["rank"].where(pods["rank"].notna(), -1.0 - pods["id"].astype("float64"))
    return pods.assign(rank=rank).drop_duplicates(["job_id", "role", "rank"], keep="last")


def _by_role(pods: pd.DataFrame) -> pd.DataFrame:
    """Return for each job the number of pods in each role, and the most that one was allotted."""
    parts = []
    for role in ROLES:
        grouped = pods[pods["role"] == role].groupby("job_id")
        most = grouped[["cpu", "memory"]].max().add_prefix(f"{role}_")
        parts.append(most.assign(**{f"{role}_pods": grouped.size().astype("float64")}))
    return pd.concat(parts, axis=1).reset_index(names="job_id")


def _sized(jobs: pd.DataFrame) -> pd.DataFrame:
    """Add sizes, and share a pod's allotment out among its processes."""
    numbers = jobs[["workers", "ps", "nodes", "worker_pods", "ps_pods"]].astype("float64")
    nodes = numbers["nodes"].where(numbers["nodes"] > 0)
    processes = (numbers["workers"] / nodes).fillna(1.0).clip(lower=1.0)
    servers = numbers["ps"].fillna(numbers["ps_pods"])
    servers = servers.where(jobs["strategy"] != "allreduce", 0.0)
    return jobs.assign(
        workers=numbers["workers"].fillna(numbers["worker_pods"]),
        ps=servers,
        worker_cpu=jobs["worker_cpu"] / processes,
        worker_memory=jobs["worker_memory"] / processes,
    )
