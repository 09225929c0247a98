"""What a report's times may be, and what its rows say of attempts, pods and hours."""

from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from convoy.brain.ingest.check import Position, going_forward
from convoy.brain.ingest.reports import Ingest
from convoy.brain.store import attempts, queries
from convoy.brain.store.engine import reading, writing
from convoy.brain.store.retention import Retention
from convoy.brain.store.series import set_complete_since
from convoy.brain.store.tables import JobAttempt, JobFeature, JobNode, Reporter, RollupDue, TrainingSpeed
from support.clock import FakeClock
from support.reports import NOW, envelope, job, load, report, window
from support.speed_rows import windows


@pytest.fixture
def clock():
    return FakeClock(NOW)


@pytest.fixture
def ingest(engine, clock):
    return Ingest(engine, clock)


def rows(engine, table):
    with reading(engine) as connection:
        return connection.execute(sa.select(table.__table__)).all()


def steps(engine):
    return sorted(row.last_step for row in rows(engine, TrainingSpeed))


def at(number, moment):
    given = window(number)
    given.time = moment
    return given


def test_a_clock_that_stepped_back_is_refused_until_it_is_right_again(engine, ingest):
    assert ingest.store(envelope(1), report(at(1, NOW - 100), at(2, NOW - 99))).stored == 2
    ack = ingest.store(envelope(2), report(at(3, NOW - 3700), at(4, NOW - 3699), at(5, NOW - 90)))
    assert ack.stored == 1
    assert len(ack.refused) == 2
    assert "step 3: time lies 3601.000 s before that of step 2" in ack.refused[0]
    assert steps(engine) == [1, 2, 5]
    [reporter] = rows(engine, Reporter)
    assert (reporter.refused, reporter.speed_step) == (2, 5)
    assert reporter.speed_ended_at.timestamp() == NOW - 90


def test_it_is_known_by_its_own_reports_alone(engine, ingest):
    """Another process, on another machine, has another clock; and what was overtaken is older by right."""
    ingest.store(envelope(2), report(at(2, NOW - 10)))
    assert ingest.store(envelope(1), report(at(1, NOW - 11))).stored == 1
    assert ingest.store(envelope(1, sender="master-1", incarnation=2), report(at(3, NOW - 20))).stored == 1
    assert steps(engine) == [1, 2, 3]


def test_the_same_steps_told_again_with_their_times_are_no_step_back(engine, ingest):
    ingest.store(envelope(1), report(at(1, NOW - 30), at(2, NOW - 20)))
    ack = ingest.store(envelope(2), report(at(1, NOW - 30), at(2, NOW - 20), at(3, NOW - 10)))
    assert ack.refused == []
    assert steps(engine) == [1, 2, 3]


positions = st.tuples(st.integers(1, 3), st.integers(0, 20), st.integers(0, 100))


@given(st.lists(positions, max_size=20), st.lists(positions, max_size=20))
def test_what_is_kept_never_goes_back(first, second):
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    position = Position()
    for batch in (first, second):
        given_rows = [
            {"round": round, "last_step": step, "ended_at": begin + timedelta(seconds=second)}
            for round, step, second in batch
        ]
        before = position
        checked, position = going_forward(given_rows, position)
        assert len(checked.rows) + len(checked.refused) == len(batch)
        assert (position.round, position.step) >= (before.round, before.step)
        further = [row for row in checked.rows if (row["round"], row["last_step"]) > (before.round, before.step)]
        times = [row["ended_at"] for row in further if before.ended_at is not None]
        assert all(moment >= before.ended_at for moment in times)


def test_what_is_older_than_it_would_be_kept_is_refused_by_its_age(engine, clock):
    ingest = Ingest(engine, clock, retention=Retention(speed=30, load=14))
    old = load(1)
    old.time = NOW - 15 * 86400
    given = report(at(1, NOW - 31 * 86400), at(2, NOW - 29 * 86400))
    given.load.append(old)
    ack = ingest.store(envelope(1), given)
    assert ack.stored == 1
    assert "31.0 days back, and rows are kept for 30.0" in ack.refused[0]
    assert "node load 1 of 1" in ack.refused[1]
    forever = Ingest(engine, clock, retention=Retention(speed=None))
    assert forever.store(envelope(2), report(at(3, 86400.0))).refused[0].startswith("speed sample of round")
    assert forever.store(envelope(1, sender="b"), report(at(4, 86400.0))).stored == 1


