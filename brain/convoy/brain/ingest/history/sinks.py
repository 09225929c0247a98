"""Where checked rows of history go: into the store, or into the count of what would go there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from convoy.brain.ingest.history.rows import Row
from convoy.brain.ingest.history.scratch import Tally
from convoy.brain.store.engine import reading
from convoy.brain.store.tables import HistoryObservation, Job
from convoy.brain.store.turns import in_turns
from convoy.brain.store.write import insert_new
from convoy.core.process.crashpoint import crash_point


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of rows: stored, there already, or left out since the store measured their jobs itself."""

    added: int
    already: int
    measured: int


class Sink(Protocol):
    """Takes rows with their digests."""

    def put(self, rows: Sequence[Row]) -> Fate:
        """Take rows, whose digests differ; all of them or, raising, none."""


class Store:
    """Stores rows; those that are there already stay as they are. Safe beside others that do the same."""

    def __init__(self, engine: Engine, origin: str, now: datetime) -> None:
        """Take what the rows are marked as, and when they were imported."""
        self._engine = engine
        self._marks: Row = {"origin": origin, "imported_at": now}
        self._measured = _MeasuredJobs(engine)

    def put(self, rows: Sequence[Row]) -> Fate:
        """Store rows in one transaction.

        Raises:
            Unavailable: the database can't be reached now; nothing of ``rows`` is stored.
        """
        wanted = self._measured.left_out(rows)
        added = in_turns(self._engine, lambda connection: self._insert(connection, wanted))
        crash_point("brain.import.after-commit")
        return Fate(added, len(wanted) - added, len(rows) - len(wanted))

    def _insert(self, connection: Connection, rows: Sequence[Row]) -> int:
        """Insert the rows that aren't there and return how many they were."""
        there = _there(connection, rows)
        new = [{**row, **self._marks} for row in rows if row["digest"] not in there]
        insert_new(connection, HistoryObservation, new)
        # Where another import stored some of them meanwhile, they have its time.
        ours = _there(connection, new, HistoryObservation.imported_at == self._marks["imported_at"])
        crash_point("brain.import.before-commit")
        return len(ours)


class Rehearsal:
    """Counts what storing rows would do, and stores nothing. Close it: it keeps a temporary file."""

    def __init__(self, engine: Engine | None) -> None:
        """Take the store's engine, None where there is no store yet."""
        self._engine = engine
        self._measured = None if engine is None else _MeasuredJobs(engine)
        self._rehearsed = Tally()

    def put(self, rows: Sequence[Row]) -> Fate:
        """Count rows.

        Raises:
            Unavailable: the database can't be reached now.
        """
        wanted = rows if self._measured is None else self._measured.left_out(rows)
        there: set[str] = set()
        if self._engine is not None:
            with reading(self._engine) as connection:
                there = _there(connection, wanted)
        times = self._rehearsed.count(bytes.fromhex(row["digest"]) for row in wanted)
        added = sum(first == 1 and row["digest"] not in there for row, first in zip(wanted, times, strict=True))
        return Fate(added, len(wanted) - added, len(rows) - len(wanted))

    def close(self) -> None:
        """Forget what was counted."""
        self._rehearsed.close()


class _MeasuredJobs:
    """Tells the rows of jobs that the store measured itself: they would count twice."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, bool] = {}

    def left_out(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the rows without those of measured jobs."""
        names = {row["job"] for row in rows} - self._known.keys()
        if names:
            with reading(self._engine) as connection:
                ours = connection.execute(sa.select(Job.uid).where(Job.uid.in_(names))).scalars().all()
            self._known.update((uid, self._is_measured(uid)) for uid in ours)
        return [row for row in rows if not self._known.get(row["job"])]

    def _is_measured(self, uid: str) -> bool:
        from convoy.brain.features import frames  # pandas takes long to import, and most files name none of our jobs

        return not frames.observed(self._engine, uid).empty


def _there(connection: Connection, rows: Sequence[Row], *conditions: sa.ColumnElement[bool]) -> set[str]:
    """Return the digests of the rows that are stored."""
    digests = [row["digest"] for row in rows]
    there = sa.select(HistoryObservation.digest).where(HistoryObservation.digest.in_(digests), *conditions)
    return set(connection.execute(there).scalars()) if digests else set()
