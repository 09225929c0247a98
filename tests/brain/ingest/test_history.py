import threading

import pytest
import sqlalchemy as sa

from convoy.brain.features.columns import NAMES
from convoy.brain.ingest.history import Imported, import_history, read_history
from convoy.brain.store.engine import reading
from convoy.brain.store.tables import HistoryObservation
from convoy.core.api.errors import InvalidInput

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
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_rows_are_read_with_their_types_and_empty_means_unknown(file):
    history = read_history(file("# measured on two machines\n" + HEADER + "".join(LINES)))
    assert history.refused == []
    first, second, third = history.rows
    assert (first["workers"], first["throughput"], first["source"]) == (1, 1000.5, "a laptop")
    assert second["observed_at"] == first["observed_at"]
    assert (second["worker_memory"], second["status"], second["source"]) == (None, "ok", "history.csv")
    assert (third["strategy"], third["throughput"], third["status"], third["worker_memory"]) == (None, None, "oom", 0)


def size(engine):
    with reading(engine) as connection:
        jobs = connection.execute(sa.select(HistoryObservation.job)).scalars().all()
    return len(jobs), len(set(jobs))


def test_importing_twice_adds_nothing(engine, file):
    path = file(HEADER + "".join(LINES))
    assert import_history(engine, path) == Imported(added=3, already=0, refused=[])
    assert import_history(engine, path) == Imported(added=0, already=3, refused=[])
    longer = file(HEADER + "".join([*LINES, LINES[1]]), "longer.csv")
    assert import_history(engine, longer) == Imported(added=1, already=3, refused=[])
    assert size(engine) == (4, 2)
    with reading(engine) as connection:
        assert set(connection.execute(sa.select(HistoryObservation.origin)).scalars()) == {"imported"}


def test_two_imports_at_once_add_each_row_once(engine, file):
    path = file(HEADER + "".join(LINES))
    threads = [threading.Thread(target=import_history, args=(engine, path)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert size(engine) == (3, 2)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a,mlp,allreduce,1,256,1073741824,10\n", "7 fields: expected 10"),
        ("a,mlp,gossip,1,256,,10,,,\n", "strategy is 'gossip': expected one of ps, allreduce"),
        ("a,mlp,allreduce,1,256,4,10,,,\n", "worker_memory is 4: expected allotted to each worker (bytes)"),
        ("a,mlp,allreduce,1,256,4Gi,10,,,\n", "worker_memory is '4Gi': expected a plain number"),
        ("a,mlp,allreduce,1.5,256,,10,,,\n", "workers is 1.5: expected a whole number"),
        ("a,mlp,allreduce,0,256,,10,,,\n", "workers is 0"),
        ("a,mlp,allreduce,1,256,,nan,,,\n", "throughput is nan: expected a finite number"),
        ("a,mlp,allreduce,1,256,,-1,,,\n", "throughput is -1"),
        ("a,mlp,allreduce,1,256,,0,,,\n", "throughput is 0"),
        ("a,mlp,allreduce,1,256,,,,,\n", "throughput is empty, and status is ok"),
        ("a,mlp,allreduce,1,256,,10,2026-01-31T12:00:00,,\n", "expected a zone"),
        ("a,mlp,allreduce,1,256,,10,1769860800,,\n", "expected ISO 8601"),
        (",mlp,allreduce,1,256,,10,,,\n", "job is empty"),
        ('a,"mlp,allreduce,1,256,,10,,,\n', "not a line of CSV"),
        ("a,mlp,allreduce,1,256,,10,,,x", "the file ends within this line"),
    ],
)
def test_a_bad_line_is_refused_by_its_number_and_the_rest_is_stored(engine, file, line, words):
    imported = import_history(engine, file(HEADER + LINES[0] + line))
    assert imported.added == 1
    [sentence] = imported.refused
    assert sentence.startswith("history.csv line 3: ")
    assert words in sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "job,workers,throughput,worker_memory_gb\n",
            "unknown column 'worker_memory_gb'; did you mean worker_memory",
        ),
        ("job,workers,throughput,colour\n", "unknown column 'colour'; known are job, template"),
        ("job,workers\n", "column 'throughput' is missing (mean speed, all workers together (samples/s))"),
        ("job,workers,throughput,job\n", "column 'job' stands twice"),
        ("", "empty"),
        ("# only remarks\n", "empty"),
        (b"job,workers,throughput\na,1,10\nb\xe9,1,10\n", "line 3: not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_at_all_is_refused_whole(file, text, words):
    with pytest.raises(InvalidInput) as caught:
        read_history(file(text))
    assert words in str(caught.value)
    assert "history.csv" in str(caught.value)


def test_a_file_that_is_not_there_is_named(home):
    with pytest.raises(InvalidInput, match="No such file"):
        read_history(home / "none.csv")


def test_every_column_of_the_frames_can_be_imported(engine, file):
    columns = set(HistoryObservation.__table__.columns.keys())
    assert set(NAMES) <= columns
    assert columns - set(NAMES) == {"id", "digest", "origin", "source", "imported_at"}
