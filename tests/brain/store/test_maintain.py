import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from convoy.brain.settings import BrainSettings
from convoy.brain.store import orphans, partitions, retention, series
from convoy.brain.store.batches import delete_in_batches
from convoy.brain.store.engine import open_engine, snapshot, writing
from convoy.brain.store.locks import exclusive
from convoy.brain.store.maintain import Maintained, maintain
from convoy.brain.store.migrate import migrate
from convoy.brain.store.retention import Retention
from convoy.brain.store.tables import (
    IMPORTED,
    MEASURED,
    HistoryObservation,
    Job,
    JobEvent,
    JobFeature,
    Recommendation,
    RollupDue,
    ScalePlan,
    TrainingSpeed,
    TrainingSpeed1h,
    TrainingSpeed1m,
)
from convoy.core.api.errors import InvalidSetting, Unavailable, Unusable
from support.speed_rows import count, make_jobs, store, windows

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
MAINTAIN = (
    "import sys; from datetime import UTC, datetime; from convoy.brain.store.engine import open_engine; "
    "from convoy.brain.store.maintain import maintain; from convoy.brain.store.retention import Retention; "
    "maintain(open_engine(sys.argv[1]), datetime.now(UTC), Retention(speed=10, minutes=15))"
)


def counts(engine):
    return [count(engine, table) for table in (TrainingSpeed, TrainingSpeed1m, TrainingSpeed1h, RollupDue)]


def total(engine, table):
    with engine.connect() as connection:
        return connection.execute(sa.select(sa.func.sum(table.samples))).scalar_one()


def test_each_resolution_is_kept_as_long_as_it_is_told(engine):
    make_jobs(engine, 1, last_seen=NOW)
    ages = (0, 5, 12, 20)
    rows = [row for age in ages for row in windows(1, NOW - age * DAY - timedelta(hours=1), 12, round=age + 1)]
    store(engine, rows)
    kept = Retention(speed=10, minutes=15)
    done = maintain(engine, NOW, kept)
    assert done.hours >= 4
    assert set(done.removed) >= {"training_speed", "training_speed_1m"}
    assert count(engine, TrainingSpeed) == 24
    assert set(_rounds(engine, TrainingSpeed1m)) == {1, 6, 13}
    assert set(_rounds(engine, TrainingSpeed1h)) == {1, 6, 13, 21}
    assert total(engine, TrainingSpeed1h) == sum(row["samples"] for row in rows)
    before = counts(engine)
    assert maintain(engine, NOW, kept) == Maintained()
    assert counts(engine) == before
    assert maintain(engine, NOW, Retention(speed=None, load=None)).removed == {}
    maintain(engine, NOW, Retention(speed=10, minutes=15, hours=11))
    assert set(_rounds(engine, TrainingSpeed1h)) == {1, 6}


def _rounds(engine, table):
    with engine.connect() as connection:
        return connection.execute(sa.select(table.round).distinct()).scalars().all()


def test_what_is_dropped_is_no_longer_taken_even_if_it_is_to_be_kept_longer(engine):
    make_jobs(engine, 1, last_seen=NOW)
    store(engine, windows(1, NOW - 20 * DAY, 5))
    maintain(engine, NOW, Retention(speed=10))
    assert Retention(speed=None, load=None).taken_since(engine, NOW.timestamp())["training_speed"] > 0.0
    since = Retention(speed=100).taken_since(engine, NOW.timestamp())["training_speed"]
    assert NOW.timestamp() - 12 * 86400 < since <= NOW.timestamp() - 11 * 86400
    summed = total(engine, TrainingSpeed1h)
    store(engine, windows(1, NOW - 20 * DAY, 5, round=9))  # one that slipped in doesn't take the hour's sums away
    maintain(engine, NOW, Retention(speed=10))
    assert total(engine, TrainingSpeed1h) == summed


def test_a_day_in_which_something_isnt_summed_yet_stays(engine, monkeypatch):
    make_jobs(engine, 1, last_seen=NOW)
    store(engine, windows(1, NOW - 20 * DAY, 5))
    monkeypatch.setattr("convoy.brain.store.rollup.roll_up", lambda *given, **named: 0)
    assert maintain(engine, NOW, Retention(speed=10)).removed == {}
    assert count(engine, TrainingSpeed) == 5


