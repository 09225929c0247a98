"""The noise of gradients that jobs told with their windows of speed: by the hour, and the newest hour of each round.

Noise drifts as a job is trained, so that a round's mean would be late.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from convoy.brain.features.by_hour import KEY, by_hour
from convoy.brain.features.columns import BY_NAME
from convoy.brain.features.hours import Span
from convoy.brain.features.layout import Layout, read_all
from convoy.brain.store.engine import snapshot
from convoy.brain.store.tables import Job, TrainingSpeed

STATISTICS = ("grad_sqr", "grad_var")
RECENT = timedelta(hours=6)
"""Before a job's last window: what is older tells nothing of its noise now."""
UNTOLD = pd.DataFrame(columns=[*KEY, *STATISTICS])

GRADIENT_NOISE = Layout(
    "gradient_noise",
    "The noise of gradients of one job over an hour of a round, at one configuration, past warm-up.",
    (
        *(BY_NAME[name] for name in ("job", "observed_at", "window_seconds")),
        *(BY_NAME[name] for name in ("workers", "batch_size", "accumulation_steps", *STATISTICS)),
    ),
    order=("job", "observed_at"),
)


def gradient_noise(engine: Engine, *, until: datetime | None = None) -> pd.DataFrame:
    """Return what all jobs told of the noise of their gradients (``GRADIENT_NOISE``).

    Args:
        engine: of the store.
        until: what was measured before that moment; None: all.

    Raises:
        InvalidInput: a moment that is no datetime, or has no time zone.
        Unavailable: the database can't be reached now.
    """
    query = sa.select(Job.id)
    with snapshot(engine, TrainingSpeed) as connection:
        hours = _hours(connection, query, *Span(None, until).holds(TrainingSpeed.ended_at))
        names = read_all(connection, sa.select(Job.id.label("job_id"), Job.uid.label("job")))
    return GRADIENT_NOISE.joined([GRADIENT_NOISE.typed(_at_smallest(hours.merge(names, on="job_id")))])


def newest(connection: Connection, rounds: pd.DataFrame) -> pd.DataFrame:
    """Return what jobs told last of the noise of their gradients, a row a (job, round, configuration).

    Args:
        connection: on a snapshot.
        rounds: of few jobs, one at least, with ``job_id`` and ``last_ended_at``; windows of ``RECENT`` are read.
    """
    jobs, last = rounds["job_id"].unique().tolist(), rounds["last_ended_at"].max()
    hours = _hours(connection, jobs, TrainingSpeed.ended_at >= last - RECENT, TrainingSpeed.ended_at <= last)
    return hours.sort_values("observed_at", kind="stable").drop_duplicates(list(KEY), keep="last")


def with_noise(rounds: pd.DataFrame, noise: pd.DataFrame) -> pd.DataFrame:
    """Return ``rounds`` (rows by ``KEY``) with what ``newest`` tells; NaN where it tells nothing."""
    if noise.empty:
        return rounds.assign(**dict.fromkeys(STATISTICS, float("nan")))
    return _at_smallest(rounds.merge(noise[[*KEY, *STATISTICS]], on=list(KEY), how="left"))


def _at_smallest(frame: pd.DataFrame) -> pd.DataFrame:
    """Windows tell the variance of one sample's gradient; models ask for that of the job's smallest global batch."""
    batch = frame["workers"] * frame["batch_size"] * frame["accumulation_steps"].fillna(1.0)
    return frame.assign(grad_var=frame["grad_var"] / batch.groupby(frame["job_id"]).transform("min"))


def _hours(
    connection: Connection, jobs: sa.Select[Any] | list[int], *conditions: sa.ColumnElement[bool]
) -> pd.DataFrame:
    means = {name: sa.func.avg(getattr(TrainingSpeed, name)) for name in STATISTICS}
    return by_hour(connection, jobs, means, TrainingSpeed.grad_var.is_not(None), *conditions)
