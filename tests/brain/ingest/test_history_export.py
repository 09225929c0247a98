"""What the store knows into a file and back: the same rows, to the last bit."""

import os
import signal
from datetime import UTC, datetime

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convoy.brain.features.columns import NAMES
from convoy.brain.ingest.history import import_history
from convoy.brain.ingest.history.columns import BY_NAME, ORIGIN
from convoy.brain.ingest.history.export import Wanted, exported
from convoy.brain.ingest.history.writers import writing_history
from convoy.brain.ingest.reports import Ingest
from convoy.brain.store.tables import HistoryObservation
from convoy.core.api.errors import InvalidInput, NotFound, Unusable
from support import history_files
from support.clock import FakeClock
from support.command import convoy
from support.history_files import many, write_csv, write_parquet
from support.reports import NOW, envelope, job, load, report, window

DAY = "2026-02-0{}T00:00:00Z"


def forget(engine):
    with engine.begin() as connection:
        connection.execute(sa.delete(HistoryObservation))


def write(engine, path, wanted=Wanted()):  # noqa: B008 - frozen
    with writing_history(path, replace=True) as writer:
        for rows in exported(engine, wanted):
            writer.write(rows)
    return path


def rows_of(engine, **wanted):
    return [row for rows in exported(engine, Wanted(**wanted)) for row in rows]


def measure(engine, uid="uid-1", name="digits"):
    ingest = Ingest(engine, FakeClock(NOW))
    windows = [window(number, rate=1000.0 / 3 + number) for number in range(1, 8)]
    windows += [window(20 + number, rate=2000.0 / 3, workers=2, round=2) for number in range(3)]
    given = report(*windows, of=job(uid, name))
    given.load.extend(load(number) for number in range(1, 8))
    assert ingest.store(envelope(1, uid=uid), given).refused == []


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(history_files.rows(), min_size=1, max_size=6))
@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet"])
def test_what_was_imported_comes_back_from_every_format_to_the_last_bit(engine, home, rows, ending):
    forget(engine)
    import_history(engine, write_parquet(home / "given.parquet", rows))
    expected = [{**row, "status": row["status"] or "ok", ORIGIN: row[ORIGIN] or "given.parquet"} for row in rows]
    assert rows_of(engine) == expected
    first = write(engine, home / f"first{ending}")
    forget(engine)
    assert import_history(engine, first).added == len(rows)
    assert rows_of(engine) == expected
    assert write(engine, home / f"second{ending}").read_bytes() == first.read_bytes()


def test_measured_jobs_have_a_row_a_configuration_under_their_uid(engine, home):
    measure(engine)
    one, two = rows_of(engine)
    assert list(one) == list(BY_NAME)
    assert (one["job"], one["workers"], one["template"], one[ORIGIN]) == ("uid-1", 1, "template-1", "measured")
    assert (two["workers"], type(two["workers"]), two["observed_at"].tzinfo) == (2, int, UTC)
    assert one["throughput"] == pytest.approx(1000.0 / 3 + 4)
    assert one["accelerator"] is None


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_what_was_measured_here_is_history_elsewhere_and_stays_itself(engine, home, ending):
    measure(engine)
    import_history(engine, write_csv(home / "past.csv", many(3)))
    before = rows_of(engine)
    assert len(before) == 5
    path = write(engine, home / f"all{ending}")
    again = import_history(engine, path)
    assert (again.added, again.already, again.measured) == (0, 3, 2)

    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE job SET uid = 'another'"))  # as in a store that never saw the job
    forget(engine)
    assert import_history(engine, path).added == 5
    assert rows_of(engine, origin="imported") == before


def test_a_job_that_was_imported_before_it_was_measured_comes_once_as_each(engine, home):
    elsewhere = [{**row, "job": "uid-1"} for row in many(2)]
    import_history(engine, write_csv(home / "past.csv", elsewhere))
    measure(engine)
    rows = rows_of(engine)
    assert [row[ORIGIN] for row in rows] == ["past.csv", "past.csv", "measured", "measured"]
    assert [row[ORIGIN] for row in rows_of(engine, origin="measured")] == ["measured", "measured"]


def test_filters(engine, home):
    measure(engine)
    measure(engine, "uid-2", "other")
    past = [{**row, "observed_at": datetime(2026, 2, number + 1, tzinfo=UTC)} for number, row in enumerate(many(3))]
    import_history(engine, write_csv(home / "past.csv", [*past, {**many(1)[0], "job": "b", "observed_at": None}]))

    def jobs(**wanted):
        return sorted(row["job"] for row in rows_of(engine, **wanted))

    assert jobs(jobs=("job-0",)) == ["job-0"] * 3
    assert jobs(jobs=("digits", "b")) == ["b", "uid-1", "uid-1"]
    assert jobs(jobs=("uid-2",), origin="measured") == ["uid-2", "uid-2"]
    assert jobs(jobs=("uid-2",), origin="imported") == []
    assert jobs(origin="imported") == ["b", "job-0", "job-0", "job-0"]
    assert jobs(origin="measured") == ["uid-1", "uid-1", "uid-2", "uid-2"]
    assert jobs(since=datetime(2026, 2, 2, tzinfo=UTC)) == ["job-0", "job-0"]
    assert jobs(since=datetime.fromtimestamp(NOW - 1000 + 20, UTC), origin="measured") == ["uid-1", "uid-2"]
    with pytest.raises(NotFound, match="job 'dig': the store has no measurement of it"):
        jobs(jobs=("digits", "dig"))


def test_many_rows_come_in_order_and_row_groups_stay_small(engine, home):
    import_history(engine, write_csv(home / "many.csv", many(25_000)))
    path = write(engine, home / "many.parquet")
    table = pq.read_table(path)
    assert table.column("throughput").to_pylist() == [100.0 + number for number in range(25_000)]
    assert pq.ParquetFile(path).num_row_groups == 3
    assert table.schema.names == [*NAMES, ORIGIN]


def test_a_file_is_there_whole_or_not_at_all(engine, home):
    path = home / "history.csv"
    with pytest.raises(NotFound):
        write(engine, path, Wanted(jobs=("nobody",)))
    with pytest.raises(KeyError), writing_history(path) as writer:
        writer.write([{"job": {}[0]}])
    assert list(home.glob("*history*")) == []
    write(engine, path)
    assert path.read_text() == ",".join(BY_NAME) + "\n"
    with pytest.raises(InvalidInput, match=r"history\.csv: it is there already; .* --force"), writing_history(path):
        pass
    with (
        pytest.raises(InvalidInput, match=r"name one that ends in \.csv"),
        writing_history(home / "h.json"),
    ):
        pass
    with pytest.raises(Unusable, match="can't be written"), writing_history(home / "none" / "history.csv"):
        pass


@pytest.mark.parametrize("ending", [".csv.gz", ".parquet"])
def test_a_kill_leaves_the_old_file(engine, store, home, ending):
    path = write(engine, home / f"history{ending}")
    before = path.read_bytes()
    import_history(engine, write_csv(home / "past.csv", many(3)))
    environment = {**os.environ, "CONVOY_DATABASE_URL": store}
    command = ("brain", "export", path, "--force")
    assert convoy(*command, env={**environment, "CONVOY_CRASH_AT": "files.before-rename"}).status == -signal.SIGKILL
    assert path.read_bytes() == before
    assert convoy(*command, env=environment).status == 0
    forget(engine)
    assert import_history(engine, path).added == 3
