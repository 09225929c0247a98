from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from convoy.brain.ingest.reports import Ingest
from convoy.brain.store import queries
from convoy.brain.store.engine import writing
from convoy.brain.store.tables import HistoryObservation
from convoy.core.api.errors import NotFound
from convoy.core.api.v1 import brain_pb2, metrics_pb2
from support.clock import FakeClock
from support.reports import NOW, envelope, job, report, window


@pytest.fixture
def ingest(engine):
    return Ingest(engine, FakeClock(NOW))


def test_events_come_in_the_order_of_time(engine, ingest):
    given = report(window(1))
    given.events.extend(metrics_pb2.JobEvent(time=NOW - n, reason=f"Step{n}") for n in (1, 3, 2))
    ingest.store(envelope(1), given)
    found = queries.find_job(engine, "digits")
    assert [event.reason for event in queries.events(engine, found)] == ["Step3", "Step2", "Step1"]


def test_of_jobs_with_one_name_the_newest_is_found_and_a_namespace_chooses(engine):
    for number, (uid, namespace) in enumerate([("u1", "default"), ("u2", "default"), ("u3", "team")]):
        description = job(uid)
        description.namespace = namespace
        clock = FakeClock(NOW + number)
        Ingest(engine, clock).store(envelope(1, uid=uid), report(of=description))
    assert queries.find_job(engine, "digits").uid == "u3"
    assert queries.find_job(engine, "digits", namespace="default").uid == "u2"
    assert queries.find_job(engine, "u1").uid == "u1"
    assert [row.uid for row in queries.jobs(engine)] == ["u3", "u2", "u1"]
    assert [row.uid for row in queries.jobs(engine, limit=1)] == ["u3"]


def test_an_unknown_job_is_refused_with_those_that_are_known(engine, ingest):
    with pytest.raises(NotFound, match=r"no job 'digits' has reported to the Brain; .* it knows none at all$"):
        queries.find_job(engine, "digits")
    ingest.store(envelope(1), report())
    with pytest.raises(NotFound, match=r"in namespace 'team' has reported .* it knows digits$"):
        queries.find_job(engine, "digits", namespace="team")


def test_imported_history_of_that_name_is_no_job_and_is_said(engine):
    row = {"digest": "0" * 64, "source": "file", "imported_at": datetime.now(UTC), "job": "past", "workers": 1,
           "throughput": 1.0, "status": "ok"}  # fmt: skip
    with writing(engine) as connection:
        connection.execute(sa.insert(HistoryObservation), [row])
    with pytest.raises(NotFound, match="imported history of one of that name"):
        queries.find_job(engine, "past")


def test_only_changes_after_the_start_count_as_changes(engine, ingest):
    given = report()
    for name, before, after, ago in [("a", 0, 1, 50), ("b", 1, 2, 40), ("c", 2, 2, 30), ("d", 2, 1, 5000)]:
        given.plans.append(
            brain_pb2.PlanOutcome(plan=name, created=NOW - ago, workers_before=before, workers_after=after)
        )
    ingest.store(envelope(1), given)
    hour = timedelta(hours=1)
    now = datetime.fromtimestamp(NOW, UTC)
    assert queries.changes_since(engine, "uid-1", now - hour) == 1
    assert queries.changes_since(engine, "uid-1", now - 2 * hour) == 2
    assert queries.changes_since(engine, "nobody", now - hour) == 0
    assert [plan.name for plan in queries.plans(engine, queries.find_job(engine, "digits"))] == ["d", "a", "b", "c"]
