"""Rows of time series: stored, and their hours marked to be rolled up, in the same transaction."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.engine import Connection

from convoy.brain.store.tables import JobNodeLoad, NodeLoad, RollupDue, SeriesKept, TrainingSpeed
from convoy.brain.store.write import Row, insert_new

SUBJECT: dict[str, str] = {
    TrainingSpeed.__tablename__: "job_id",
    JobNodeLoad.__tablename__: "job_id",
    NodeLoad.__tablename__: "node_id",
}
"""Each series, and the column that says whose its rows are."""

_BITS = 62
"""A new mark begins at a number that none before it had: whoever sums an hour tells it from the one that was read."""


def insert(connection: Connection, series: type[Any], rows: Sequence[Row]) -> None:
    """Insert the rows that aren't there yet, and mark their hours."""
    insert_new(connection, series, rows)
    subject = SUBJECT[series.__tablename__]
    mark_due(connection, series, ((row[subject], row["ended_at"]) for row in rows))


def mark_due(connection: Connection, series: type[Any], moments: Iterable[tuple[int, datetime]]) -> None:
    """Mark the hours of (subject, moment) pairs as changed since they were rolled up."""
    # Thousands of moments lie in an hour or two: numbers are compared first, since making a datetime takes longer.
    lie_in = {(subject, one.year, one.month, one.day, one.hour, one.tzinfo): one for subject, one in moments}
    hours = sorted((key[0], hour_of(moment)) for key, moment in lie_in.items())
    if not hours:
        return
    target: sa.Table = RollupDue.__table__  # type: ignore[assignment]
    # A parameter there would keep PyMySQL from sending the rows together.
    one_more = {"changes": target.c.changes + sa.literal_column("1")}
    if connection.dialect.name == "mysql":
        statement: Any = mysql.insert(target).on_duplicate_key_update(one_more)
    else:
        statement = sqlite.insert(target).on_conflict_do_update(
            index_elements=list(target.primary_key), set_=one_more
        )
    name, first = series.__tablename__, secrets.randbits(_BITS)
    connection.execute(
        statement,
        [{"series": name, "subject_id": subject, "hour": hour, "changes": first} for subject, hour in hours],
    )


def hour_of(moment: datetime) -> datetime:
    """Return the beginning of the moment's hour."""
    return moment.replace(minute=0, second=0, microsecond=0)


def complete_since(connection: Connection, series: str) -> datetime | None:
    """Return from when on a series holds all of its rows; None: nothing was dropped yet."""
    return connection.execute(
        sa.select(SeriesKept.complete_since).where(SeriesKept.series == series)
    ).scalar_one_or_none()


def set_complete_since(connection: Connection, series: str, moment: datetime) -> None:
    """Note from when on a series holds all of its rows; never takes it back."""
    target: sa.Table = SeriesKept.__table__  # type: ignore[assignment]
    if connection.dialect.name == "mysql":
        inserted = mysql.insert(target)
        later = sa.func.greatest(target.c.complete_since, inserted.inserted.complete_since)
        statement: Any = inserted.on_duplicate_key_update({"complete_since": later})
    else:
        upsert = sqlite.insert(target)
        later = sa.func.max(target.c.complete_since, upsert.excluded.complete_since)
        statement = upsert.on_conflict_do_update(index_elements=["series"], set_={"complete_since": later})
    connection.execute(statement, [{"series": series, "complete_since": moment}])
