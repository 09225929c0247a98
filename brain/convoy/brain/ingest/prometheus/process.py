"""What ``convoy brain collect`` runs: over the Prometheus, the database and the queries that the settings name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy.engine import Engine

from convoy.brain.ingest.prometheus.address import Address
from convoy.brain.ingest.prometheus.backfill import Filled, backfill, planned
from convoy.brain.ingest.prometheus.client import Prometheus
from convoy.brain.ingest.prometheus.collect import Collector, Tally
from convoy.brain.ingest.prometheus.durations import seconds_of
from convoy.brain.ingest.prometheus.findings import Finding
from convoy.brain.ingest.prometheus.queries import Queries, load
from convoy.brain.ingest.prometheus.watch import Pace, Watch
from convoy.brain.settings import BrainSettings
from convoy.brain.store.engine import open_engine, shown
from convoy.brain.store.migrate import migrate_when_up, require_schema
from convoy.brain.store.tables import JobNodeLoad, NodeLoad
from convoy.core.process import logs
from convoy.core.process.clock import SystemClock
from convoy.core.process.signals import stop_event

log = logs.get("brain.collect")

OnFinding = Callable[[Finding, bool], None]
"""Is given a finding when it comes (True), and when it goes (False)."""


@dataclass(frozen=True, slots=True)
class _Parts:
    settings: BrainSettings
    prometheus: Prometheus
    engine: Engine
    collector: Collector
    pace: Pace

    def kept_since(self, now: float) -> float:
        """Return since when the store takes rows of load (seconds since the epoch)."""
        since = self.settings.retention().taken_since(self.engine, now)
        return max(since[table.__tablename__] for table in (NodeLoad, JobNodeLoad))

    def watch(self) -> Watch:
        """Return what collects as it becomes due."""
        return Watch(
            self.prometheus,
            self.engine,
            self.collector,
            self.settings.cluster,
            self.pace,
            self.kept_since,
            SystemClock(),
        )


@contextmanager
def _opened(settings: BrainSettings, queries: Queries, on_finding: OnFinding) -> Iterator[_Parts]:
    prometheus = Prometheus(Address.of(settings))
    engine = open_engine(settings.database(), must_exist=True)
    file = str(settings.prometheus_queries or "queries.toml")
    collector = Collector(prometheus, engine, queries, settings.cluster, on_finding, file)
    pace = Pace(settings.load_step_seconds, seconds_of(queries.settle), settings.load_catch_up_seconds)
    try:
        yield _Parts(settings, prometheus, engine, collector, pace)
    finally:
        prometheus.close()
        engine.dispose()


def run(settings: BrainSettings) -> None:
    """Collect until SIGTERM or SIGINT. Call from the main thread.

    Raises:
        InvalidSetting: the queries file, or the URL of Prometheus or of the database, can't be right.
        Unusable: Prometheus or the database refuses us.
        UnknownSchema: a newer version made the database's schema.
    """
    logs.configure("collect")
    stop = stop_event()
    queries, address = load(settings.prometheus_queries), Address.of(settings)
    if not migrate_when_up(settings.database(), settings.database_wait_seconds, stop):
        return
    with _opened(settings, queries, _logged) as parts:
        log.info(
            "collecting",
            prometheus=address.url,
            database=shown(parts.engine.url),
            cluster=settings.cluster,
            step_seconds=settings.load_step_seconds,
        )
        parts.watch().run(stop)
        log.info("stopped")


def once(settings: BrainSettings, on_finding: OnFinding) -> Tally:
    """Collect what is due since the last row in the store, or the last moment alone where there is none.

    Raises:
        InvalidSetting, Unusable, UnknownSchema: as for ``run``.
        Unavailable: Prometheus or the database is away; what came before is stored.
    """
    with _opened(settings, load(settings.prometheus_queries), on_finding) as parts:
        require_schema(parts.engine)
        return parts.watch().once()


def fill(
    settings: BrainSettings,
    since: datetime,
    until: datetime | None,
    on_finding: OnFinding,
    on_chunk: Callable[[int, int], None],
) -> Filled:
    """Collect a range of the past; what is stored already stays as it is.

    Args:
        settings: of the Brain.
        since: its first moment.
        until: its last; None: the last whose samples are in Prometheus.
        on_finding: is told what isn't collected.
        on_chunk: is given, after each chunk, how many moments are done and how many there are.

    Raises:
        InvalidInput: there is no such moment.
        InvalidSetting, Unusable, UnknownSchema: as for ``run``.
        Unavailable: Prometheus or the database was away for too long; the message says where to go on.
    """
    with _opened(settings, load(settings.prometheus_queries), on_finding) as parts:
        require_schema(parts.engine)
        now = parts.prometheus.now()
        due, kept = parts.pace.due(now), datetime.fromtimestamp(parts.kept_since(now), UTC)
        filled = planned(since, until or datetime.fromtimestamp(due, UTC), settings.load_step_seconds, due, kept)
        total = len(filled.span)
        backfill(parts.collector, filled, lambda done: on_chunk(done, total))
        return filled


def _logged(finding: Finding, came: bool) -> None:
    tell = log.warning if came and not finding.note else log.info
    tell(finding.message if came else finding.over, reason=finding.reason)
