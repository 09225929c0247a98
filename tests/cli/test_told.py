"""What ``convoy explain`` takes from the Brain's store."""

from __future__ import annotations

from pathlib import Path

from convoy.brain.ingest.reports import Ingest
from convoy.brain.store.engine import open_engine
from convoy.brain.store.migrate import migrate
from convoy.cli import told
from convoy.core.api.v1 import metrics_pb2
from support.clock import FakeClock
from support.reports import NOW, envelope, report, window


def test_what_holds_for_the_whole_job_is_told_once_beside_the_last_events(home: Path) -> None:
    url = f"sqlite:///{home}/brain.db"
    migrate(url)
    engine = open_engine(url, must_exist=True)
    given = report(window(1))
    given.events.extend(
        metrics_pb2.JobEvent(time=NOW - 90 + n, reason="NodeCheckSkipped", node=f"worker-{n}", message="no check")
        for n in range(20)
    )
    given.events.extend(metrics_pb2.JobEvent(time=NOW - 50 + n, reason=f"Step{n}") for n in range(20))
    Ingest(engine, FakeClock(NOW)).store(envelope(1), given)
    engine.dispose()
    found = told.read("uid-1", url, events=3)
    assert not found.problem
    assert [one.reason for one in found.events] == ["NodeCheckSkipped", "Step17", "Step18", "Step19"]
