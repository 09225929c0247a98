"""The load of a job's pods over time, at a chosen resolution."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any, overload

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from convoy.brain.features import resolution as resolutions
from convoy.brain.features.columns import Column
from convoy.brain.features.hours import Span
from convoy.brain.features.jobs import require_job
from convoy.brain.features.layout import Layout, delivered, read, read_all
from convoy.brain.features.measures import MEASURES, TIME, means, of_windows, preferring, raw
from convoy.brain.features.resolution import Resolution, Sums, sums_of
from convoy.brain.store.tables import AGENT, Job, JobNode, JobNodeLoad, Node
from convoy.sql.types import UtcDateTime

POD_LOAD = Layout(
    "pod_load",
    "One pod of a job over a minute, an hour, or (raw) a window. Raw rows stand as they came; by minute and hour a "
    "measure is its agent's where that told it, else Prometheus's.",
    (
        Column("job", "label", "its uid"),
        Column("pod", "label", "its name"),
        Column("role", "label", "worker, ps, ..."),
        Column("rank", "count", "in its role"),
        Column("machine", "label", "where it was last seen"),
        Column("source", "label", "who measured", choices=("agent", "prometheus")),
        Column("round", "count", "of training: the last one in the row's time"),
        TIME,
        *MEASURES,
        Column("cpu_allotted", "number", "the most in the row's time (cores)"),
        Column("memory_allotted", "number", "the most in the row's time (bytes)"),
        Column("accelerators_allotted", "number", "to the pod (accelerators)"),
    ),
    order=("time", "pod", "source"),
)


@overload
def pod_load(
    engine: Engine,
    job_uid: str,
    resolution: Resolution = "1m",
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    chunks: None = None,
) -> pd.DataFrame: ...
@overload
def pod_load(
    engine: Engine,
    job_uid: str,
    resolution: Resolution = "1m",
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    chunks: int,
) -> Iterator[pd.DataFrame]: ...
def pod_load(
    engine: Engine,
    job_uid: str,
    resolution: Resolution = "1m",
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    chunks: int | None = None,
) -> pd.DataFrame | Iterator[pd.DataFrame]:
    """Return the load of a job's pods (``POD_LOAD``).

    Args:
        engine: of the store.
        job_uid: the job's uid.
        resolution: ``raw``, ``1m`` or ``1h``.
        since, until: rows whose time lies in [since, until); None: from the beginning, to the end.
        chunks: give frames of at most so many rows, one after the other, unsorted across them; read on without long
            pauses: whoever maintains the store waits.

    Raises:
        InvalidInput: no such resolution, a moment that is no datetime or has no time zone, or ``chunks`` is less
            than 1.
        NotFound: no job of that uid is known.
        Unavailable: the database can't be reached now.
    """
    resolutions.checked(resolution)
    parts = partial(_pods, job_uid, resolution, Span(since, until))
    require_job(engine, job_uid)
    return delivered(engine, resolutions.tables(JobNodeLoad, resolution), POD_LOAD, parts, chunks)


def _pods(
    job_uid: str, resolution: Resolution, span: Span, connection: Connection, rows: int
) -> Iterator[pd.DataFrame]:
    jobs = sa.select(Job.id).where(Job.uid == job_uid)
    described = read_all(
        connection,
        sa.select(
            JobNode.name.label("pod"),
            JobNode.rank,
            Node.name.label("machine"),
            JobNode.accelerators.label("accelerators_allotted"),
        )
        .outerjoin(Node, Node.id == JobNode.node_id)
        .where(JobNode.job_id.in_(jobs)),
    )
    if resolution == "raw":
        load = JobNodeLoad
        columns = (
            load.node.label("pod"),
            load.role,
            load.source,
            load.round,
            load.cpu_allotted,
            load.memory_allotted,
        )
        queries = [raw(load, *columns).where(load.job_id.in_(jobs), *span.holds(load.ended_at))]
    else:
        queries = [_by_pod(each) for each in sums_of(connection, JobNodeLoad, resolution, jobs, span)]
    for query in queries:
        for part in read(connection, query, rows):
            found = of_windows(part) if resolution == "raw" else part
            found = found.assign(job=job_uid, round=found["round"].where(found["round"] > 0))
            yield found.merge(described, on="pod", how="left")


def _by_pod(each: Sums) -> sa.Select[*tuple[Any, ...]]:
    of = each.columns
    by_agent = of.source == AGENT
    key = (of.job_id, of.started_at, of.node)
    return (
        sa.select(
            of.node.label("pod"),
            sa.func.max(of.role).label("role"),
            preferring(by_agent, lambda picked: sa.func.max(picked(of.source))).label("source"),
            sa.func.max(of.round).label("round"),
            sa.type_coerce(of.started_at, UtcDateTime()).label("time"),
            *(value.label(name) for name, value in means(of, by_agent).items()),
            preferring(by_agent, lambda picked: sa.func.max(picked(of.cpu_allotted))).label("cpu_allotted"),
            preferring(by_agent, lambda picked: sa.func.max(picked(of.memory_allotted))).label("memory_allotted"),
        )
        .where(each.condition)
        .group_by(*key)
    )
