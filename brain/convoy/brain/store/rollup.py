"""Roll-ups: the series' rows summed by the minute and by the hour. Safe to run twice, at once, and beside ingest.

An hour is summed anew from its rows, in one transaction with the removal of its mark; the mark goes only if nothing
was stored in the hour meanwhile (``changes`` is what it was), so that a row is never left out for good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from convoy.brain.store import sums
from convoy.brain.store.engine import reading
from convoy.brain.store.locks import exclusive
from convoy.brain.store.series import complete_since
from convoy.brain.store.tables import RollupDue
from convoy.brain.store.turns import in_turns
from convoy.core.process.crashpoint import crash_point

HOUR = timedelta(hours=1)
_PAGE = 2000
_LOCK_SECONDS = 50.0
_MOST_HOURS = 24
"""Of one subject in one transaction: its locks are held for some ten milliseconds."""


@dataclass(frozen=True, slots=True)
class Due:
    """Hours of one subject of a series, one after the other, with the changes that were counted in each."""

    series: str
    subject: int
    hours: tuple[tuple[datetime, int], ...]

    @property
    def begin(self) -> datetime:
        """Return the first hour's beginning."""
        return self.hours[0][0]

    @property
    def end(self) -> datetime:
        """Return the last hour's end."""
        return self.hours[-1][0] + HOUR


def roll_up(engine: Engine, *, on_hours: Callable[[int], None] = lambda count: None) -> int:
    """Bring the roll-ups up to date with what is stored now; return how many hours were summed.

    Args:
        engine: of the store.
        on_hours: is told how many more hours were summed.

    Raises:
        Unavailable: the database can't be reached, or rows stayed locked by others; run it again.
    """
    count = 0
    with exclusive(engine, "rollup", _LOCK_SECONDS):
        for due in _due(engine):
            in_turns(engine, lambda connection, due=due: _sum(connection, due))  # type: ignore[misc]
            crash_point("rollup.after-subject")
            count += len(due.hours)
            on_hours(len(due.hours))
    return count


def due_hours(engine: Engine) -> int:
    """Return how many hours wait to be summed."""
    with reading(engine) as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(RollupDue)).scalar_one()


def _due(engine: Engine) -> Iterator[Due]:
    """Yield what was due at the beginning or becomes due further on, each subject's hours in runs."""
    place: tuple[Any, ...] = ("", 0, datetime.min)
    key = (RollupDue.series, RollupDue.subject_id, RollupDue.hour)
    while True:
        query = sa.select(*key, RollupDue.changes).order_by(*key).limit(_PAGE)
        if place[0]:
            query = query.where(_after(*place))
        with reading(engine) as connection:
            page = connection.execute(query).all()
        yield from runs([tuple(row) for row in page])
        if len(page) < _PAGE:
            return
        place = tuple(page[-1])[:3]


def _after(series: str, subject: int, hour: datetime) -> sa.ColumnElement[bool]:
    """Return the condition that a key comes later; spelt out, since MySQL doesn't use an index for row values."""
    same_series = RollupDue.series == series
    return sa.or_(
        RollupDue.series > series,
        sa.and_(same_series, RollupDue.subject_id > subject),
        sa.and_(same_series, RollupDue.subject_id == subject, RollupDue.hour > hour),
    )


def runs(page: Sequence[tuple[Any, ...]]) -> Iterator[Due]:
    """Gather (series, subject, hour, changes), in order, to runs of hours that follow one another."""
    run: list[tuple[Any, ...]] = []
    for row in page:
        follows = run and run[-1][:2] == row[:2] and row[2] - run[-1][2] == HOUR
        if run and (not follows or len(run) == _MOST_HOURS):
            yield _run(run)
            run = []
        run.append(row)
    if run:
        yield _run(run)


def _run(rows: list[tuple[Any, ...]]) -> Due:
    return Due(rows[0][0], rows[0][1], tuple((hour, changes) for _, _, hour, changes in rows))


def _sum(connection: Connection, due: Due) -> None:
    since = complete_since(connection, due.series)
    # Before that the rows are gone, and what was summed from them stays; a run may lie on both sides.
    begin = due.begin if since is None else max(due.begin, since)
    if begin < due.end:
        sums.replace(connection, due.series, due.subject, begin, due.end)
    crash_point("rollup.before-mark")
    unchanged = sa.and_(
        RollupDue.series == due.series,
        RollupDue.subject_id == due.subject,
        RollupDue.hour == sa.bindparam("of_hour", type_=RollupDue.hour.type),
        RollupDue.changes == sa.bindparam("counted"),
    )
    connection.execute(
        sa.delete(RollupDue).where(unchanged),
        [{"of_hour": hour, "counted": changes} for hour, changes in due.hours],
    )
