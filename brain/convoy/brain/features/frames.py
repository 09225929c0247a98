"""From the store to pandas: the throughput model's frames.

Both frames have the columns of ``convoy.brain.features.columns``, in that order: labels and ``status`` are object
(str or None), numbers and counts float64 (NaN where not known), ``observed_at`` datetime64[us, UTC]. Measured jobs
stand under their uid in ``job``; their workers are processes, and a pod's load and allotment are shared out among its
processes. Windows in which a round was still warming up are left out, and with them their load.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from convoy.brain.features.columns import COLUMNS, LABELS, NAMES
from convoy.brain.store.engine import reading
from convoy.brain.store.tables import HistoryObservation, Job, JobNodeLoad, Recommendation, TrainingSpeed

ENDED = ("Succeeded", "Failed")
_ROUND = ["job_id", "round"]
_CONFIGURATION = ["workers", "ps", "nodes", "batch_size", "accumulation_steps"]


def history(engine: Engine, exclude_job: str | None = None, *, over_since: datetime | None = None) -> pd.DataFrame:
    """Return what is known of all jobs but one: imported rows, and measured jobs with one row a (job, configuration).

    Args:
        engine: of the store.
        exclude_job: uid of the job to leave out.
        over_since: if given, of measured jobs only those that are over: ended, or silent since that moment.

    Raises:
        Unavailable: the database can't be reached now.
    """
    jobs = sa.select(Job.id)
    if exclude_job is not None:
        jobs = jobs.where(Job.uid != exclude_job)
    if over_since is not None:
        jobs = jobs.where(is_over(over_since))
    with reading(engine) as connection:
        imported = pd.DataFrame(
            connection.execute(sa.select(*(getattr(HistoryObservation, name) for name in NAMES))).all(), columns=NAMES
        )
        rounds = _rounds(connection, jobs)
    measured = _typed(_merged(rounds))
    return measured if imported.empty else pd.concat([_typed(imported), measured], ignore_index=True)


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
    with reading(engine) as connection:
        return _typed(_rounds(connection, sa.select(Job.id).where(Job.uid == job_uid)))


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    columns: dict[str, Any] = {}
    for column in COLUMNS:
        values = frame[column.name] if column.name in frame else pd.Series(None, index=frame.index, dtype=object)
        if column.kind == "label":
            columns[column.name] = values.astype(object).where(values.notna() & (values != ""), None)
        elif column.kind == "time":
            columns[column.name] = pd.to_datetime(values, utc=True).astype("datetime64[us, UTC]")
        else:
            columns[column.name] = pd.to_numeric(values).astype("float64")
    return pd.DataFrame(columns, columns=list(NAMES)).reset_index(drop=True)


_SUMS = ["windows", "window_seconds", "samples", "speeds", "squares", "compute_sum", "compute_time"]


def _rounds(connection: Connection, jobs: sa.Select[Any]) -> pd.DataFrame:
    """Return one row a (job, round, configuration) with sums over its windows, and the frame's columns from them."""
    speed = _speed(connection, jobs)
    if speed.empty:
        return pd.DataFrame(columns=list(NAMES))
    described = speed.merge(_loads(connection, jobs), on=_ROUND, how="left").merge(
        _jobs(connection, jobs), on="job_id"
    )
    ordered = described.sort_values(["job_id", "observed_at", "round"], kind="stable")
    return _with_means(_per_process(ordered))


def _speed(connection: Connection, jobs: sa.Select[Any]) -> pd.DataFrame:
    t = TrainingSpeed
    rate = t.samples_per_second
    compute = sa.case((t.compute_seconds.is_not(None), t.compute_seconds * t.seconds), else_=0.0)
    query = (
        sa.select(
            t.job_id,
            t.round,
            *(getattr(t, name) for name in _CONFIGURATION),
            sa.func.count().label("windows"),
            sa.func.sum(t.seconds).label("window_seconds"),
            sa.func.sum(t.samples).label("samples"),
            sa.func.sum(rate).label("speeds"),
            sa.func.sum(rate * rate).label("squares"),
            sa.func.sum(compute).label("compute_sum"),
            sa.func.sum(sa.case((t.compute_seconds.is_not(None), t.seconds), else_=0.0)).label("compute_time"),
            sa.func.max(t.ended_at).label("observed_at"),
        )
        .where(t.warming.is_(False), t.job_id.in_(jobs))
        .group_by(t.job_id, t.round, *(getattr(t, name) for name in _CONFIGURATION))
    )
    return _frame(connection, query)


