"""Each query that frames, the command line and ingest run finds its rows by an index, as the database itself says."""

import contextlib
import re
from collections import Counter

import pytest
import sqlalchemy as sa

from convoy.brain.features import frames
from convoy.brain.ingest.history import import_history
from convoy.brain.ingest.prometheus import load_store
from convoy.brain.ingest.prometheus.rows import Loads
from convoy.brain.ingest.prometheus.subjects import Pod
from convoy.brain.ingest.reports import Ingest
from convoy.brain.store import queries
from convoy.brain.store.engine import open_engine, writing
from convoy.brain.store.migrate import migrate
from convoy.brain.store.rollup import roll_up
from convoy.brain.store.tables import Base, JobNodeLoad, NodeLoad, TrainingSpeed
from convoy.core.api.v1 import brain_pb2
from support import cluster_objects as objects
from support import reports
from support.clock import FakeClock
from support.database import BOTH, created
from support.many_rows import HOURS, fill
from support.monitored import Told
from support.stored import at

SMALL = {"cluster", "model_version", "optimization_run", "series_kept"}
"""Tables of a few rows: reading them whole is right."""
LATE = at(3600 * HOURS + 60)


@pytest.fixture(scope="module", params=BOTH)
def filled(request, tmp_path_factory):
    """An engine on a store with many rows, which the module's tests share."""
    with contextlib.ExitStack() as stack:
        if request.param == "sqlite":
            url = f"sqlite:///{tmp_path_factory.mktemp('indexes') / 'store.db'}"
        else:
            url = stack.enter_context(created())
        migrate(url)
        engine = open_engine(url)
        stack.callback(engine.dispose)
        fill(engine)
        yield engine


class Asked:
    """The statements that are run, and how the database goes about them."""

    def __init__(self, engine):
        self.engine = engine
        self.statements = {}
        sa.event.listen(engine, "before_cursor_execute", self._note)

    def _note(self, _connection, _cursor, statement, parameters, _context, many):
        if statement.split()[0] in ("SELECT", "UPDATE", "DELETE", "WITH"):
            self.statements.setdefault(statement, parameters[0] if many else parameters)

    def stop(self):
        sa.event.remove(self.engine, "before_cursor_execute", self._note)

    def read_whole(self):
        """Return the large tables that a statement reads from one end to the other, with the statement."""
        self.stop()
        found = []
        with self.engine.connect() as connection:
            for statement, parameters in self.statements.items():
                found += [(table, statement) for table in _whole(connection, statement, parameters)]
        return found


def _whole(connection, statement, parameters):
    if connection.dialect.name == "mysql":
        rows = connection.exec_driver_sql(f"EXPLAIN {statement}", parameters).mappings().all()
        named = [row["table"] for row in rows if row["type"] in ("ALL", "index")]
    else:
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
        named = [match[1] for row in rows if (match := re.match(r"SCAN (\w+)", row[3]))]
    return [name for name in named if name in Base.metadata.tables and name not in SMALL]


@pytest.fixture
def asked(filled):
    found = Asked(filled)
    yield found
    if sa.event.contains(filled, "before_cursor_execute", found._note):
        found.stop()


SPAN = {"since": at(3600), "until": LATE}
ONE_JOB = {
    "observed": lambda engine: frames.observed(engine, "uid-7"),
    "pod_load raw": lambda engine: frames.pod_load(engine, "uid-7", "raw", **SPAN),
    "pod_load 1m": lambda engine: frames.pod_load(engine, "uid-7", "1m", **SPAN),
    "pod_load 1h": lambda engine: frames.pod_load(engine, "uid-7", "1h"),
    "memory_usage raw": lambda engine: frames.memory_usage(engine, "uid-7", "raw"),
    "memory_usage 1h": lambda engine: frames.memory_usage(engine, "uid-7"),
    "plan_outcomes": lambda engine: frames.plan_outcomes(engine, "uid-7"),
    "machine_load raw": lambda engine: frames.machine_load(engine, "raw", machine="n7"),
}


@pytest.mark.parametrize("frame", ONE_JOB)
def test_a_frame_of_one_job_reads_no_table_whole(filled, asked, frame):
    found = ONE_JOB[frame](filled)
    assert len(found) > 0
    assert len(asked.statements) >= 1
    allowed = {"node"} if frame == "machine_load raw" else set()  # by its name in any cluster
    assert [one for one in asked.read_whole() if one[0] not in allowed] == []


OF_ALL = {
    "history": lambda engine: frames.history(engine),
    "history of jobs that are over": lambda engine: frames.history(engine, "uid-7", over_since=at(0)),
    "memory_usage": lambda engine: frames.memory_usage(engine),
    "machine_hours": lambda engine: frames.machine_hours(engine),
    "cluster_hours": lambda engine: frames.cluster_hours(engine, cluster="here"),
}
ROWS = {table.__tablename__ for table in (TrainingSpeed, JobNodeLoad, NodeLoad)}


