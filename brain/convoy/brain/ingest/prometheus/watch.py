"""Collecting step by step for as long as it is wanted; what an outage or a stop left out is collected after it."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy.engine import Engine

from convoy.brain.ingest.prometheus.client import Prometheus
from convoy.brain.ingest.prometheus.collect import Collector, Tally
from convoy.brain.ingest.prometheus.grid import Span
from convoy.brain.ingest.prometheus.load_store import last_stored
from convoy.brain.ingest.prometheus.outages import Outages
from convoy.core.api.errors import Unavailable, Unusable
from convoy.core.process import logs
from convoy.core.process.clock import Clock

log = logs.get("brain.collect")

_TELL_SECONDS = 3600.0
_LEAST_PAUSE = 0.05


@dataclass(frozen=True, slots=True)
class Pace:
    """When is collected, in seconds.

    Attributes:
        step: from one row to the next.
        settle: from a moment until its samples are in Prometheus.
        catch_up: how much of a gap is filled at most.
    """

    step: int
    settle: int
    catch_up: float

    def due(self, now: float) -> int:
        """Return the last moment of the grid whose samples are in Prometheus."""
        return math.floor((now - self.settle) / self.step) * self.step


class Watch:
    """Collects a cluster's load as it becomes due. Time is Prometheus' own, but for pauses."""

    def __init__(
        self,
        prometheus: Prometheus,
        engine: Engine,
        collector: Collector,
        cluster: str,
        pace: Pace,
        kept_since: Callable[[float], float],
        clock: Clock,
    ) -> None:
        """Make a watch.

        Args:
            prometheus: that tells the time.
            engine: of the database that ``collector`` stores in.
            collector: that asks and stores.
            cluster: whose last row in the store says where to go on.
            pace: when is collected.
            kept_since: since when the store keeps rows, for a time (both seconds since the epoch).
            clock: for pauses.
        """
        self._prometheus = prometheus
        self._engine = engine
        self._collector = collector
        self._cluster = cluster
        self._pace = pace
        self._kept_since = kept_since
        self._clock = clock
        self._next: int | None = None
        self._now = 0.0
        self._worked = False

    def once(self, stop: threading.Event | None = None) -> Tally:
        """Collect all that is due: since the last row in the store, or the last moment where there is no row.

        Args:
            stop: after which no further chunk is begun.

        Raises:
            Unavailable: Prometheus or the database is away; called again, it goes on where it was.
            Unusable: one of them refuses us.
        """
        self._now = self._prometheus.now()
        due = self._pace.due(self._now)
        self._next = self._first(self._now, due)
        tally = Tally()
        for moment in self._collector.collect(Span(self._next, due, self._pace.step), tally):
            self._next = moment + self._pace.step
            if stop is not None and stop.is_set():
                break
        return tally

    def run(self, stop: threading.Event) -> None:
        """Collect until ``stop`` is set, through outages.

        Raises:
            Unusable: one of them refuses us at the first contact; later that is an outage like others.
        """
        outages, told, total = Outages(), -math.inf, Tally()
        while not stop.is_set():
            begun = self._clock.monotonic()
            try:
                total.add(self.once(stop))
            except (Unavailable, Unusable) as error:
                if isinstance(error, Unusable) and not self._worked:
                    raise
                if who := outages.failed(error, begun):
                    log.warning(f"{who} is away; what is missed is collected afterwards", why=str(error))
                stop.wait(outages.pause())
                continue
            self._worked = True
            for who, seconds in outages.over(self._clock.monotonic()).items():
                log.info(f"{who} is back, and what was missed is collected", seconds=round(seconds))
            if begun - told >= _TELL_SECONDS:
                log.info("; ".join(total.sentences()))
                told, total = begun, Tally()
            stop.wait(self._pause(begun))

    def _first(self, now: float, due: int) -> int:
        """Return the moment to go on from. The last one in the store is asked for again: it may not be whole."""
        first = self._next
        if first is None:
            oldest = datetime.fromtimestamp(now - self._pace.catch_up, UTC)
            last = last_stored(self._engine, self._cluster, oldest)
            first = due if last is None else Span.within(last.timestamp(), due, self._pace.step).first
        bound = max(now - self._pace.catch_up, self._kept_since(now))
        earliest = min(Span.within(bound, due, self._pace.step).first, due)
        if first < earliest:
            log.warning(
                "a gap isn't filled whole; collect the rest with --from and --until, or raise load_catch_up_seconds",
                gap_from=_shown(first),
                filled_from=_shown(earliest),
            )
        return max(first, earliest)

    def _pause(self, begun: float) -> float:
        """Return the seconds until the next moment is due, where this round began at ``begun``."""
        due_in = (self._next or 0) + self._pace.settle - self._now
        return max(_LEAST_PAUSE, due_in - (self._clock.monotonic() - begun))


def _shown(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat()