def _loads(connection: Connection, jobs: sa.Select[Any]) -> pd.DataFrame:
    """Return one row a (job, round): what a worker and a parameter server used and were allotted.

    Counted is what ended between the end of the round's first steady window and that of its last.
    """
    t = TrainingSpeed
    steady = (
        sa.select(t.job_id, t.round, sa.func.min(t.ended_at).label("since"), sa.func.max(t.ended_at).label("until"))
        .where(t.warming.is_(False), t.job_id.in_(jobs))
        .group_by(t.job_id, t.round)
        .subquery()
    )
    load = JobNodeLoad
    query = (
        sa.select(
            load.job_id,
            load.round,
            load.role,
            load.node,
            (sa.func.sum(load.cpu_cores * load.seconds) / sa.func.sum(load.seconds)).label("cpu_used"),
            sa.func.avg(load.memory_bytes).label("memory_used"),
            sa.func.avg(load.cpu_allotted).label("cpu"),
            sa.func.avg(load.memory_allotted).label("memory"),
        )
        .join(
            steady,
            sa.and_(
                load.job_id == steady.c.job_id,
                load.round == steady.c.round,
                load.ended_at >= steady.c.since,
                load.ended_at <= steady.c.until,
            ),
        )
        .where(load.job_id.in_(jobs))
        .group_by(load.job_id, load.round, load.role, load.node)
    )
    nodes = _frame(connection, query)
    measures = ["cpu_used", "memory_used", "cpu", "memory"]
    nodes[measures] = nodes[measures].astype("float64")
    roles: list[pd.DataFrame] = []
    for role in ("worker", "ps"):
        grouped = nodes[nodes["role"] == role].groupby(_ROUND)
        names = {
            "cpu_used": f"{role}_cpu_used",
            "memory_used": f"{role}_memory_used",
            "cpu": f"{role}_cpu",
            "memory": f"{role}_memory",
        }
        roles.append(grouped[measures].mean().rename(columns=names))
        if role == "ps":
            roles.append(grouped[["cpu_used"]].max().rename(columns={"cpu_used": "ps_cpu_used_max"}))
    return pd.concat(roles, axis=1).reset_index(names=_ROUND)


def _jobs(connection: Connection, jobs: sa.Select[Any]) -> pd.DataFrame:
    room = (
        sa.select(Recommendation.job_id, sa.func.max(Recommendation.free_cpu).label("cluster_cpu"))
        .group_by(Recommendation.job_id)
        .subquery()
    )
    query = (
        sa.select(
            Job.id.label("job_id"),
            Job.uid.label("job"),
            Job.template,
            Job.model,
            Job.strategy,
            Job.cluster,
            Job.node_type,
            room.c.cluster_cpu,
        )
        .outerjoin(room, room.c.job_id == Job.id)
        .where(Job.id.in_(jobs))
    )
    frame = _frame(connection, query)
    frame["mode"] = frame["strategy"].map({"allreduce": "sync"})
    return frame


def _frame(connection: Connection, query: Any) -> pd.DataFrame:
    result = connection.execute(query)
    return pd.DataFrame(result.all(), columns=list(result.keys()))


def _merged(rounds: pd.DataFrame) -> pd.DataFrame:
    """Return one row a (job, configuration) from one a round: sums of speeds, loads weighted by time."""
    if rounds.empty:
        return rounds
    key = ["job", *_CONFIGURATION]
    loads = [name for name in rounds.columns if name.startswith(("worker_", "ps_"))]
    weighted = rounds.copy()
    for name in loads:
        weighted[f"{name}_time"] = weighted["window_seconds"].where(weighted[name].notna())
        weighted[name] = weighted[name] * weighted["window_seconds"]
    labels = [name for name in (*LABELS, "cluster_cpu") if name in rounds.columns and name not in key]
    how: dict[str, Any] = {
        **dict.fromkeys(_SUMS, "sum"),
        **{name: lambda values: values.sum(min_count=1) for name in (*loads, *(f"{name}_time" for name in loads))},
        **dict.fromkeys(labels, "first"),
        "observed_at": "max",
    }
    merged = weighted.groupby(key, dropna=False, sort=False).agg(how).reset_index()
    for name in loads:
        merged[name] = merged[name] / merged[f"{name}_time"]
    return _with_means(merged)


def _per_process(frame: pd.DataFrame) -> pd.DataFrame:
    """Share a pod's CPU and memory out among its processes."""
    processes = (frame["workers"] / frame["nodes"].astype("float64")).fillna(1.0).clip(lower=1.0)
    names = ("worker_cpu", "worker_memory", "worker_cpu_used", "worker_memory_used")
    return frame.assign(**{name: frame[name] / processes for name in names})


def _with_means(frame: pd.DataFrame) -> pd.DataFrame:
    """Add speed, its standard error, and compute time, from the sums."""
    sums = frame[_SUMS].astype("float64")
    count = sums["windows"]
    mean = sums["speeds"] / count
    variance = (sums["squares"] - count * mean**2).clip(lower=0.0) / (count - 1).where(count > 1)
    return frame.assign(
        throughput=sums["samples"] / sums["window_seconds"],
        throughput_sd=np.sqrt(variance / count),
        compute_seconds=sums["compute_sum"] / sums["compute_time"].where(sums["compute_time"] > 0),
        status="ok",
    )
