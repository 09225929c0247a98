"""Files of history into the store: the same rows from each format, each once, also after a kill."""

import os
import signal
import threading

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convoy.brain.features.columns import NAMES
from convoy.brain.ingest.history import import_history, open_history, take
from convoy.brain.ingest.history.sinks import Rehearsal
from convoy.brain.ingest.reports import Ingest
from convoy.brain.serve.knowledge import Knowledge
from convoy.brain.store.engine import reading
from convoy.brain.store.tables import HistoryObservation
from convoy.cli.history_report import planned
from convoy.core.process.clock import SystemClock
from support import history_files
from support.clock import FakeClock
from support.command import convoy
from support.history_files import many, write_csv, write_parquet
from support.reports import NOW, envelope, report, window

HEADER = "job,model,strategy,workers,batch_size,worker_memory,throughput,observed_at,status,origin\n"
LINES = [
    "a,mlp,allreduce,1,256,1073741824,1000.5,2026-01-31T12:00:00Z,ok,a laptop\n",
    "a,mlp,allreduce,2,128,,1800,2026-01-31T14:00:00+02:00,,\n",
    "b,,,4,,0,,,oom,\n",
]


@pytest.fixture
def file(home):
    def write(text, name="history.csv"):
        path = home / name
        path.write_text(text)
        return path

    return write


def fates(imported):
    return imported.added, imported.already, imported.measured, imported.refused.rows


def stored(engine, *names):
    names = names or NAMES
    with reading(engine) as connection:
        columns = [getattr(HistoryObservation, name) for name in names]
        return [tuple(row) for row in connection.execute(sa.select(*columns).order_by(HistoryObservation.id))]


def forget(engine):
    with engine.begin() as connection:
        connection.execute(sa.delete(HistoryObservation))


def test_rows_are_stored_with_their_types_and_empty_means_unknown(engine, file):
    assert fates(import_history(engine, file("# on two machines\n" + HEADER + "".join(LINES)))) == (3, 0, 0, 0)
    names = ("job", "workers", "worker_memory", "throughput", "status", "source", "origin", "strategy")
    assert stored(engine, *names) == [
        ("a", 1, 1073741824.0, 1000.5, "ok", "a laptop", "imported", "allreduce"),
        ("a", 2, None, 1800.0, "ok", "history.csv", "imported", "allreduce"),
        ("b", 4, 0.0, None, "oom", "history.csv", "imported", None),
    ]
    first, second, third = (moment for (moment,) in stored(engine, "observed_at"))
    assert first == second
    assert first.isoformat() == "2026-01-31T12:00:00+00:00"
    assert third is None


def test_importing_twice_adds_nothing(engine, file):
    path = file(HEADER + "".join(LINES))
    assert fates(import_history(engine, path)) == (3, 0, 0, 0)
    assert fates(import_history(engine, path)) == (0, 3, 0, 0)
    longer = file(HEADER + "".join([*LINES, LINES[1]]), "longer.csv")
    assert fates(import_history(engine, longer)) == (1, 3, 0, 0)
    assert len(stored(engine)) == 4


def test_what_a_store_holds_since_its_first_release_is_known_again(engine, file):
    import_history(engine, file(HEADER + LINES[0]))
    assert stored(engine, "digest") == [("8cab60f7977f903ce73750521aa84a98f1e69e0c8f7664466b106ef874e317df",)]


def test_imports_at_once_add_each_row_once_and_count_it_once(engine, home):
    forth, back = write_csv(home / "forth.csv", many(300)), write_csv(home / "back.csv", many(300)[::-1])
    together = threading.Barrier(4)
    outcomes = []

    def run(path):
        together.wait(20)
        outcomes.append(import_history(engine, path))

    threads = [threading.Thread(target=run, args=(path,)) for path in (forth, back, forth, back)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert len(stored(engine)) == 300
    assert [outcome.added + outcome.already for outcome in outcomes] == [300] * 4
    assert sum(outcome.added for outcome in outcomes) == 300


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(history_files.rows(), min_size=1, max_size=8))
def test_the_same_rows_are_the_same_from_every_format(engine, home, rows):
    forget(engine)
    paths = [write_parquet(home / "a.parquet", rows, group=3), write_csv(home / "a.csv", rows)]
    paths.append(write_csv(home / "a.csv.gz", rows))
    for number, path in enumerate(paths):
        added, already = (len(rows), 0) if number == 0 else (0, len(rows))
        assert fates(import_history(engine, path)) == (added, already, 0, 0)
    expected = [tuple((row["status"] or "ok") if name == "status" else row[name] for name in NAMES) for row in rows]
    assert stored(engine) == expected
    assert [source for (source,) in stored(engine, "source")] == [row["origin"] or "a.parquet" for row in rows]


