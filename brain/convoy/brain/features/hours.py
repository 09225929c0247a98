"""Which hours of a series are read from its roll-ups, and which from its rows.

An hour that isn't due is exactly what its roll-ups say, and so is one older than the rows that are kept. The others
are summed from their rows. Together that is right at any moment, before and after maintenance; both must be read on
one snapshot (``convoy.brain.store.engine.snapshot``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from convoy.brain.store import sums
from convoy.brain.store.rollup import Due, runs
from convoy.brain.store.series import SUBJECT, complete_since
from convoy.brain.store.tables import RollupDue
from convoy.core.api.errors import InvalidInput

_RUNS_AT_ONCE = 16
"""A query names each run of hours by itself, so that the database reads no others. (If it joined the table of due
hours, MySQL would use the subject's part of the series' key alone.) Each row is compared with all: so few."""


def require_moment(name: str, given: object) -> None:
    """Return if an argument of that name is None or a datetime that knows its time zone.

    Raises:
        InvalidInput: it is another.
    """
    if given is None or (isinstance(given, datetime) and given.tzinfo is not None):
        return
    found = f"{given}" if isinstance(given, datetime) else f"{given!r}, a {type(given).__name__}"
    raise InvalidInput(
        f"{name} is {found}: expected a moment with its time zone, such as datetime(2026, 3, 1, tzinfo=timezone.utc)",
        reason="InvalidMoment",
    )


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time [since, until); None: without a bound.

    Raises:
        InvalidInput: what is no datetime, or one without a time zone.
    """

    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        """Refuse what might mean any zone's time."""
        require_moment("since", self.since)
        require_moment("until", self.until)

    def of_steps(self, step: timedelta) -> Span:
        """Return the span of the whole steps (minutes, hours) that begin in this one."""
        return Span(_next(self.since, step), _next(self.until, step))

    def holds(self, moment: Any) -> list[sa.ColumnElement[bool]]:
        """Return the conditions that a column's moment lies within."""
        bounds: list[sa.ColumnElement[bool]] = []
        if self.since is not None:
            bounds.append(moment >= self.since)
        if self.until is not None:
            bounds.append(moment < self.until)
        return bounds

    def within(self, begin: datetime, end: datetime) -> Span:
        """Return what of [begin, end) lies within."""
        since = begin if self.since is None else max(begin, self.since)
        until = end if self.until is None else min(end, self.until)
        return Span(since, until)


def _next(moment: datetime | None, step: timedelta) -> datetime | None:
    if moment is None:
        return None
    epoch = datetime.fromtimestamp(0, UTC)
    return epoch - (epoch - moment) // step * step


@dataclass(frozen=True, slots=True)
class Hours:
    """The hours of some subjects (jobs, machines) of one series, as they stand on a snapshot.

    Attributes:
        series: table of the rows.
        subjects: a query of the subjects' numbers; None: all.
        span: the time that is asked for.
        kept_since: from when on the series holds all of its rows; None: always.
        due: runs of hours that are to be read from rows.
    """

    series: type[Any]
    subjects: sa.Select[Any] | None
    span: Span
    kept_since: datetime | None
    due: tuple[Due, ...]

    @classmethod
    def read(
        cls,
        connection: Connection,
        series: type[Any],
        subjects: sa.Select[Any] | None = None,
        span: Span | None = None,
    ) -> Hours:
        """Read how it stands now.

        Args:
            connection: on a snapshot.
            series: table of the rows.
            subjects: a query of the subjects' numbers; None: all.
            span: the time that is asked for, in whole minutes or hours.
        """
        name = series.__tablename__
        hours = cls(series, subjects, span or Span(), complete_since(connection, name), ())
        key = (RollupDue.series, RollupDue.subject_id, RollupDue.hour)
        query = sa.select(*key, RollupDue.changes).where(RollupDue.series == name, *hours._waiting()).order_by(*key)
        if subjects is not None:
            query = query.where(RollupDue.subject_id.in_(subjects))
        if hours.span.until is not None:
            query = query.where(RollupDue.hour < hours.span.until)
        if hours.span.since is not None:
            query = query.where(RollupDue.hour > hours.span.since - timedelta(hours=1))
        found = connection.execute(query).all()
        return replace(hours, due=tuple(runs([tuple(row) for row in found])))

    def summed(self, rollup: type[Any], dialect: str) -> sa.ColumnElement[bool]:
        """Return the condition on a roll-up's rows that they are what was asked for and hold all of it."""
        owner, begin = getattr(rollup, SUBJECT[self.series.__tablename__]), rollup.started_at
        conditions = [sa.true(), *self.span.holds(begin)]
        if self.subjects is not None:
            conditions.append(owner.in_(self.subjects))
        if self.due:
            by_hour = rollup.__tablename__.endswith("_1h")
            waits = sa.exists().where(
                RollupDue.series == self.series.__tablename__,
                RollupDue.subject_id == owner,
                RollupDue.hour == (begin if by_hour else sums.beginning(begin, "hour", dialect)),
                *self._waiting(),
            )
            conditions.append(~waits)
        return sa.and_(*conditions)

    def unsummed(self) -> Iterator[sa.ColumnElement[bool]]:
        """Yield conditions on the series' rows: each row of an hour that isn't summed meets one of them."""
        owner, moment = getattr(self.series, SUBJECT[self.series.__tablename__]), self.series.ended_at
        for first in range(0, len(self.due), _RUNS_AT_ONCE):
            some = self.due[first : first + _RUNS_AT_ONCE]
            spans = ((run.subject, self.span.within(run.begin, run.end)) for run in some)
            yield sa.or_(*(sa.and_(owner == subject, *span.holds(moment)) for subject, span in spans))

    def _waiting(self) -> list[sa.ColumnElement[bool]]:
        """Return the condition that a mark counts: of an older hour the rows are gone, and its roll-ups stay."""
        return [] if self.kept_since is None else [RollupDue.hour >= self.kept_since]
