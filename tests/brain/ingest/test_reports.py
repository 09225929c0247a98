import math
import threading

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from convoy.brain.ingest import check
from convoy.brain.ingest.check import Checker
from convoy.brain.ingest.reports import Ingest
from convoy.brain.store import queries
from convoy.brain.store.engine import reading
from convoy.brain.store.tables import Job, JobEvent, JobFeature, JobNodeLoad, Reporter, ScalePlan, TrainingSpeed
from convoy.core.api.envelope import Envelope
from convoy.core.api.errors import InvalidInput
from convoy.core.api.v1 import brain_pb2, metrics_pb2
from support.clock import FakeClock
from support.reports import NOW, envelope, job, load, report, window


@pytest.fixture
def ingest(engine):
    return Ingest(engine, FakeClock(NOW))


def rows(engine, table):
    with reading(engine) as connection:
        return connection.execute(sa.select(table.__table__)).all()


def steps(engine):
    return sorted(row.last_step for row in rows(engine, TrainingSpeed))


def test_a_report_of_an_unknown_job_makes_its_row(engine, ingest):
    given = report(window(1), of=job())
    given.job.features["parameters"] = 1e6
    assert ingest.store(envelope(1), given).stored == 1
    found = queries.find_job(engine, "digits")
    assert (found.uid, found.template, found.state, found.origin) == ("uid-1", "template-1", "Running", "measured")
    assert [(row.name, row.value) for row in rows(engine, JobFeature)] == [("parameters", 1e6)]
    [row] = rows(engine, TrainingSpeed)
    assert (row.samples_per_second, row.workers, row.nodes, row.batch_size) == (1000.0, 1, 1, 256)
    assert row.ended_at.timestamp() == NOW - 999


def test_later_reports_change_a_jobs_state_and_nothing_that_describes_it(engine, ingest):
    ingest.store(envelope(1), report(of=job()))
    later = job(state="Succeeded")
    later.model = "another"
    ingest.store(envelope(2), report(of=later))
    found = queries.find_job(engine, "uid-1")
    assert (found.state, found.model) == ("Succeeded", "mlp")


def test_a_repeated_report_is_acknowledged_and_stores_nothing(engine, ingest):
    assert ingest.store(envelope(1), report(window(1))).stored == 1
    assert ingest.store(envelope(1), report(window(2))).stored == 0
    assert steps(engine) == [1]


def test_a_report_that_another_overtook_is_stored_and_takes_back_no_plan(engine, ingest):
    plan = brain_pb2.PlanOutcome(plan="plan-1", created=NOW, workers_before=1, workers_after=2)
    old = report(window(1))
    old.plans.append(plan)
    plan.realized = 500.0
    new = report(window(2), of=job(state="Succeeded"))
    new.plans.append(plan)
    ingest.store(envelope(2), new)
    assert ingest.store(envelope(1), old).stored == 2
    assert steps(engine) == [1, 2]
    assert rows(engine, ScalePlan)[0].realized == 500.0
    assert queries.find_job(engine, "digits").state == "Succeeded"
    assert rows(engine, Reporter)[0].sequence == 2


def test_a_row_that_the_database_refuses_is_refused_alone(engine, ingest):
    """The schema may be stricter than the checks, and the report must not come back for ever."""
    sqlite = "WHEN NEW.last_step = 2 BEGIN SELECT RAISE(ABORT, 'two is out of range'); END"
    mysql = (
        "FOR EACH ROW IF NEW.last_step = 2 THEN SIGNAL SQLSTATE '22003' SET MYSQL_ERRNO = 1264, "
        "MESSAGE_TEXT = 'two is out of range'; END IF"
    )
    with engine.begin() as connection:
        body = sqlite if engine.dialect.name == "sqlite" else mysql
        connection.exec_driver_sql(f"CREATE TRIGGER strict BEFORE INSERT ON training_speed {body}")
    try:
        ack = ingest.store(envelope(1), report(window(1), window(2), window(3)))
    finally:
        with engine.begin() as connection:
            connection.exec_driver_sql("DROP TRIGGER strict")
    assert ack.stored == 2
    assert "speed sample 2 of 3" in ack.refused[0]
    assert "two is out of range" in ack.refused[0]
    assert steps(engine) == [1, 3]
    assert rows(engine, Reporter)[0].sequence == 1


def test_what_the_next_master_sends_again_is_stored_once(engine, ingest):
    ingest.store(envelope(7), report(window(1), window(2)))
    ingest.store(envelope(1, sender="master-1", incarnation=2), report(window(2), window(3)))
    ingest.store(envelope(1, sender="master-1", incarnation=3), report(window(3)))
    assert steps(engine) == [1, 2, 3]


def test_two_jobs_with_masters_of_one_name_are_kept_apart(engine, ingest):
    ingest.store(envelope(5), report(window(1)))
    other = report(window(1), of=job("uid-2"))
    assert ingest.store(envelope(5, uid="uid-2"), other).stored == 1
    assert len(rows(engine, TrainingSpeed)) == 2