@pytest.mark.parametrize(
    ("ending", "crash", "kept"),
    [
        (".csv", "before-commit:1", 0),
        (".csv", "before-commit:2", 5000),
        (".csv", "after-commit:2", 10_000),
        (".parquet", "before-commit:2", 5000),
    ],
)
def test_a_kill_leaves_whole_chunks_and_importing_again_adds_the_rest(engine, store, home, ending, crash, kept):
    write = write_csv if ending == ".csv" else write_parquet
    path = write(home / f"history{ending}", many(12_000))
    environment = {**os.environ, "CONVOY_DATABASE_URL": store}
    killed = convoy("brain", "import", path, env={**environment, "CONVOY_CRASH_AT": f"brain.import.{crash}"})
    assert killed.status == -signal.SIGKILL
    assert len(stored(engine, "job")) == kept
    again = convoy("brain", "import", path, env=environment)
    assert again.status == 0
    there = f", {kept} there already" if kept else ""
    assert again.out == f"{path.name}: {12_000 - kept} rows stored{there}\n"
    assert sorted(stored(engine, "throughput")) == [(100.0 + number,) for number in range(12_000)]


def test_rows_of_a_job_that_the_store_measured_itself_are_left_out(engine, file):
    ingest = Ingest(engine, FakeClock(NOW))
    ingest.store(envelope(1), report(window(1), window(2)))
    unmeasured = report(window(1, warming=True))
    unmeasured.job.uid = "uid-2"
    ingest.store(envelope(1, uid="uid-2"), unmeasured)
    path = file("job,workers,throughput\nuid-1,1,900\nuid-2,1,900\nelsewhere,1,900\n")
    assert fates(import_history(engine, path)) == (2, 0, 1, 0)
    assert stored(engine, "job") == [("uid-2",), ("elsewhere",)]


def test_a_files_name_stands_for_the_origin_in_letters_that_an_import_takes(engine, file):
    name = os.fsdecode(b" a\nb\xff.csv")
    import_history(engine, file(HEADER + LINES[1], name))
    assert stored(engine, "source") == [("a?b?.csv",)]


def test_the_next_answer_is_learned_from_what_was_imported(engine, file):
    knowledge = Knowledge(engine, SystemClock())
    assert knowledge.learned().model.history_jobs == 0
    import_history(engine, file(HEADER + "".join(LINES)))
    assert (knowledge.learned().model.history_jobs, knowledge.learned().rows) == (1, 3)


def rehearsed(path, engine=None):
    rehearsal = Rehearsal(engine)
    with open_history(path) as history:
        outcome = take(history, rehearsal)
    rehearsal.close()
    return outcome


def test_a_rehearsal_counts_what_an_import_would_do(engine, file):
    path = file(HEADER + "".join([*LINES, LINES[1], "c,,,1,,,,,,\n"]))
    assert fates(rehearsed(path)) == (4, 0, 0, 1)
    assert stored(engine) == []
    import_history(engine, file(HEADER + LINES[1], "part.csv"))
    outcome = rehearsed(path, engine)
    assert fates(outcome) == (3, 1, 0, 1) == fates(import_history(engine, path))
    assert (outcome.jobs, outcome.untimed, outcome.empty) == (2, 1, set())
    assert outcome.since == outcome.until
    assert outcome.origins == {"a laptop": 1, "history.csv": 3}


def test_a_rehearsal_of_files_that_share_rows_counts_them_once(file):
    first, second = file(HEADER + "".join(LINES)), file(HEADER + "".join(LINES[1:]), "second.csv")
    rehearsal = Rehearsal(None)
    outcomes = []
    for path in (first, second):
        with open_history(path) as history:
            outcomes.append(fates(take(history, rehearsal)))
    rehearsal.close()
    assert outcomes == [(3, 0, 0, 0), (0, 2, 0, 0)]


def test_origins_and_refusals_are_kept_within_bounds(file):
    good = "".join(f"a,1,{number + 1},place {number}\n" for number in range(150))
    outcome = rehearsed(file("job,workers,throughput,origin\n" + good + "a,0,1,x\n" * 150))
    assert (len(outcome.origins), outcome.origins["(others)"]) == (101, 50)
    assert (outcome.refused.rows, len(outcome.refused.shown)) == (150, 20)
    assert outcome.refused.reasons == {"workers: OutOfBounds": 150}


def test_every_column_of_the_frames_can_be_imported():
    columns = set(HistoryObservation.__table__.columns.keys())
    assert set(NAMES) <= columns
    assert columns - set(NAMES) == {"id", "digest", "origin", "source", "imported_at"}


@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_values_of_refused_rows_are_values_of_their_columns(engine, home, write):
    row = {"job": "a", "model": None, "mode": None, "workers": 0, "throughput": 1.0}
    name = "a.csv" if write is write_csv else "a.parquet"
    outcome = import_history(engine, write(home / name, [row, {**row, "mode": "sync"}]))
    assert (outcome.good, outcome.refused.rows, outcome.empty) == (0, 2, {"model"})
    said = planned(outcome)
    assert "\n  columns with values: job, mode, workers, throughput\n" in said
    assert "without model" in said
    assert "the file is refused" not in said


def test_rows_that_cannot_be_told_apart_into_values_say_nothing_of_their_columns(engine, file):
    outcome = import_history(engine, file("job,workers,throughput,model\na,1\n"))
    assert planned(outcome).endswith("\n  columns with values: none that could be read")


def test_a_file_of_failed_rows_alone_is_not_said_to_be_refused(engine, file):
    outcome = import_history(engine, file("job,workers,throughput,status\na,1,,oom\n"))
    assert outcome.good == 1
    assert "\n  without throughput: each row whose status is ok is refused\n" in planned(outcome)