def test_what_retention_dropped_meanwhile_is_no_longer_taken(engine, clock, ingest):
    ingest.store(envelope(1), report(at(1, NOW - 10 * 86400)))
    with writing(engine) as connection:
        bound = datetime.fromtimestamp(NOW - 5 * 86400, UTC)
        set_complete_since(connection, "training_speed", bound)
        set_complete_since(connection, "training_speed", bound - timedelta(days=3))
    clock.advance(601)
    ack = ingest.store(envelope(2), report(at(2, NOW - 6 * 86400), at(3, NOW - 4 * 86400)))
    assert (ack.stored, len(ack.refused)) == (1, 1)


def test_each_round_is_an_attempt_with_its_size_and_span(engine, ingest):
    first = [window(number, workers=4, round=1, warming=number == 1) for number in range(1, 6)]
    second = [window(number, workers=2, round=2, warming=number == 6) for number in range(6, 9)]
    ingest.store(envelope(1), report(*first[:3]))
    ingest.store(envelope(2), report(*first[3:], *second))
    ingest.store(envelope(1, sender="master-1", incarnation=2), report(*first, *second))
    one, two = rows(engine, JobAttempt)
    start = NOW - 1000
    assert (one.round, one.workers, one.nodes, one.first_step, one.last_step) == (1, 4, 4, 1, 5)
    assert [moment.timestamp() - start for moment in (one.started_at, one.ended_at)] == [0, 5]
    assert [moment.timestamp() - start for moment in (one.steady_since, one.steady_until)] == [2, 5]
    assert (two.round, two.workers, two.first_step, two.last_step) == (2, 2, 6, 8)


def test_an_attempt_is_the_same_in_whatever_order_its_windows_come(engine):
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    given_rows = windows(1, begin, 9, workers=3)
    given_rows[8]["workers"] = 5
    with writing(engine) as connection:
        from convoy.brain.store import jobs

        description = dict.fromkeys(("name", "namespace", "template", "image", "user", "strategy", "model"), "")
        described = {**description, "cluster": "", "node_type": "", "state": ""}
        numbers = [jobs.ensure(connection, {**described, "uid": uid}, begin) for uid in ("a", "b")]
        for part in (given_rows[:1], given_rows[1:4], given_rows[4:]):
            attempts.follow(connection, numbers[0], part)
        for part in (given_rows[6:], given_rows[:1], given_rows[1:6]):
            attempts.follow(connection, numbers[1], part)
    one, two = rows(engine, JobAttempt)
    assert tuple(one)[1:] == tuple(two)[1:]
    assert (one.workers, one.steady_since, one.last_step) == (5, given_rows[1]["ended_at"], 8)


def test_the_hours_and_pods_of_a_report_are_marked_and_made(engine, ingest):
    given = report(window(1), window(2))
    given.load.extend([load(1, "w-0"), load(2, "w-0"), load(1, "w-1")])
    ingest.store(envelope(1), given)
    assert sorted(row.series for row in rows(engine, RollupDue)) == ["job_node_load", "training_speed"]
    assert sorted((row.name, row.role, row.cpu_allotted) for row in rows(engine, JobNode)) == [
        ("w-0", "worker", 1.0),
        ("w-1", "worker", 1.0),
    ]


def test_what_a_job_is_may_become_known_later_and_is_not_rewritten(engine, ingest):
    ingest.store(envelope(1), report(window(1), of=job()))
    later = job()
    later.dataset, later.mode, later.optimize_mode = "digits", "sync", "cluster"
    later.features.update({"model_parameters": 1e6, "learning_rate": 0.1, "batch_size": -1.0, "layers": 3.0})
    ack = ingest.store(envelope(2), report(window(2), of=later))
    assert "feature" in ack.refused[0]
    assert "batch_size is -1" in ack.refused[0]
    later.dataset = "another"
    ingest.store(envelope(3), report(window(3), of=later))
    found = queries.find_job(engine, "uid-1")
    assert (found.dataset, found.mode, found.optimize_mode) == ("digits", "sync", "cluster")
    assert (found.model_parameters, found.learning_rate, found.batch_size) == (1e6, 0.1, None)
    assert [row.name for row in rows(engine, JobFeature)] == ["layers"]
