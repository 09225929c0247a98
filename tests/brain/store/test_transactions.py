import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import StatementError

from convoy.brain.store import jobs
from convoy.brain.store.engine import open_engine, reading, writing
from convoy.brain.store.migrate import migrate
from convoy.brain.store.tables import Job, JobEvent, JobFeature, ScalePlan, TrainingSpeed
from convoy.brain.store.write import insert_new, insert_or_update
from convoy.core.api.errors import InvalidInput, Unavailable, Unusable

AT = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
JOB = dict.fromkeys(("template", "image", "user", "model", "cluster", "node_type"), "") | {
    "uid": "uid-1",
    "name": "digits",
    "namespace": "default",
    "strategy": "allreduce",
    "state": "Running",
}
WINDOW = {
    "job_id": 1,
    "ended_at": AT,
    "round": 1,
    "last_step": 5,
    "first_step": 1,
    "seconds": 2.0,
    "samples": 100.0,
    "workers": 1,
    "ps": 0,
    "nodes": None,
    "batch_size": None,
    "accumulation_steps": None,
    "warming": False,
    "compute_seconds": None,
}


def count(engine, table):
    with reading(engine) as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()


def test_moments_come_back_aware_in_utc_to_the_microsecond(engine):
    with writing(engine) as connection:
        jobs.ensure(connection, JOB, AT.astimezone(timezone(timedelta(hours=9))))
    with reading(engine) as connection:
        assert connection.execute(sa.select(Job.first_seen)).scalar_one() == AT
        assert connection.execute(sa.select(Job.first_seen)).scalar_one().tzinfo is UTC


def test_a_moment_without_a_zone_is_a_mistake(engine):
    with pytest.raises(StatementError, match="no time zone"), writing(engine) as connection:
        jobs.ensure(connection, JOB, datetime(2026, 1, 31))


def test_the_speed_is_computed_by_the_database(engine):
    with writing(engine) as connection:
        insert_new(connection, TrainingSpeed, [WINDOW])
    with reading(engine) as connection:
        assert connection.execute(sa.select(TrainingSpeed.samples_per_second)).scalar_one() == 50.0


def test_a_row_whose_key_is_there_stays_as_it_is(engine):
    with writing(engine) as connection:
        insert_new(connection, TrainingSpeed, [WINDOW, {**WINDOW, "last_step": 6}])
        insert_new(connection, TrainingSpeed, [{**WINDOW, "samples": 7.0}, {**WINDOW, "last_step": 7}])
    with reading(engine) as connection:
        rows = connection.execute(sa.select(TrainingSpeed.last_step, TrainingSpeed.samples)).all()
    assert sorted(map(tuple, rows)) == [(5, 100.0), (6, 100.0), (7, 100.0)]


def test_inserting_what_is_new_hides_no_other_fault(engine):
    with pytest.raises(InvalidInput, match="refuses a value") as caught, writing(engine) as connection:
        insert_new(connection, TrainingSpeed, [{**WINDOW, "samples": None}])
    assert caught.value.reason == "ValueRefused"
    assert count(engine, TrainingSpeed) == 0


def test_insert_or_update_sets_the_named_columns_of_what_is_there(engine):
    with writing(engine) as connection:
        job = jobs.ensure(connection, JOB, AT)
        jobs.set_features(connection, job, [{"name": "parameters", "value": 1.0}, {"name": "rows", "value": 2.0}])
        jobs.set_features(connection, job, [{"name": "parameters", "value": 3.0}])
        insert_or_update(connection, JobFeature, [], key=("job_id", "name"), update=("value",))
    with reading(engine) as connection:
        rows = connection.execute(sa.select(JobFeature.name, JobFeature.value).order_by(JobFeature.name)).all()
    assert [tuple(row) for row in rows] == [("parameters", 3.0), ("rows", 2.0)]


def test_an_error_undoes_the_whole_transaction(engine):
    def fail() -> None:
        with writing(engine) as connection:
            jobs.ensure(connection, JOB, AT)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert count(engine, Job) == 0


def test_a_row_of_no_job_is_refused_where_a_foreign_key_can_stand(engine):
    event = {"job_id": 99, "happened_at": AT, "reason": "X", "node": "", "round": 0, "message": "", "evidence": {}}
    with pytest.raises(InvalidInput, match=r"(?i)foreign key"), writing(engine) as connection:
        connection.execute(sa.insert(JobEvent), [event])


def test_names_that_differ_in_case_or_accent_are_different_and_any_character_is_kept(engine):
    uids = ["job", "Job", "jöb", "jób", "job-🚢"]
    with writing(engine) as connection:
        for uid in uids:
            jobs.ensure(connection, {**JOB, "uid": uid, "name": uid}, AT)
    with reading(engine) as connection:
        assert set(connection.execute(sa.select(Job.name)).scalars()) == set(uids)


def test_writers_on_many_threads_wait_for_each_other(engine):
    def write(number: int) -> None:
        try:
            for step in range(10):
                with writing(engine) as connection:
                    jobs.ensure(connection, JOB, AT)
                    row = {**WINDOW, "round": number, "last_step": 100 + step}
                    insert_new(connection, TrainingSpeed, [row])
        except Exception as error:
            failures.append(error)

    failures: list[Exception] = []
    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert failures == []
    assert count(engine, TrainingSpeed) == 60
    assert count(engine, Job) == 1


def test_a_database_without_tables_names_the_command_that_makes_them(url):
    engine = open_engine(url)
    with pytest.raises(Unusable, match="convoy brain migrate"), reading(engine) as connection:
        connection.execute(sa.select(ScalePlan.id))
    engine.dispose()


@pytest.mark.servers
def test_a_connection_that_the_server_ended_is_replaced(mariadb):
    migrate(mariadb)
    engine = open_engine(mariadb)
    with reading(engine) as connection:
        own = connection.exec_driver_sql("SELECT CONNECTION_ID()").scalar_one()
    other = open_engine(mariadb)
    with other.begin() as connection:
        connection.exec_driver_sql(f"KILL {own}")
    assert count(engine, Job) == 0

    def write_and_lose_the_connection() -> None:
        with writing(engine) as connection:
            jobs.ensure(connection, JOB, AT)
            own = connection.exec_driver_sql("SELECT CONNECTION_ID()").scalar_one()
            with other.begin() as killer:
                killer.exec_driver_sql(f"KILL {own}")
            connection.execute(sa.select(Job.id))

    with pytest.raises(Unavailable, match="try again"):
        write_and_lose_the_connection()
    assert count(engine, Job) == 0
    engine.dispose()
    other.dispose()
