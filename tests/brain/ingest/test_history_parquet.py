"""History in Parquet: the types that are taken, rows that are refused by their number, damaged files."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from convoy.brain.ingest.history import import_history, open_history
from convoy.brain.ingest.history.rows import Refusal
from convoy.core.api.errors import InvalidInput
from support.history_files import many, write_csv, write_parquet

EXAMPLE = Path(__file__).parents[3] / "examples/history/digits.csv"
NOON = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
COLUMNS = {"job": pa.array(["a", "b"]), "workers": pa.array([1, 2]), "throughput": pa.array([10.0, 20.0])}


@pytest.fixture
def file(home):
    def write(**columns):
        pq.write_table(pa.table({**COLUMNS, **columns}), home / "history.parquet")
        return home / "history.parquet"

    return write


def read(path):
    with open_history(path) as history:
        rows = list(history.rows())
    return [row for row in rows if not isinstance(row, Refusal)], [row for row in rows if isinstance(row, Refusal)]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("job", pa.array(["a", "b"], pa.large_string())),
        ("job", pa.array(["a", "b"], pa.string_view())),
        ("job", pa.array(["a", "b"]).dictionary_encode()),
        ("job", pa.array([" a", "b "])),
        ("workers", pa.array([1.0, 2.0])),
        ("workers", pa.array([1, 2], pa.uint8())),
        ("throughput", pa.array([10, 20], pa.int32())),
        ("throughput", pa.array([10.0, 20.0], pa.float32())),
        ("throughput", pa.array(np.array([10, 20], np.float16))),
        ("model", pa.nulls(2)),
        ("origin", pa.array([None, ""])),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else value,
)
def test_types_of_every_width_are_the_same(file, name, values):
    rows, refused = read(file(**{name: values}))
    assert refused == []
    assert [(row["job"], row["workers"], row["throughput"]) for row in rows] == [("a", 1, 10.0), ("b", 2, 20.0)]
    assert [type(row["workers"]) for row in rows] == [int, int]
    assert rows[0].get("model") is rows[1].get("origin") is None


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "-03:00"])
def test_moments_of_every_unit_and_zone_are_the_same(file, unit, zone):
    rows, refused = read(
        file(observed_at=pa.array([NOON, None], pa.timestamp("us", zone)).cast(pa.timestamp(unit, zone), safe=False))
    )
    assert refused == []
    assert rows[0]["observed_at"] == (NOON.replace(microsecond=123000) if unit == "ms" else NOON)
    assert rows[0]["observed_at"].tzinfo is UTC
    assert rows[1]["observed_at"] is None


def test_what_pandas_writes_is_the_same_as_its_csv(engine, home):
    frame = pd.DataFrame(
        {
            "job": pd.Categorical(["a", "b", "b"]),
            "workers": [1, 2, 4],
            "nodes": [1.0, np.nan, 2.0],
            "throughput": [0.1 + 0.2, np.nan, 3e5],
            "status": ["ok", "oom", None],
            "observed_at": pd.to_datetime(
                ["2026-01-31T12:00:00.123456Z", None, "2026-02-01T00:00:00Z"], format="ISO8601"
            ),
        }
    )
    frame.to_parquet(home / "frame.parquet")
    frame.to_csv(home / "frame.csv", index=False)
    assert import_history(engine, home / "frame.parquet").added == 3
    again = import_history(engine, home / "frame.csv")
    assert (again.added, again.already, again.refused.rows) == (0, 3, 0)


def test_the_example_as_pandas_writes_it_is_the_same(engine, home):
    frame = pd.read_csv(EXAMPLE, parse_dates=["observed_at"])
    frame.to_parquet(home / "frame.parquet", index=False)
    assert pq.read_schema(home / "frame.parquet").field("accelerator").type == pa.float64()
    stored = import_history(engine, EXAMPLE)
    again = import_history(engine, home / "frame.parquet")
    assert (again.added, again.already, again.refused.rows) == (0, stored.added, 0)
    assert stored.added > 0


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("accelerator", pa.array([None, None], pa.float64())),
        ("accelerator", pa.array([np.nan, None])),
        ("accelerator", pa.array(np.array([np.nan, np.nan], np.float16))),
        ("accelerator", pa.array([None, None], pa.int64())),
        ("accelerator", pa.array([None, None], pa.list_(pa.string()))),
        ("nodes", pa.array([None, None], pa.string())),
        ("nodes", pa.array([np.nan, np.nan])),
        ("observed_at", pa.array([None, None], pa.timestamp("ns"))),
        ("observed_at", pa.array([None, None], pa.string())),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else value,
)
def test_a_column_that_holds_nothing_is_not_known_whatever_its_type(file, name, values):
    rows, refused = read(file(**{name: values}))
    assert refused == []
    assert [row[name] for row in rows] == [None, None]


def test_one_value_at_the_end_of_a_column_of_a_wrong_type_is_enough(home):
    path, count = home / "history.parquet", 5000
    table = pa.table({name: [values[0].as_py()] * count for name, values in COLUMNS.items()})
    late = pa.array([None] * (count - 1) + [1.0])
    pq.write_table(table.append_column("accelerator", late), path, row_group_size=999)
    with pytest.raises(InvalidInput, match="column 'accelerator' is double: expected text"):
        open_history(path)


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("job", pa.array([1, 2]), "column 'job' is int64: expected text (string)"),
        ("job", pa.array([b"a", b"b"]), "column 'job' is binary: expected text"),
        (
            "workers",
            pa.array(["1", "2"]),
            "column 'workers' is string: expected a number (int64 or double), processes",
        ),
        (
            "throughput",
            pa.array([True, False]),
            "column 'throughput' is bool: expected a number (double), mean speed",
        ),
        ("throughput", pa.array([[1.0], [2.0]]), "column 'throughput' is list"),
        (
            "observed_at",
            pa.array([NOON, NOON], pa.timestamp("us")),
            "is timestamp[us]: expected a timestamp with a zone",
        ),
        (
            "observed_at",
            pa.array(["2026-01-31T12:00:00Z", None]),
            "column 'observed_at' is string: expected a timestamp",
        ),
        ("worker_mem", pa.array([1, 2]), "unknown column 'worker_mem'; did you mean worker_memory"),
        (
            "__index_level_0__",
            pa.array([1, 2]),
            "that is the index of a pandas frame: write the file with index=False",
        ),
    ],
)
def test_a_column_that_cannot_be_right_is_refused_by_its_name(file, name, values, words):
    with pytest.raises(InvalidInput) as caught:
        open_history(file(**{name: values}))
    assert words in str(caught.value)


def test_a_missing_column_is_named(home):
    pq.write_table(pa.table({"job": ["a"], "workers": [1]}), home / "history.parquet")
    with pytest.raises(InvalidInput, match="column 'throughput' is missing"):
        open_history(home / "history.parquet")


@pytest.mark.parametrize(
    ("name", "values", "reason", "words"),
    [
        ("workers", pa.array([1.5, 2.0]), "workers: NotWhole", "workers is 1.5"),
        ("workers", pa.array([-1, 2]), "workers: OutOfBounds", "workers is -1"),
        ("workers", pa.array([2**62, 2]), "workers: OutOfBounds", "workers is 4611686018427387904"),
        ("workers", pa.array([None, 2]), "workers: Empty", "workers is empty"),
        ("throughput", pa.array([float("nan"), 20.0]), "throughput: NotFinite", "leave it null where it isn't known"),
        ("throughput", pa.array([float("-inf"), 20.0]), "throughput: NotFinite", "throughput is -inf"),
        ("worker_memory", pa.array([16, None]), "worker_memory: OutOfBounds", "is the unit right?"),
        ("job", pa.array([None, "b"]), "job: Empty", "job is empty"),
        ("job", pa.array(["a\nb", "b"]), "job: ControlCharacter", "job is 'a\\nb'"),
        ("job", pa.array([b"\xff", b"b"]).view(pa.string()), "job: NotUtf8", "job isn't UTF-8"),
        ("strategy", pa.array(["ring", "ps"]), "strategy: UnknownValue", "expected one of ps, allreduce"),
        ("observed_at", pa.array([2**62, None], pa.timestamp("ms", "UTC")), "observed_at: OutOfBounds", "since 1970"),
        (
            "observed_at",
            pa.array([1, None], pa.timestamp("ns", "UTC")),
            "observed_at: OutOfBounds",
            "is 0 s since 1970",
        ),
    ],
)
def test_a_bad_row_is_refused_by_its_number_and_the_rest_is_stored(engine, file, name, values, reason, words):
    imported = import_history(engine, file(**{name: values}))
    assert imported.added == 1
    [refusal] = imported.refused.shown
    assert (refusal.place, refusal.reason) == ("history.parquet row 1", reason)
    assert words in str(refusal)


def test_rows_are_numbered_across_row_groups(home):
    given = many(10_000)
    given[7654]["workers"] = 0
    rows, [refusal] = read(write_parquet(home / "history.parquet", given, group=999))
    assert [row["throughput"] for row in rows] == [row["throughput"] for row in given if row["workers"]]
    assert refusal.place == "history.parquet row 7655"


def test_a_damaged_row_group_is_refused_and_the_others_are_stored(engine, home):
    path = write_parquet(home / "history.parquet", many(3000), group=1000)
    where = pq.ParquetFile(path).metadata.row_group(1).column(2)
    content = bytearray(path.read_bytes())
    begin = where.dictionary_page_offset or where.data_page_offset
    content[begin : begin + where.total_compressed_size] = b"\xff" * where.total_compressed_size
    path.write_bytes(content)
    imported = import_history(engine, path)
    assert (imported.added, imported.refused.rows) == (2000, 1000)
    [refusal] = imported.refused.shown
    assert refusal.place == "history.parquet rows 1001 to 2000"
    assert "they can't be read" in str(refusal)


def test_a_file_without_rows_has_none(home):
    path = home / "history.parquet"
    pq.write_table(pa.table({name: values[:0] for name, values in COLUMNS.items()}), path)
    assert read(path) == ([], [])


@pytest.mark.parametrize("cut", [lambda content: content[: len(content) // 2], lambda content: content[:-1], len])
def test_what_is_no_parquet_file_is_refused_whole(home, cut):
    path = write_parquet(home / "history.parquet", many(100))
    left = cut(path.read_bytes())
    path.write_bytes(left if isinstance(left, bytes) else b"job,workers,throughput\n")
    with pytest.raises(
        InvalidInput, match=r"history\.parquet: not a Parquet file that can be read \(.+\); write it anew"
    ):
        open_history(path)


def test_a_csv_file_of_another_name_is_refused(home):
    with pytest.raises(InvalidInput, match=r"or name a CSV file \.csv"):
        open_history(write_csv(home / "a.csv", many(1)).rename(home / "a.parquet"))
