"""Training speed by configuration: sums over steady windows, a row a (job, round, configuration)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from convoy.brain.features.hours import Hours
from convoy.brain.features.layout import read_all
from convoy.brain.store import sums
from convoy.brain.store.tables import TrainingSpeed, TrainingSpeed1h

TABLES: tuple[type[Any], ...] = (TrainingSpeed, TrainingSpeed1h)
CONFIGURATION = ("workers", "ps", "nodes", "batch_size", "accumulation_steps")
SUMS = ("windows", "seconds", "samples", "speeds", "squares", "compute_sum", "compute_time")
_KEY = ("job_id", "round", *CONFIGURATION)


def rounds(connection: Connection, jobs: sa.Select[Any]) -> pd.DataFrame:
    """Return the sums over windows past warm-up: ``job_id``, ``round``, configuration, ``SUMS``, ``last_ended_at``.

    Args:
        connection: on a snapshot.
        jobs: a query of jobs' numbers.
    """
    hours = Hours.read(connection, TrainingSpeed, jobs)
    parts = [read_all(connection, _from_hours(hours, connection.dialect.name))]
    parts += [read_all(connection, query) for query in _from_rows(hours, connection.dialect.name)]
    found = pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
    found = found.astype(dict.fromkeys((*CONFIGURATION, *SUMS), "float64"))
    how = {**dict.fromkeys(SUMS, "sum"), "last_ended_at": "max"}
    frame = found.groupby(list(_KEY), sort=False, as_index=False).agg(how)
    for name in ("nodes", "batch_size", "accumulation_steps"):
        frame[name] = frame[name].where(frame[name] > 0)
    return frame


def _from_hours(hours: Hours, dialect: str) -> sa.Select[Any]:
    table = TrainingSpeed1h
    columns = {name: getattr(table, name) for name in _KEY}
    measures = [sa.func.sum(getattr(table, name)).label(name) for name in SUMS]
    return (
        sa.select(*columns.values(), *measures, sa.func.max(table.last_ended_at).label("last_ended_at"))
        .where(table.warming.is_(False), hours.summed(table, dialect))
        .group_by(*columns.values())
    )


def _from_rows(hours: Hours, dialect: str) -> list[sa.Select[Any]]:
    keys, measures = sums.by_minute(TrainingSpeed.__tablename__, dialect)
    columns = {name: keys[name] for name in _KEY}
    chosen = {name: measures[name] for name in (*SUMS, "last_ended_at")}
    query = (
        sa.select(*(value.label(name) for name, value in {**columns, **chosen}.items()))
        .where(TrainingSpeed.warming.is_(False))
        .group_by(*columns.values())
    )
    return [query.where(condition) for condition in hours.unsummed()]


def with_means(frame: pd.DataFrame) -> pd.DataFrame:
    """Add ``throughput`` (samples/s), its standard error ``throughput_sd``, and ``compute_seconds``, from the sums.

    The standard error is that of a mean of equal windows: their sample variance over their number.
    """
    given = frame[list(SUMS)].astype("float64")
    count = given["windows"]
    mean = given["speeds"] / count
    variance = (given["squares"] - count * mean**2).clip(lower=0.0) / (count - 1).where(count > 1)
    return frame.assign(
        throughput=given["samples"] / given["seconds"],
        throughput_sd=np.sqrt(variance / count),
        compute_seconds=given["compute_sum"] / given["compute_time"].where(given["compute_time"] > 0),
    )
