"""Stores what waits, in batches, through whatever happens to the database."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy.engine import Engine

from convoy.brain.ingest.monitor import store
from convoy.brain.ingest.monitor.pending import Pending
from convoy.brain.ingest.monitor.store import Place
from convoy.brain.ingest.monitor.tally import Tally
from convoy.brain.ingest.monitor.told import Entry
from convoy.brain.ingest.monitor.waiting import Waiting
from convoy.brain.store import driver_errors
from convoy.brain.store.turns import in_turns
from convoy.core.api.errors import ConvoyError, InvalidInput, Unavailable, Unusable
from convoy.core.cluster.port import Kind
from convoy.core.process import logs
from convoy.core.process.clock import Clock

BATCH = 500
FLUSH_SECONDS = 0.5

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 10.0


class _Outcome(NamedTuple):
    """Entries that have to wait for what they are of, and those that the database refuses."""

    again: list[Entry]
    refused: list[Entry]


class Writer:
    """The one who writes; ``run`` is a thread's.

    Args:
        engine: of the store.
        place: the cluster.
        pending: where entries come from.
        steady: whether the cluster can be read now, all kinds of it.
        tally: counts.
        clock: for the times that rows are stamped with.
    """

    def __init__(
        self, engine: Engine, place: Place, pending: Pending, steady: Callable[[], bool], tally: Tally, clock: Clock
    ) -> None:
        self._engine = engine
        self._place = place
        self._pending = pending
        self._steady = steady
        self._tally = tally
        self._clock = clock
        self._waiting = Waiting()
        self._away_since: float | None = None
        self._log = logs.get("brain.monitor")

    @property
    def waiting(self) -> int:
        """How many entries wait for what they are of."""
        return len(self._waiting)

    @property
    def database_away(self) -> bool:
        """Whether the last write failed because the database can't be used now."""
        return self._away_since is not None

    def run(self, stop: threading.Event, grace: float = 5.0) -> None:
        """Store what comes until ``stop`` is set, then what is there still, for at most ``grace`` seconds."""
        while not stop.is_set():
            self._next(FLUSH_SECONDS, stop)
        end = self._clock.monotonic() + grace
        while len(self._pending) and self._clock.monotonic() < end:
            if not self._next(0.0, stop):
                break
        else:
            if not len(self._pending):
                return
        self._log.warning("stopped before all was stored: the next start finds it")

    def _next(self, seconds: float, stop: threading.Event) -> bool:
        entries = self._pending.take(BATCH, seconds, stop.is_set)
        try:
            return self.flush(entries, stop)
        finally:
            self._pending.done()

    def flush(self, entries: list[Entry], stop: threading.Event) -> bool:
        """Store entries, with those that waited; False: stopped while the database was away."""
        batch = [*self._waiting.due(self._clock.monotonic()), *entries]
        if not batch:
            return True
        outcome = self._persist(batch, stop)
        if outcome is None:
            return False
        again, refused = outcome
        unsettled = {entry.key for entry in (*again, *refused)}
        self._tally.stored(entry.kind for entry in batch if entry.key not in unsettled)
        steady = self._steady()
        for entry in self._waiting.settle(batch, again, self._clock.monotonic(), steady=steady):
            self._give_up(entry)
        return True

    def _persist(self, entries: list[Entry], stop: threading.Event) -> _Outcome | None:
        """Store entries, however often it has to be tried; None: stopped before."""
        failures = 0
        while True:
            try:
                outcome = self._write(entries)
            except (Unavailable, Unusable) as error:
                failures += 1
                self._lost(error)
                if stop.wait(min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(failures - 1, 10))):
                    return None
            else:
                self._found()
                return outcome

    def _write(self, entries: list[Entry]) -> _Outcome:
        """Store entries in a transaction; where the database refuses them, each half in one of its own."""
        try:
            again = in_turns(
                self._engine, lambda connection: store.write(connection, self._place, entries, self._now())
            )
        except (Unavailable, Unusable):
            raise
        except Exception as error:
            if len(entries) == 1:
                self._refused(entries[0], error)
                return _Outcome([], entries)
            half = len(entries) // 2
            first, second = self._write(entries[:half]), self._write(entries[half:])
            return _Outcome(first.again + second.again, first.refused + second.refused)
        return _Outcome(again, [])

    def _refused(self, entry: Entry, error: Exception) -> None:
        if not isinstance(error, InvalidInput):  # nobody thought of that
            self._log.error("an object can't be stored", kind=str(entry.kind), name=entry.name, exc_info=error)
        self._tally.left_out(entry.kind, entry.name, driver_errors.text_of(error.__cause__ or error))

    def _give_up(self, entry: Entry) -> None:
        if entry.kind is Kind.EVENT:
            self._tally.foreign(entry.kind)
        elif entry.row is not None:
            self._tally.left_out(
                entry.kind, entry.name, f"there is no ElasticJob {entry.row['job_name']!r}, which it is for"
            )

    def _lost(self, error: ConvoyError) -> None:
        if self._away_since is None:
            self._away_since = self._clock.monotonic()
            self._log.warning(
                "the database is away: what changes is kept meanwhile", reason=error.reason, message=str(error)
            )

    def _found(self) -> None:
        if self._away_since is not None:
            seconds = round(self._clock.monotonic() - self._away_since, 1)
            self._log.info("the database is back", seconds=seconds, entries=len(self._pending))
            self._away_since = None

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now(), UTC)
