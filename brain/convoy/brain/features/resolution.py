"""A series' sums at a resolution, wherever they are: in a roll-up, or to be summed from the rows of due hours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from convoy.brain.features.hours import Hours, Span
from convoy.brain.store import sums
from convoy.brain.store.sums import KINDS
from convoy.core.api.errors import InvalidInput

Resolution = Literal["raw", "1m", "1h"]
STEPS = {"1m": timedelta(minutes=1), "1h": timedelta(hours=1)}


def checked(resolution: str) -> None:
    """Return if it is a resolution.

    Raises:
        InvalidInput: it is none.
    """
    if resolution != "raw" and resolution not in STEPS:
        expected = ", ".join(["raw", *STEPS])
        raise InvalidInput(f"resolution is {resolution!r}: expected one of {expected}", reason="InvalidResolution")


def tables(series: type[Any], resolution: Resolution) -> tuple[type[Any], ...]:
    """Return the tables that are read."""
    raw, minutes, hours = KINDS[series.__tablename__]
    return {"raw": (raw,), "1m": (raw, minutes), "1h": (raw, hours)}[resolution]


@dataclass(frozen=True, slots=True)
class Sums:
    """Rows of sums: the columns that a roll-up of the series has, and the condition that picks them."""

    columns: Any
    condition: sa.ColumnElement[bool]


def sums_of(
    connection: Connection,
    series: type[Any],
    resolution: Resolution,
    subjects: sa.Select[Any] | None = None,
    span: Span | None = None,
) -> Iterator[Sums]:
    """Yield the sums by the minute or by the hour; a (subject, step) stands in one of them only.

    Args:
        connection: on a snapshot.
        series: table of the rows.
        resolution: ``1m`` or ``1h``.
        subjects: a query of the subjects' numbers; None: all.
        span: the time in which the steps begin.
    """
    dialect = connection.dialect.name
    hours = Hours.read(connection, series, subjects, (span or Span()).of_steps(STEPS[resolution]))
    rollup = KINDS[series.__tablename__][1 if resolution == "1m" else 2]
    yield Sums(rollup, hours.summed(rollup, dialect))
    keys, measures = sums.by_minute(series.__tablename__, dialect)
    keys.pop("steady", None)  # it would take the attempts, and makes no difference here
    keys["started_at"] = sums.beginning(series.ended_at, "minute" if resolution == "1m" else "hour", dialect)
    query = sa.select(*(value.label(name) for name, value in {**keys, **measures}.items())).group_by(*keys.values())
    for condition in hours.unsummed():
        yield Sums(query.where(condition).subquery().c, sa.true())
