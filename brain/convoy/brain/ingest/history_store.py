"""Where checked rows of history go: into the store, or into the count of what would go there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError

from convoy.brain.ingest.history_rows import Row
from convoy.brain.ingest.history_scratch import Tally
from convoy.brain.store import driver_errors
from convoy.brain.store.engine import reading, writing
from convoy.brain.store.tables import HistoryObservation, Job
from convoy.brain.store.write import insert_new
from convoy.core.api.errors import Unavailable
from convoy.core.process.crashpoint import crash_point

_ATTEMPTS = 4


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
        self._marks = {"origin": origin, "imported_at": now}
        self._measured = _MeasuredJobs(engine)

    def put(self, rows: Sequence[Row]) -> Fate:
        """Store rows in one transaction.

        Raises:
            Unavailable: the database can't be reached now; nothing of ``rows`` is stored.
        """
        wanted = self._measured.left_out(rows)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with writing(self._engine) as connection:
                    there = _there(connection, wanted)
                    new = [{**row, **self._marks} for row in wanted if row["digest"] not in there]
                    insert_new(connection, HistoryObservation, new)
                    crash_point("brain.import.before-commit")
                crash_point("brain.import.after-commit")
                return Fate(len(new), len(there), len(rows) - len(wanted))
            except Unavailable as error:
                deadlock = isinstance(error.__cause__, DBAPIError) and driver_errors.again(error.__cause__)
                if not deadlock or attempt == _ATTEMPTS:
                    raise
                time.sleep(0.02 * attempt)
        raise AssertionError("unreachable")


class Rehearsal:
    """Counts what storing rows would do, and stores nothing. A context manager's worth of scratch: close it."""

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
        with reading(self._engine) as connection:
            found = connection.execute(sa.select(Job.uid).where(Job.uid.in_(names))).scalars().all() if names else []
        from convoy.brain.features import frames

        for uid in found:
            self._known[uid] = not frames.observed(self._engine, uid).empty
        return [row for row in rows if not self._known.get(row["job"])]


def _there(connection: Connection, rows: Sequence[Row]) -> set[str]:
    digests = [row["digest"] for row in rows]
    there = sa.select(HistoryObservation.digest).where(HistoryObservation.digest.in_(digests))
    return set(connection.execute(there).scalars()) if digests else set()
