"""How long each kind of row is kept, and the removal of what is older.

Raw rows of a series go by whole days, once they are summed; roll-ups, events, advice and jobs go row by row, a few
thousand a transaction. On MySQL a day's partition is dropped, which takes no time; on SQLite its rows are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from convoy.brain.store import orphans, partitions
from convoy.brain.store.batches import delete_in_batches
from convoy.brain.store.engine import reading
from convoy.brain.store.series import SUBJECT, complete_since, set_complete_since
from convoy.brain.store.sums import KINDS
from convoy.brain.store.tables import (
    IMPORTED,
    HistoryObservation,
    Job,
    JobAttempt,
    JobEvent,
    JobFeature,
    JobNode,
    NodeEvent,
    OptimizationRun,
    Recommendation,
    Reporter,
    RollupDue,
    ScalePlan,
)
from convoy.brain.store.turns import in_turns
from convoy.core.process.crashpoint import crash_point

DAY = timedelta(days=1)
_OF_JOBS: tuple[type[Any], ...] = (
    ScalePlan,
    Recommendation,
    JobEvent,
    JobNode,
    JobAttempt,
    JobFeature,
    Reporter,
)
"""What hangs on a job, in the order in which it can be removed."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Days for which rows are kept; None: for ever.

    Attributes:
        speed: raw windows of training speed.
        load: raw windows of the load of pods and machines.
        minutes, hours: roll-ups.
        events: what happened to jobs and machines.
        jobs: jobs that are over, with all that is known of them; runs of the batch.
        imported: history that somebody imported.
    """

    speed: int | None = 30
    load: int | None = 14
    minutes: int | None = 180
    hours: int | None = 1825
    events: int | None = 365
    jobs: int | None = 1825
    imported: int | None = None

    def raw(self, series: str) -> int | None:
        """Return the days for which a series' rows are kept."""
        return self.speed if series == "training_speed" else self.load

    def taken_since(self, engine: Engine, now: float) -> dict[str, float]:
        """Return by series from when on rows are still taken (seconds since the epoch)."""
        moment = datetime.fromtimestamp(now, UTC)
        with reading(engine) as connection:
            complete = {series: complete_since(connection, series) for series in SUBJECT}
        since: dict[str, float] = {}
        for series in SUBJECT:
            days = self.raw(series)
            bounds = [complete[series]] if complete[series] is not None else []
            bounds += [moment - days * DAY] if days is not None else []
            since[series] = max((bound.timestamp() for bound in bounds if bound is not None), default=0.0)
        return since


def remove_old(
    engine: Engine, now: datetime, kept: Retention, on_rows: Callable[[int], None] = lambda count: None
) -> dict[str, int]:
    """Remove what is older than it is kept; return how many rows (of MySQL's large series: days) went, by table.

    Raises:
        Unavailable: the database can't be reached, or tables stayed in use.
    """
    removed: dict[str, int] = {}

    def count(name: str, rows: int) -> None:
        if rows:
            removed[name] = removed.get(name, 0) + rows

    for series, (raw, minutes, hours) in KINDS.items():
        for table, days in ((raw, kept.raw(series)), (minutes, kept.minutes)):
            if days is not None:
                # A day later than what is no longer taken: what is on its way at this moment isn't met.
                before = _midnight(now - (days + 1) * DAY)
                count(table.__tablename__, _remove_days(engine, series, table, before, on_rows))
        if kept.hours is not None:
            old = hours.started_at < now - kept.hours * DAY
            count(hours.__tablename__, delete_in_batches(engine, hours, old, on_rows))
    for event in (JobEvent, NodeEvent):
        if kept.events is not None:
            old = event.happened_at < now - kept.events * DAY
            count(event.__tablename__, delete_in_batches(engine, event, old, on_rows))
    if kept.imported is not None:
        old = sa.and_(
            HistoryObservation.origin == IMPORTED, HistoryObservation.imported_at < now - kept.imported * DAY
        )
        count("history_observation", delete_in_batches(engine, HistoryObservation, old, on_rows))
    if kept.jobs is not None:
        for name, rows in _remove_jobs(engine, now - kept.jobs * DAY, on_rows).items():
            count(name, rows)
        unused = sa.not_(sa.exists().where(Recommendation.run_id == OptimizationRun.id))
        old = sa.and_(OptimizationRun.window_until < now - kept.jobs * DAY, unused)
        count("optimization_run", delete_in_batches(engine, OptimizationRun, old, on_rows))
    return removed


def _remove_days(
    engine: Engine, series: str, table: type[Any], before: datetime, on_rows: Callable[[int], None]
) -> int:
    """Remove whole days of raw rows or of minutes, unless there is something in them that isn't summed yet."""
    name = table.__tablename__
    with reading(engine) as connection:
        waiting = sa.select(RollupDue.hour).where(RollupDue.series == series, RollupDue.hour < before).limit(1)
        if connection.execute(waiting).first() is not None:
            return 0
    in_turns(engine, lambda connection: set_complete_since(connection, name, before))
    crash_point("retention.after-bound")
    days = partitions.drop_days(engine, name, before)
    if engine.dialect.name == "mysql":
        return days
    owner = getattr(table, SUBJECT[series])
    moment = table.started_at if hasattr(table, "started_at") else table.ended_at
    with reading(engine) as connection:
        subjects = list(_subjects(connection, owner))
    return sum(
        delete_in_batches(engine, table, sa.and_(owner == subject, moment < before), on_rows) for subject in subjects
    )


def _subjects(connection: Connection, owner: Any) -> Iterator[int]:
    """Yield whose rows a series holds, by leaps through its key: it isn't read as a whole."""
    found = connection.execute(sa.select(sa.func.min(owner))).scalar()
    while found is not None:
        yield found
        found = connection.execute(sa.select(sa.func.min(owner)).where(owner > found)).scalar()


def _remove_jobs(engine: Engine, before: datetime, on_rows: Callable[[int], None]) -> dict[str, int]:
    """Remove jobs of which nothing was heard since, and what hangs on them.

    Their series go first: SQLite gives the number of a job that is gone to the next one. They aren't counted, since
    of series days are. A job that is heard of meanwhile stays.
    """
    removed: dict[str, int] = {}

    with reading(engine) as connection:
        old = list(connection.execute(sa.select(Job.id).where(Job.last_seen < before)).scalars())
    for job in old:
        for series in (name for name, subject in SUBJECT.items() if subject == "job_id"):
            orphans.remove_rows_of(engine, series, job, on_rows)
        still = sa.and_(Job.id == job, Job.last_seen < before)
        conditions = [(table, sa.and_(table.job_id == job, sa.exists().where(still))) for table in _OF_JOBS]
        conditions.append((Job, still))
        for table, condition in conditions:
            rows = delete_in_batches(engine, table, condition, on_rows)
            if rows:
                removed[table.__tablename__] = removed.get(table.__tablename__, 0) + rows
    return removed


def _midnight(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
