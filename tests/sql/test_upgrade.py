"""A database of each released version is brought up to this one's, with all that it holds."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from convoy.brain.features import frames
from convoy.brain.store import engine as engines
from convoy.brain.store import queries, rollup
from convoy.brain.store.engine import open_engine, parse_url, reading
from convoy.brain.store.migrate import Migration, migrate
from convoy.brain.store.tables import Base, JobAttempt, JobNode, JobNodeLoad, Reporter, RollupDue, TrainingSpeed
from convoy.sql.config import VERSION_TABLE, head

RELEASED = Path(__file__).parent / "released"
RELEASES = sorted({file.name.split(".")[0] for file in RELEASED.glob("*.sql")})


def make(url, release):
    """Make a database as that release left it."""
    kind = "sqlite" if url.startswith("sqlite") else "mysql"
    script = (RELEASED / f"{release}.{kind}.sql").read_text()
    plain = sa.create_engine(parse_url(url))
    with plain.begin() as connection:
        for statement in script.split(";\n"):
            if statement.strip() not in ("", "BEGIN TRANSACTION", "COMMIT"):
                connection.exec_driver_sql(statement.replace("%", "%%"))
    plain.dispose()


@pytest.fixture(params=RELEASES)
def upgraded(request, url):
    """Give an engine on a database of that release, brought up to this version."""
    make(url, request.param)
    before, after = request.param, head()
    assert migrate(url) == Migration(before=before, after=after)
    engine = open_engine(url)
    yield engine
    engine.dispose()


def rows(engine, table):
    with reading(engine) as connection:
        return connection.execute(sa.select(table.__table__)).all()


def test_the_tables_are_those_of_this_version(upgraded):
    with reading(upgraded) as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_jobs_and_what_was_said_of_them_are_there(upgraded):
    job = queries.find_job(upgraded, "digits")
    assert (job.user, job.state, job.accelerator, job.model_parameters, job.gone_at) == (
        "ana",
        "Succeeded",
        "",
        None,
        None,
    )
    assert job.last_seen == datetime(2026, 11, 20, 12, 0, 0, 500000, UTC)
    assert [advice.decision for advice in queries.recommendations(upgraded, job)] == ["CHANGE"]
    [plan] = queries.plans(upgraded, job)
    assert (plan.realized, plan.recommendation_id, plan.phase) == (144.0, "advice-1", "")
    assert [event.evidence for event in queries.events(upgraded, job)] == [{"exit": "137"}]
    [reporter] = rows(upgraded, Reporter)
    assert (reporter.sequence, reporter.refused, reporter.speed_ended_at) == (42, 0, None)


def test_windows_loads_attempts_and_pods_are_there(upgraded):
    assert [row.last_step for row in sorted(rows(upgraded, TrainingSpeed), key=lambda row: row.last_step)] == [
        10, 20, 30, 40
    ]  # fmt: skip
    first, second = sorted(rows(upgraded, JobAttempt), key=lambda row: row.round)
    assert (first.workers, first.first_step, first.last_step) == (1, 1, 30)
    assert first.started_at == datetime(2026, 11, 20, 10, 59, 40, 250000, UTC)
    assert first.steady_since == datetime(2026, 11, 20, 11, 0, 0, 250000, UTC)
    assert (second.workers, second.steady_since) == (2, second.steady_until)
    loads = sorted(rows(upgraded, JobNodeLoad), key=lambda row: row.node)
    assert [(load.node, load.source, load.cpu_cores, load.memory_bytes) for load in loads] == [
        ("digits-edljob-worker-0", "agent", 0.9, 400000000),
        ("digits-edljob-worker-1", "agent", 0.8, 410000000),
    ]
    assert sorted((pod.name, pod.role, pod.rank, pod.cpu_allotted) for pod in rows(upgraded, JobNode)) == [
        ("digits-edljob-worker-0", "worker", 0, 1.0),
        ("digits-edljob-worker-1", "worker", 1, None),
    ]


def test_what_the_models_learn_from_is_the_same_before_and_after_it_is_summed(upgraded):
    before = frames.observed(upgraded, "uid-1")
    assert before["throughput"].tolist() == [71.0, 144.0]
    assert before["worker_cpu_used"].tolist() == [0.9, 0.8]
    assert len(frames.history(upgraded)) == 3
    if len(rows(upgraded, RollupDue)):
        assert rollup.roll_up(upgraded) > 0
    after = frames.observed(upgraded, "uid-1")
    assert after["throughput"].tolist() == [71.0, 144.0]
    assert after["worker_cpu_used"].tolist() == pytest.approx([0.9, 0.8])


@pytest.mark.servers
def test_a_step_may_take_longer_than_other_statements(mariadb, monkeypatch):
    """A large table is copied for minutes, and a step whose caller went away is undone: it would never end."""
    monkeypatch.setattr(engines, "_STATEMENT_SECONDS", 1)
    make(mariadb, "0001")
    engine = open_engine(mariadb)
    with engine.connect() as reader, ThreadPoolExecutor(1) as pool:
        reader.exec_driver_sql("SELECT * FROM training_speed LIMIT 1").all()
        upgrade = pool.submit(migrate, mariadb)
        with pytest.raises(TimeoutError):  # it waits for the table that is read
            upgrade.result(3.0)
        reader.rollback()
        assert upgrade.result(40.0) == Migration(before="0001", after=head())
    engine.dispose()
