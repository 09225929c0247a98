"""How long steps waited for their data, and how many processes loaded it, where scripts tell."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from convoy.brain.features.by_hour import by_hour
from convoy.brain.features.columns import BY_NAME, Column
from convoy.brain.features.hours import Span
from convoy.brain.features.layout import Layout, read_all
from convoy.brain.store.engine import snapshot
from convoy.brain.store.tables import Job, TrainingSpeed

LOADER_WAIT = Layout(
    "loader_wait",
    "How long one job's steps waited for their data over an hour of a round, at one configuration and number of "
    "processes that load it, past warm-up.",
    (
        *(BY_NAME[name] for name in ("job", "observed_at", "window_seconds")),
        *(BY_NAME[name] for name in ("workers", "nodes", "batch_size", "accumulation_steps")),
        Column("loader_workers", "count", "processes that load each worker's data; not known: Convoy wasn't asked"),
        Column("loader_wait", "number", "that a step waited for its data, mean of steps and workers (s)"),
        Column("step_seconds", "number", "that a step took, mean (s)"),
    ),
    order=("job", "observed_at"),
)


def loader_wait(engine: Engine, *, since: datetime | None = None, until: datetime | None = None) -> pd.DataFrame:
    """Return how long steps of all jobs waited for their data (``LOADER_WAIT``).

    Args:
        engine: of the store.
        since: what was measured from that moment on; None: all.
        until: what was measured before that moment; None: all.

    Raises:
        InvalidInput: a moment that is no datetime, or has no time zone.
        Unavailable: the database can't be reached now.
    """
    return _told(engine, sa.select(Job.id), Span(since, until))


def loader_wait_of(engine: Engine, job_uid: str, since: datetime) -> pd.DataFrame:
    """Return the same of one job; empty where it isn't known."""
    return _told(engine, sa.select(Job.id).where(Job.uid == job_uid), Span(since, None))


def _told(engine: Engine, jobs: sa.Select[Any], span: Span) -> pd.DataFrame:
    t = TrainingSpeed
    measures = {
        "loader_wait": sa.func.avg(t.loader_wait),
        "step_seconds": sa.func.sum(t.seconds) / sa.func.sum(t.last_step - t.first_step + 1),
    }
    with snapshot(engine, TrainingSpeed) as connection:
        names = read_all(connection, sa.select(Job.id.label("job_id"), Job.uid.label("job")).where(Job.id.in_(jobs)))
        told = sa.and_(t.loader_wait.is_not(None), *span.holds(t.ended_at))
        found = by_hour(connection, names["job_id"].tolist(), measures, told, also=("loader_workers",))
    return LOADER_WAIT.joined([LOADER_WAIT.typed(found.merge(names, on="job_id"))])
