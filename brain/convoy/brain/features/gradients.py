"""The noise of gradients that a job told with its windows of speed: the newest hour of a round, as models read it.

Noise drifts as a job is trained, so that a round's mean would be late. Only windows themselves hold it, not the sums
of hours: what retention has dropped isn't known any more.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from convoy.brain.features.layout import read_all
from convoy.brain.features.speed import CONFIGURATION
from convoy.brain.store.sums import beginning
from convoy.brain.store.tables import TrainingSpeed

KEY = ("job_id", "round", *CONFIGURATION)
STATISTICS = ("grad_sqr", "grad_var")


def with_noise(connection: Connection, jobs: sa.Select[Any], rounds: pd.DataFrame) -> pd.DataFrame:
    """Return ``rounds`` (rows by ``KEY``) with ``grad_sqr`` and ``grad_var``, NaN where nothing was told.

    Windows tell the variance of one sample's gradient; models ask for that of the job's smallest global batch.

    Args:
        connection: on a snapshot.
        jobs: a query of jobs' numbers.
        rounds: a row a (job, round, configuration).
    """
    newest = _newest_hours(connection, jobs)
    if newest.empty:
        return rounds.assign(**dict.fromkeys(STATISTICS, float("nan")))
    found = rounds.merge(newest, on=list(KEY), how="left")
    batch = found["workers"] * found["batch_size"] * found["accumulation_steps"].fillna(1.0)
    return found.assign(grad_var=found["grad_var"] / batch.groupby(found["job_id"]).transform("min"))


def _newest_hours(connection: Connection, jobs: sa.Select[Any]) -> pd.DataFrame:
    t = TrainingSpeed
    keys = {name: getattr(t, name) for name in KEY}
    hour = beginning(t.ended_at, "hour", connection.dialect.name)
    query = (
        sa.select(
            *keys.values(), hour.label("hour"), *(sa.func.avg(getattr(t, name)).label(name) for name in STATISTICS)
        )
        .where(t.job_id.in_(jobs), t.grad_var.is_not(None), t.warming.is_(False))
        .group_by(*keys.values(), hour)
    )
    hours = read_all(connection, query).astype(dict.fromkeys((*CONFIGURATION, *STATISTICS), "float64"))
    return hours.sort_values("hour", kind="stable").drop_duplicates(list(KEY), keep="last").drop(columns="hour")