def test_the_same_report_on_many_threads_is_stored_once(engine, ingest):
    acks = []
    threads = [
        threading.Thread(target=lambda: acks.append(ingest.store(envelope(1), report(window(1), window(2)))))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert sorted(ack.stored for ack in acks) == [0, 0, 0, 0, 0, 2]
    assert steps(engine) == [1, 2]
    assert len(rows(engine, Job)) == 1


def test_bad_rows_are_refused_with_a_sentence_and_the_rest_is_stored(engine, ingest):
    bad = [window(number) for number in range(2, 10)]
    bad[0].samples = -5.0
    bad[1].samples = math.nan
    bad[2].seconds = 0.0
    bad[3].time = NOW + 3600
    bad[4].workers = 0
    bad[5].first_step = 99
    bad[6].compute_seconds = math.inf
    bad[7].samples = 1e300
    given = report(window(1), *bad, window(10))
    loads = [load(1), load(2), load(3, node="")]
    loads[1].cpu_cores = -1.0
    given.load.extend(loads)
    given.events.append(metrics_pb2.JobEvent(time=NOW, reason="not camel", message="x"))
    given.events.append(metrics_pb2.JobEvent(time=NOW, reason="NodeFailed", step=-1, evidence={"exit": "137"}))
    ack = ingest.store(envelope(1), given)
    assert ack.stored == 4
    assert [sentence.split(":")[0] for sentence in ack.refused] == [
        *(f"speed sample {number} of 10" for number in range(2, 10)),
        "node load 2 of 3",
        "node load 3 of 3",
        "event 1 of 2",
    ]
    text = "\n".join(ack.refused)
    for words in ("samples is -5", "samples is nan", "seconds is 0", "3600 s in the future", "workers is 0", "inf"):
        assert words in text
    assert steps(engine) == [1, 10]
    assert [row.node for row in rows(engine, JobNodeLoad)] == ["digits-edljob-worker-0"]
    [event] = rows(engine, JobEvent)
    assert (event.reason, event.step, event.evidence) == ("NodeFailed", None, {"exit": "137"})


def test_an_event_that_no_packet_holds_and_features_without_end_are_refused(engine, ingest):
    given = report(window(1))
    given.events.add(time=NOW - 1, reason="Large", evidence={f"key-{number}": "x" * 4000 for number in range(6000)})
    given.events.add(time=NOW - 1, reason="Small", evidence={f"key-{number}": "x" for number in range(100)})
    given.job.features.update({f"feature-{number}": 1.0 for number in range(1001)})
    ack = ingest.store(envelope(1), given)
    assert ack.stored == 2
    assert ack.refused == [
        "features: there are 1001: expected at most 1000",
        "event 1 of 2: evidence has 6000 entries: expected at most 100",
    ]
    assert [row.reason for row in rows(engine, JobEvent)] == ["Small"]
    assert rows(engine, JobFeature) == []


def test_a_clock_a_little_ahead_is_forgiven(engine, ingest):
    ahead = window(1)
    ahead.time = NOW + 59
    assert ingest.store(envelope(1), report(ahead)).stored == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("uid", ""), ("name", "x" * 254), ("strategy", "gossip"), ("state", "Dreaming"), ("name", " padded ")],
)
def test_a_report_of_no_job_is_refused_by_field(engine, ingest, field, value):
    description = job()
    setattr(description, field, value)
    with pytest.raises(InvalidInput, match=f"job.{field}"):
        ingest.store(envelope(1, uid=""), report(window(1), of=description))
    assert rows(engine, Job) == []


def test_a_report_without_sender_or_of_another_job_is_refused(engine, ingest):
    with pytest.raises(InvalidInput, match="convoy-sequence"):
        ingest.store(Envelope(job="uid-1", sender="master-0"), report(window(1)))
    with pytest.raises(InvalidInput, match="'uid-9'"):
        ingest.store(envelope(1, uid="uid-9"), report(window(1)))


def test_a_plans_outcome_is_filled_in_and_an_unknown_recommendation_left_out(engine, ingest):
    plan = brain_pb2.PlanOutcome(
        plan="plan-1", recommendation="gone", created=NOW - 50, workers_before=1, workers_after=2, predicted=900.0
    )
    given = report()
    given.plans.append(plan)
    ack = ingest.store(envelope(1), given)
    assert ack.stored == 1
    assert "recommendation gone isn't in the store" in ack.refused[0]
    given.plans[0].carried_out = NOW - 40
    given.plans[0].realized = 950.0
    given.plans[0].restart_seconds = 1.5
    ingest.store(envelope(2), given)
    [stored] = queries.plans(engine, queries.find_job(engine, "digits"))
    assert (stored.recommendation_id, stored.predicted, stored.realized) == (None, 900.0, 950.0)
    assert stored.carried_out_at.timestamp() == NOW - 40
    assert stored.predicted_lower is None


def test_a_thousand_windows_go_in_at_once(engine, ingest):
    assert ingest.store(envelope(1), report(*(window(number) for number in range(900)))).stored == 900
    assert steps(engine) == list(range(900))


anything = st.floats(width=64) | st.sampled_from([0.0, -0.0, 1e308, 5e-324])


@given(
    st.builds(
        dict,
        time=anything,
        seconds=anything,
        samples=anything,
        compute_seconds=anything,
        grad_sqr=anything,
        grad_var=anything,
        loader_wait=anything,
    )
)
def test_whatever_numbers_come_a_row_is_storable_or_refused(numbers):
    sample = window(1)
    for field, value in numbers.items():
        setattr(sample, field, value)
    checked = check.each("speed sample", [sample], Checker(NOW, 60.0).speed)
    assert len(checked.rows) + len(checked.refused) == 1
    for row in checked.rows:
        assert 0 < row["samples"] / row["seconds"] <= 1e15
        assert row["compute_seconds"] is None or 0 < row["compute_seconds"] <= 1e7
        assert row["grad_var"] is None or 0 < row["grad_var"] <= 1e300
        assert row["grad_sqr"] is None or abs(row["grad_sqr"]) <= 1e300
        assert (row["grad_sqr"] is None) == (row["grad_var"] is None)
        assert 0 <= row["loader_wait"] <= 1e7
        assert row["loader_workers"] is None
        assert row["ended_at"].timestamp() <= NOW + 60