def test_rows_of_no_job_are_found_and_removed(engine):
    make_jobs(engine, 1, last_seen=NOW)
    store(engine, windows(1, NOW - DAY, 30) + windows(2, NOW - DAY, 30))
    assert orphans.find(engine) == {"training_speed": [2], "job_node_load": [], "node_load": []}
    done = maintain(engine, NOW, Retention())
    assert done.orphans["training_speed"] == 30
    assert counts(engine)[0] == 30
    assert set(_jobs_of(engine, TrainingSpeed1m)) == set(_jobs_of(engine, TrainingSpeed1h)) == {1}
    store(engine, windows(3, NOW - DAY, 5))
    assert orphans.remove(engine) == {"training_speed": 5}
    assert count(engine, RollupDue) == 0


def _jobs_of(engine, table):
    with engine.connect() as connection:
        return connection.execute(sa.select(table.job_id)).scalars().all()


def test_a_job_goes_with_all_that_hangs_on_it_and_the_others_stay(engine):
    make_jobs(engine, 1, last_seen=NOW - 400 * DAY)
    make_jobs(engine, 2, last_seen=NOW)
    with writing(engine) as connection:
        for job in (1, 2):
            connection.execute(sa.insert(JobFeature), [{"job_id": job, "name": "layers", "value": 2.0}])
            connection.execute(sa.insert(JobEvent), [_event(job, NOW - DAY)])
            connection.execute(sa.insert(Recommendation), [_recommendation(job)])
            connection.execute(sa.insert(ScalePlan), [_plan(job)])
        series.insert(connection, TrainingSpeed, windows(1, NOW - DAY, 5))
    done = maintain(engine, NOW, Retention(jobs=365))
    assert (done.removed["job"], done.removed["recommendation"], done.orphans) == (1, 1, {})
    for table in (Job, JobFeature, JobEvent, Recommendation, ScalePlan):
        assert count(engine, table) == 1
    assert count(engine, TrainingSpeed) == 0


def test_a_jobs_number_is_free_only_when_its_series_are_gone(engine, monkeypatch):
    """SQLite gives it to the next job, which would begin with another one's windows if this were killed between."""
    make_jobs(engine, 1, last_seen=NOW - 400 * DAY)
    store(engine, windows(1, NOW - DAY, 5))
    left = {}

    def watched(given, table, *rest):
        left[table] = [count(engine, each) for each in (TrainingSpeed, TrainingSpeed1h, RollupDue)]
        return delete_in_batches(given, table, *rest)

    monkeypatch.setattr(retention, "delete_in_batches", watched)
    maintain(engine, NOW, Retention(jobs=365))
    assert left[Job] == [0, 0, 0]
    assert count(engine, Job) == 0


def test_a_job_that_is_heard_of_meanwhile_stays(engine, monkeypatch):
    make_jobs(engine, 1, last_seen=NOW - 400 * DAY)
    with writing(engine) as connection:
        connection.execute(sa.insert(JobEvent), [_event(1, NOW - DAY)])

    def heard(given, series, number, *rest):
        with writing(engine) as connection:
            connection.execute(sa.update(Job).values(last_seen=NOW))
        return {}

    monkeypatch.setattr(orphans, "remove_rows_of", heard)
    assert maintain(engine, NOW, Retention(jobs=365)).removed == {}
    assert (count(engine, Job), count(engine, JobEvent)) == (1, 1)


def test_imported_history_and_events_have_a_retention_of_their_own(engine):
    make_jobs(engine, 1, last_seen=NOW)
    history = [
        {"digest": f"{number:064d}", "origin": origin, "source": "file", "imported_at": NOW - age * DAY,
         "job": "past", "workers": 1, "throughput": 1.0, "status": "ok"}
        for number, (origin, age) in enumerate([(IMPORTED, 50), (IMPORTED, 5), (MEASURED, 50)])
    ]  # fmt: skip
    with writing(engine) as connection:
        connection.execute(sa.insert(HistoryObservation), history)
        connection.execute(sa.insert(JobEvent), [_event(1, NOW - 50 * DAY), _event(1, NOW)])
    assert maintain(engine, NOW, Retention()).removed == {}
    done = maintain(engine, NOW, Retention(imported=30, events=30))
    assert done.removed == {"history_observation": 1, "job_event": 1}


