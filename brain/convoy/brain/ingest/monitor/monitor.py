"""The monitor's threads: a follower for each kind and namespace, and one writer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial

from sqlalchemy.engine import Engine

from convoy.brain.ingest.monitor import known, place
from convoy.brain.ingest.monitor.follower import Follower
from convoy.brain.ingest.monitor.pending import Pending
from convoy.brain.ingest.monitor.tally import Tally
from convoy.brain.ingest.monitor.told import KINDS
from convoy.brain.ingest.monitor.writer import Writer
from convoy.brain.store.engine import reading, writing
from convoy.core.api.errors import ConvoyError, Unavailable
from convoy.core.cluster.follow import Known, Pace
from convoy.core.cluster.port import ClusterReader, Kind
from convoy.core.process import logs
from convoy.core.process.clock import Clock, SystemClock

_RETRY_SECONDS = 1.0
_FIRST_LIST_SECONDS = 60.0
_STEPS = ((Kind.NODE, Kind.ELASTIC_JOB), (Kind.SCALE_PLAN, Kind.POD), (Kind.EVENT,))
"""What is listed first: what others refer to."""


class Monitor:
    """Follows one cluster into the store, between ``start`` and ``stop``.

    Args:
        engine: of the store, migrated.
        reader: of the cluster.
        name: the cluster's, in the store.
        close: ends the reader's watches.
        uid: the cluster's own; empty: not known.
        version: of its API server; empty: not known.
        namespaces: to follow; none: all.
        user_label: label of jobs that says whose they are.
        most: how many changed objects may wait to be stored; beyond, the cluster is read no further.
        pace: of following.
        clock: of the rows' times.

    Raises:
        Unusable: the store knows another cluster by that name.
        Unavailable: the database can't be reached.
    """

    def __init__(
        self,
        engine: Engine,
        reader: ClusterReader,
        *,
        name: str,
        close: Callable[[], None],
        uid: str = "",
        version: str = "",
        namespaces: Sequence[str] = (),
        user_label: str = "user",
        most: int = 20_000,
        pace: Pace | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.tally = Tally()
        self.failure: Exception | None = None
        self._engine = engine
        self._close = close
        self._pace = pace or Pace()
        self._clock = clock or SystemClock()
        self._pending = Pending(most)
        with writing(engine) as connection:
            now = datetime.fromtimestamp(self._clock.now(), UTC)
            self.place = place.settle(connection, name, uid, version, now)
        self._followers = [
            Follower(reader, kind, namespace, self._pending, self.tally, user_label, self._clock)
            for kind, namespace in wanted(namespaces)
        ]
        self._writer = Writer(engine, self.place, self._pending, self.in_sync, self.tally, self._clock)
        self._stop = threading.Event()
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self._log = logs.get("brain.monitor")

    def start(self) -> None:
        """Start the threads; the cluster is read and the store is written from now on."""
        for work, title in (
            (partial(self._writer.run, self._stop), "writer"),
            *((partial(self._follow, one), f"{one.kind} {one.namespace or ''}".strip()) for one in self._followers),
        ):
            thread = threading.Thread(target=self._guarded, args=(work,), name=f"monitor {title}")
            self._threads.append(thread)
            thread.start()

    def stop(self, seconds: float = 15.0) -> None:
        """Stop reading, store what was read, and end the threads, within ``seconds``."""
        self._stop.set()
        self._pending.wake()
        self._close()
        end = self._clock.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - self._clock.monotonic()))

    def failed(self, seconds: float) -> bool:
        """Wait for at most so many seconds; return whether a thread failed, for a reason in ``failure``."""
        return self._ended.wait(seconds)

    def in_sync(self) -> bool:
        """Whether all that is in the cluster is told; it may not be stored yet."""
        return all(follower.in_sync for follower in self._followers)

    def settled(self) -> bool:
        """Whether all that is in the cluster is stored."""
        return self.in_sync() and not len(self._pending)

    def report(self) -> dict[str, object]:
        """Return the counts for the log."""
        objects: dict[str, int] = {}
        for follower in self._followers:
            objects[str(follower.kind)] = objects.get(str(follower.kind), 0) + follower.objects
        return {
            "in_sync": self.in_sync(),
            "database_away": self._writer.database_away,
            "objects": objects,
            **{what: self.tally.counts(what) for what in ("stored", "in_part", "left_out", "foreign")},
            "pending": len(self._pending),
            "waiting": self._writer.waiting,
        }

    def _follow(self, follower: Follower) -> None:
        """Follow a kind once those are told that its objects refer to, or take too long."""
        step = next(number for number, kinds in enumerate(_STEPS) if follower.kind in kinds)
        before = [one for one in self._followers if any(one.kind in kinds for kinds in _STEPS[:step])]
        end = self._clock.monotonic() + _FIRST_LIST_SECONDS
        while not all(one.began.is_set() for one in before) and self._clock.monotonic() < end:
            if self._stop.wait(0.02):
                return
        follower.run(partial(self._known, follower), self._stop, self._pace)

    def _known(self, follower: Follower) -> list[Known]:
        while not self._stop.is_set():
            try:
                with reading(self._engine) as connection:
                    return known.known(connection, self.place, follower.kind, follower.namespace)
            except Unavailable as error:
                self._log.warning("what was there before can't be read yet", kind=str(follower.kind), why=str(error))
                self._stop.wait(_RETRY_SECONDS)
        return []

    def _guarded(self, work: Callable[[], None]) -> None:
        """Run a thread's work; what ends it before its time ends all."""
        try:
            work()
        except Exception as error:
            if not self._stop.is_set():
                if not isinstance(error, ConvoyError):
                    self._log.error("the monitor failed", exc_info=error)
                self.failure = self.failure or error
                self._ended.set()


def wanted(namespaces: Sequence[str]) -> list[tuple[Kind, str | None]]:
    """Return what is followed: each kind in each namespace (None: in all); nodes have none."""
    return [
        (kind, namespace)
        for kind in KINDS
        for namespace in ([None] if kind is Kind.NODE or not namespaces else dict.fromkeys(namespaces))
    ]