@pytest.mark.parametrize("frame", OF_ALL)
def test_a_frame_of_all_jobs_reads_no_rows_but_those_of_hours_that_are_due(filled, asked, frame):
    assert len(OF_ALL[frame](filled)) > 0
    whole = Counter(table for table, _ in asked.read_whole())
    assert set(whole) & (ROWS | {"rollup_due"}) == set(), whole
    assert not [table for table in whole if table.endswith("_1m")]


def test_the_rows_of_a_due_hour_are_found_by_their_moment_too(filled, asked):
    frames.observed(filled, "uid-7")
    asked.stop()
    statements = [one for one in asked.statements.items() if "FROM training_speed \n" in one[0]]
    assert len(statements) == 2  # speeds, and the noise of gradients
    with filled.connect() as connection:
        for statement, values in statements:
            if filled.dialect.name == "mysql":
                rows = connection.exec_driver_sql(f"EXPLAIN {statement}", values).mappings()
                (row,) = [row for row in rows if row["table"] == "training_speed"]
                assert (row["type"], row["key"]) == ("range", "PRIMARY")
                assert int(row["rows"]) <= (40 if "grad_var" in statement else 10)  # of the last six hours, of 60
            else:
                plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values).all()
                assert "USING PRIMARY KEY (job_id=? AND ended_at>? AND ended_at<?)" in plan[0][3]


def test_what_the_command_line_reads_is_found_by_an_index(filled, asked):
    job = queries.find_job(filled, "job-7")
    assert len(queries.jobs(filled, limit=5)) == 5
    assert queries.find_job(filled, "uid-7", namespace="default").id == job.id
    assert queries.recommendations(filled, job)
    assert queries.recommendations(filled, job, decisions=("KEEP",), limit=1)
    assert queries.plans(filled, job)
    assert queries.changes_since(filled, "uid-7", at(0)) == HOURS
    assert queries.events(filled, job, limit=3)
    assert queries.events(filled, job, reasons=("Reason1",), without=("Reason2",))
    whole = asked.read_whole()
    # The latest of all jobs are read in the order of an index, as many as are asked for.
    assert [(table, statement) for table, statement in whole if "ORDER BY job.last_seen DESC" not in statement] == []


class TestIngest:
    """Each leaves its rows behind: what they are is another test's."""

    def test_a_report(self, filled, asked):
        report = reports.report(*(reports.window(n) for n in range(1, 4)), of=reports.job("uid-8", "job-8"))
        report.load.append(reports.load(2, "a"))
        report.job.features["parameters"] = 1e6
        report.events.add(time=reports.NOW - 5, reason="NodeLost", node="a")
        report.plans.append(
            brain_pb2.PlanOutcome(plan="p", created=reports.NOW - 9, recommendation="r-8-1", workers_after=2)
        )
        ingest = Ingest(filled, FakeClock(reports.NOW))
        for sequence in (1, 2):
            assert ingest.store(reports.envelope(sequence, uid="uid-8"), report).refused == []
        assert any("FROM reporter" in statement for statement in asked.statements)
        assert asked.read_whole() == []

    def test_load_out_of_prometheus(self, filled, asked):
        moment = int(LATE.timestamp())
        loads = Loads(nodes={("n9", moment): {"cpu_cores": 1.0}}, pods={(Pod("default", "a"), moment): {}})
        load_store.store(filled, "of-9", loads, 30)
        assert load_store.last_stored(filled, "here", at(0)) is not None
        whole = [one for one in asked.read_whole() if one[0] != "node"]
        assert [one for one in whole if "job_node.name IN" not in one[1]] == []

    def test_objects_of_a_cluster(self, filled, asked):
        told = Told(filled, "watched")
        job = objects.job(phase="Running")
        pod = objects.pod(job, node="n1", status=objects.running())
        things = (objects.node(), job, pod, objects.plan(job, phase="Pending"), objects.event(pod, "Pulled"))
        for _ in range(2):
            told.tell(*things)
        told.forget(pod, job)
        assert asked.statements
        assert asked.read_whole() == []

    def test_a_file_of_history(self, filled, asked, home):
        path = home / "history.csv"
        path.write_text("job,workers,throughput\nearlier,2,123.5\n")
        import_history(filled, path)
        assert any("FROM history_observation" in statement for statement in asked.statements)
        assert asked.read_whole() == []


def test_rolling_up_reads_nothing_whole_but_what_is_due(filled, asked):
    with writing(filled) as connection:
        connection.exec_driver_sql("DELETE FROM rollup_due WHERE subject_id > 3")
    assert roll_up(filled) >= 9
    assert {table for table, _ in asked.read_whole()} <= {"rollup_due"}


def test_a_query_without_an_index_is_noticed(filled, asked):
    with filled.connect() as connection:
        connection.exec_driver_sql("SELECT COUNT(*) FROM training_speed WHERE samples > 5")
    assert [table for table, _ in asked.read_whole()] == ["training_speed"]
