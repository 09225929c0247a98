"""The throughput model's frames: what all jobs showed, and what one job showed.

Both have the columns of ``convoy.brain.features.columns``. Measured jobs stand under their uid in ``job``; their
workers are processes, and a pod's load and allotment are shared out among its processes. Windows in which a round was
still warming up are left out, and with them their load.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from convoy.brain.features import gradients, speed, steady_load
from convoy.brain.features.columns import COLUMNS, LABELS, NAMES
from convoy.brain.features.hours import require_moment
from convoy.brain.features.layout import Layout, read, read_all
from convoy.brain.features.speed import CONFIGURATION, SUMS, with_means
from convoy.brain.store.engine import snapshot
from convoy.brain.store.tables import HistoryObservation, Job, JobNode, Recommendation

OBSERVATIONS = Layout(
    "history, observed",
    "One job's mean speed, and its load, at one configuration over one stretch of time: in `observed` a round of the "
    "job, in the order of time; in `history` all rounds of a job together, and each imported row.",
    COLUMNS,
)
ENDED = ("Succeeded", "Failed")
_TABLES = (*speed.TABLES, *steady_load.TABLES)


def history(engine: Engine, exclude_job: str | None = None, *, over_since: datetime | None = None) -> pd.DataFrame:
    """Return what is known of all jobs but one: imported rows, and measured jobs with one row a (job, configuration).

    Args:
        engine: of the store.
        exclude_job: uid of the job to leave out.
        over_since: if given, of measured jobs only those that are over: ended, or silent since that moment.

    Raises:
        InvalidInput: a moment that is no datetime, or has no time zone.
        Unavailable: the database can't be reached now.
    """
    require_moment("over_since", over_since)
    jobs = sa.select(Job.id)
    if exclude_job is not None:
        jobs = jobs.where(Job.uid != exclude_job)
    if over_since is not None:
        jobs = jobs.where(is_over(over_since))
    query = sa.select(*(getattr(HistoryObservation, name) for name in NAMES))
    with snapshot(engine, *_TABLES) as connection:
        parts = [OBSERVATIONS.typed(part) for part in read(connection, query)]
        measured = _merged(_rounds(connection, jobs))
    return OBSERVATIONS.joined([*parts, OBSERVATIONS.typed(measured)])


def is_over(since: datetime) -> sa.ColumnElement[bool]:
    """Return the condition that a job ended, or was silent since a moment."""
    return sa.or_(Job.state.in_(ENDED), Job.last_seen < since)


def observed(engine: Engine, job_uid: str) -> pd.DataFrame:
    """Return what one job showed, one row a (round, configuration) in the order of time.

    Empty where nothing was measured past warm-up.

    Args:
        engine: of the store.
        job_uid: the job's uid.

    Raises:
        Unavailable: the database can't be reached now.
    """
    with snapshot(engine, *_TABLES) as connection:
        return OBSERVATIONS.typed(_rounds(connection, sa.select(Job.id).where(Job.uid == job_uid), noise=True))


def _rounds(connection: Connection, jobs: sa.Select[Any], *, noise: bool = False) -> pd.DataFrame:
    """Return one row a (job, round, configuration) with sums over its windows, and the frame's columns from them.

    Args:
        connection: on a snapshot.
        jobs: a query of jobs' numbers.
        noise: with the noise of their gradients; of all jobs it would be too much to read.
    """
    windows = speed.rounds(connection, jobs)
    if windows.empty:
        return pd.DataFrame(columns=[*NAMES, *SUMS])
    described = windows.merge(steady_load.by_round(connection, jobs), on=list(steady_load.ROUND), how="left").merge(
        _jobs(connection, jobs), on="job_id"
    )
    told = gradients.newest(connection, windows) if noise else gradients.UNTOLD
    described = gradients.with_noise(described, told)
    ordered = described.sort_values(["job_id", "last_ended_at", "round"], kind="stable")
    return _named(_per_process(ordered))


def _jobs(connection: Connection, jobs: sa.Select[Any]) -> pd.DataFrame:
    room = (
        sa.select(Recommendation.job_id, sa.func.max(Recommendation.free_cpu).label("cluster_cpu"))
        .where(Recommendation.job_id.in_(jobs))
        .group_by(Recommendation.job_id)
        .subquery()
    )
    accelerators = (
        sa.select(JobNode.job_id, sa.func.max(JobNode.accelerators).label("accelerators_per_worker"))
        .where(JobNode.job_id.in_(jobs), JobNode.role == "worker")
        .group_by(JobNode.job_id)
        .subquery()
    )
    labels = (Job.template, Job.model, Job.strategy, Job.mode, Job.cluster, Job.accelerator, Job.node_type)
    query = (
        sa.select(
            Job.id.label("job_id"),
            Job.uid.label("job"),
            *labels,
            room.c.cluster_cpu,
            accelerators.c.accelerators_per_worker,
        )
        .outerjoin(room, room.c.job_id == Job.id)
        .outerjoin(accelerators, accelerators.c.job_id == Job.id)
        .where(Job.id.in_(jobs))
    )
    frame = read_all(connection, query).astype({"cluster_cpu": "float64", "accelerators_per_worker": "float64"})
    waits = frame["strategy"].map({"allreduce": "sync"})  # of whatever library: a step is everybody's
    return frame.assign(mode=frame["mode"].where(frame["mode"] != "", waits))


def _merged(rounds: pd.DataFrame) -> pd.DataFrame:
    """Return one row a (job, configuration) from one a round: sums of speeds, loads weighted by time."""
    if rounds.empty:
        return rounds
    key = ["job", *CONFIGURATION]
    loads = [name for name in rounds.columns if name.startswith(("worker_", "ps_", "grad_"))]
    weighted = rounds.copy()
    for name in loads:
        weighted[f"{name}_time"] = weighted["seconds"].where(weighted[name].notna())
        weighted[name] = weighted[name] * weighted["seconds"]
    firsts = (*LABELS, "cluster_cpu", "accelerators_per_worker")
    how: dict[str, Any] = {
        **dict.fromkeys((*SUMS, *loads, *(f"{name}_time" for name in loads)), "sum"),
        **{name: "first" for name in firsts if name in rounds.columns and name not in key},
        "last_ended_at": "max",
    }
    merged = weighted.groupby(key, dropna=False, sort=False).agg(how).reset_index()
    for name in loads:
        time = merged[f"{name}_time"]
        merged[name] = merged[name] / time.where(time > 0)
    return _named(merged)


def _per_process(frame: pd.DataFrame) -> pd.DataFrame:
    """Share a pod's CPU, memory and accelerators out among its processes."""
    processes = (frame["workers"] / frame["nodes"]).fillna(1.0).clip(lower=1.0)
    names = ("worker_cpu", "worker_memory", "worker_cpu_used", "worker_memory_used", "accelerators_per_worker")
    return frame.assign(**{name: frame[name] / processes for name in names})


def _named(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the columns that follow from the sums, by the names that the models know."""
    return with_means(frame).assign(status="ok", window_seconds=frame["seconds"], observed_at=frame["last_ended_at"])
