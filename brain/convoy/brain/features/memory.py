"""Memory that pods used, beside their limits: what a model of memory learns from."""

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
from convoy.brain.features.measures import preferring
from convoy.brain.features.resolution import Resolution, Sums, sums_of
from convoy.brain.store.tables import AGENT, Job, JobNode, JobNodeLoad
from convoy.sql.types import UtcDateTime

OUT_OF_MEMORY = "OOMKilled"
"""The reason that Kubernetes gives."""
MEMORY_USAGE = Layout(
    "memory_usage",
    "What one pod used at most in an hour or minute, or (raw) at the end of a window; and one more for a pod that "
    "was killed for its memory, at its end: it would have used more than its limit.",
    (
        Column("container", "label", "which rows belong together: its job's uid, a slash, the pod's name"),
        Column("template", "label", "what runs: jobs of one template run the same program"),
        Column("role", "label", "worker, ps, ..."),
        Column("rank", "count", "in its role"),
        Column("time", "time", "beginning of the hour or minute; raw: end of the window; killed: when it ended"),
        Column("used_bytes", "number", "the most in the row's time; killed: its limit (bytes)"),
        Column("limit_bytes", "number", "allotted to the pod then (bytes)"),
        Column("oom", "flag", "it was killed because it reached its limit"),
    ),
    order=("container", "time", "oom"),
)


@overload
def memory_usage(
    engine: Engine,
    job_uid: str | None = None,
    resolution: Resolution = "1h",
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    chunks: None = None,
) -> pd.DataFrame: ...
@overload
def memory_usage(
    engine: Engine,
    job_uid: str | None = None,
    resolution: Resolution = "1h",
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    chunks: int,
) -> Iterator[pd.DataFrame]: ...
def memory_usage(
    engine: Engine,
    job_uid: str | None = None,
    resolution: Resolution = "1h",
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    chunks: int | None = None,
) -> pd.DataFrame | Iterator[pd.DataFrame]:
    """Return what pods used of memory (``MEMORY_USAGE``); windows in which that isn't known are left out.

    Args:
        engine: of the store.
        job_uid: of one job; None: of all.
        resolution: ``raw``, ``1m`` or ``1h``.
        since, until: rows whose time lies in [since, until); None: from the beginning, to the end.
        chunks: as in ``pod_load``.

    Raises:
        InvalidInput: no such resolution, a moment that is no datetime or has no time zone, or ``chunks`` is less
            than 1.
        NotFound: no job of that uid is known.
        Unavailable: the database can't be reached now.
    """
    resolutions.checked(resolution)
    parts = partial(_parts, job_uid, resolution, Span(since, until))
    if job_uid is not None:
        require_job(engine, job_uid)
    return delivered(engine, resolutions.tables(JobNodeLoad, resolution), MEMORY_USAGE, parts, chunks)


def _parts(
    job_uid: str | None, resolution: Resolution, span: Span, connection: Connection, rows: int
) -> Iterator[pd.DataFrame]:
    jobs = None if job_uid is None else sa.select(Job.id).where(Job.uid == job_uid)
    described = read_all(connection, _pods(jobs))
    if resolution == "raw":
        queries = [_raw(jobs).where(*span.holds(JobNodeLoad.ended_at))]
    else:
        queries = [_most(each) for each in sums_of(connection, JobNodeLoad, resolution, jobs, span)]
    for query in queries:
        for part in read(connection, query, rows):
            found = part.merge(described, on=["job_id", "pod"])
            limits = found["limit_bytes"].astype("float64").fillna(found["memory_allotted"].astype("float64"))
            yield found.assign(limit_bytes=limits, oom=False)
    for part in read(connection, _killed(jobs, span), rows):
        yield part.assign(used_bytes=part["limit_bytes"], oom=True)


def _pods(jobs: sa.Select[Any] | None) -> sa.Select[*tuple[Any, ...]]:
    query = sa.select(
        Job.id.label("job_id"),
        JobNode.name.label("pod"),
        _container(),
        Job.template,
        JobNode.rank,
        JobNode.memory_allotted,
    ).join(Job, Job.id == JobNode.job_id)
    return query if jobs is None else query.where(Job.id.in_(jobs))


def _container() -> sa.ColumnElement[str]:
    return (Job.uid + "/" + JobNode.name).label("container")


def _raw(jobs: sa.Select[Any] | None) -> sa.Select[*tuple[Any, ...]]:
    load = JobNodeLoad
    query = sa.select(
        load.job_id,
        load.node.label("pod"),
        load.role,
        load.ended_at.label("time"),
        load.memory_bytes.label("used_bytes"),
        load.memory_allotted.label("limit_bytes"),
    ).where(load.memory_bytes.is_not(None))
    return query if jobs is None else query.where(load.job_id.in_(jobs))


def _most(each: Sums) -> sa.Select[*tuple[Any, ...]]:
    of = each.columns
    by_agent = of.source == AGENT
    most = preferring(by_agent, lambda picked: sa.func.max(picked(of.memory_max)))
    return (
        sa.select(
            of.job_id,
            of.node.label("pod"),
            sa.func.max(of.role).label("role"),
            sa.type_coerce(of.started_at, UtcDateTime()).label("time"),
            most.label("used_bytes"),
            preferring(by_agent, lambda picked: sa.func.max(picked(of.memory_allotted))).label("limit_bytes"),
        )
        .where(each.condition)
        .group_by(of.job_id, of.started_at, of.node)
        .having(most.is_not(None))
    )


def _killed(jobs: sa.Select[Any] | None, span: Span) -> sa.Select[*tuple[Any, ...]]:
    ended = sa.func.coalesce(JobNode.ended_at, JobNode.gone_at, Job.last_seen)
    query = (
        sa.select(
            _container(),
            Job.template,
            JobNode.role,
            JobNode.rank,
            sa.type_coerce(ended, UtcDateTime()).label("time"),
            JobNode.memory_allotted.label("limit_bytes"),
        )
        .join(Job, Job.id == JobNode.job_id)
        .where(JobNode.reason == OUT_OF_MEMORY, *span.holds(ended))
    )
    return query if jobs is None else query.where(Job.id.in_(jobs))