@pytest.mark.parametrize(
    "point", ["rollup.after-subject:1", "retention.after-bound:1", "retention.after-bound:2", "batches.after-batch:1"]
)
def test_one_that_was_killed_is_carried_on(engine, point, monkeypatch):
    make_jobs(engine, 1, last_seen=NOW)
    rows = [row for age in (0, 12, 20) for row in windows(1, NOW - age * DAY - timedelta(hours=2), 12, round=age + 1)]
    store(engine, rows + windows(2, NOW - DAY, 3))
    monkeypatch.setenv("CONVOY_CRASH_AT", point)
    url = engine.url.render_as_string(hide_password=False)
    killed = subprocess.run([sys.executable, "-c", MAINTAIN, url], capture_output=True, timeout=50)
    assert killed.returncode == -9
    monkeypatch.delenv("CONVOY_CRASH_AT")
    maintain(engine, NOW, Retention(speed=10, minutes=15))
    assert count(engine, TrainingSpeed) == 12
    assert total(engine, TrainingSpeed1h) == sum(row["samples"] for row in rows)
    assert set(_rounds(engine, TrainingSpeed1m)) == {1, 13}


def test_two_at_once_end_as_one(engine):
    make_jobs(engine, 1, last_seen=NOW)
    rows = [row for age in (0, 12, 20) for row in windows(1, NOW - age * DAY - timedelta(hours=2), 60, round=age + 1)]
    store(engine, rows)
    outcomes: list[Maintained] = []
    threads = [
        threading.Thread(target=lambda: outcomes.append(maintain(engine, NOW, Retention(speed=10, minutes=15))))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert len(outcomes) == 3
    assert count(engine, TrainingSpeed) == 60
    assert total(engine, TrainingSpeed1h) == sum(row["samples"] for row in rows)


@pytest.mark.servers
def test_a_table_that_is_read_for_long_keeps_only_its_days_from_being_made(mariadb, monkeypatch):
    monkeypatch.setattr(partitions, "_TRIES", 1)
    migrate(mariadb)
    engine, reader = open_engine(mariadb), open_engine(mariadb)
    make_jobs(engine, 1, last_seen=NOW)
    store(engine, windows(1, NOW - DAY, 5))
    monkeypatch.setattr(partitions, "AHEAD", partitions.AHEAD + 1)
    with snapshot(reader, TrainingSpeed), pytest.raises(Unavailable, match="try again"):
        maintain(engine, NOW, Retention())
    assert counts(engine)[-1] == 0
    assert total(engine, TrainingSpeed1h) == total(engine, TrainingSpeed)
    assert maintain(engine, NOW, Retention()).days > 0
    engine.dispose()
    reader.dispose()


@pytest.mark.servers
def test_a_clock_that_is_not_the_servers_removes_nothing(mariadb):
    migrate(mariadb)
    engine = open_engine(mariadb)
    make_jobs(engine, 1, last_seen=NOW)
    store(engine, windows(1, NOW - DAY, 5))
    with pytest.raises(Unusable, match=r"clock says .* nothing was removed"):
        maintain(engine, NOW + 400 * DAY, Retention())
    assert count(engine, TrainingSpeed) == 5
    engine.dispose()


def test_sums_that_would_go_before_their_rows_are_refused(monkeypatch):
    monkeypatch.setenv("CONVOY_KEEP_HOURS_DAYS", "20")
    with pytest.raises(InvalidSetting, match="keep_hours_days is 20 and keep_speed_days 30"):
        BrainSettings.load().retention()
    monkeypatch.setenv("CONVOY_KEEP_HOURS_DAYS", "0")
    assert BrainSettings.load().retention().hours is None


@pytest.mark.servers
def test_another_process_at_it_is_no_error(mariadb):
    migrate(mariadb)
    engine, other = open_engine(mariadb), open_engine(mariadb)
    with exclusive(other, "maintain", 1.0):
        assert maintain(engine, NOW, Retention()) == Maintained(busy=True)
    assert not maintain(engine, NOW, Retention()).busy
    engine.dispose()
    other.dispose()


def _event(job, moment):
    return {"job_id": job, "happened_at": moment, "reason": "JobStarted", "node": "", "round": 0, "message": "",
            "evidence": {}}  # fmt: skip


def _recommendation(job):
    return {"id": f"advice-{job}", "job_id": job, "made_at": NOW, "stage": "RUNNING", "decision": "KEEP",
            "reason": "X", "message": "", "workers_before": 1, "currency": "USD", "observations": 1,
            "history_jobs": 0, "options": [], "request": {}, "evidence": {}, "seconds": 0.1}  # fmt: skip


def _plan(job):
    return {"job_id": job, "name": "plan", "recommendation_id": f"advice-{job}", "created_at": NOW,
            "workers_before": 1, "workers_after": 2, "reason": "", "message": "", "rolled_back": False}  # fmt: skip
