"""Files of history as users have them: rows in CSV, in gzip, and in Parquet, each written by a library of its own."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from convoy.brain.features.columns import Column
from convoy.brain.ingest.history.columns import FILE_COLUMNS
from convoy.brain.ingest.history.rows import EARLIEST, LATEST

Row = dict[str, Any]

TYPES = {"label": pa.string(), "number": pa.float64(), "count": pa.int64(), "time": pa.timestamp("us", tz="UTC")}


def csv_text(rows: Sequence[Row]) -> str:
    """Return the rows as CSV, with the columns of the first."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(rows[0])
    for row in rows:
        values = [row[name] for name in rows[0]]
        writer.writerow([value.isoformat() if isinstance(value, datetime) else value for value in values])
    return out.getvalue()


def write_csv(path: Path, rows: Sequence[Row]) -> Path:
    """Write the rows as CSV, in gzip if the name says so."""
    content = csv_text(rows).encode()
    path.write_bytes(gzip.compress(content) if path.name.endswith(".gz") else content)
    return path


def write_parquet(path: Path, rows: Sequence[Row], *, group: int | None = None) -> Path:
    """Write the rows as Parquet, ``group`` rows a row group."""
    types = [(column.name, TYPES[column.kind]) for column in FILE_COLUMNS if column.name in rows[0]]
    table = pa.Table.from_pylist(list(rows), schema=pa.schema(types))
    pq.write_table(table, path, row_group_size=group)
    return path


def many(count: int) -> list[Row]:
    """Return so many different rows."""
    return [
        {"job": f"job-{number // 10}", "workers": number % 10 + 1, "throughput": 100.0 + number, "model": "resnet50"}
        for number in range(count)
    ]


def value_of(column: Column) -> st.SearchStrategy[Any]:
    """Return what a column's values may be, None where they may be unknown."""
    if column.choices:
        return st.none() | st.sampled_from(column.choices)
    if column.kind == "label":
        letters = st.characters(exclude_categories=("Cs", "Cc"))
        text = st.text(letters, min_size=1, max_size=255).map(str.strip).filter(bool)
        return text if column.name == "job" else st.none() | text
    if column.kind == "time":
        moments = st.datetimes(EARLIEST.replace(tzinfo=None), LATEST.replace(tzinfo=None, year=2099))
        return st.none() | moments.map(lambda moment: moment.replace(tzinfo=EARLIEST.tzinfo))
    if column.kind == "count":
        counts = st.integers(int(column.least), int(column.most))
        return counts if column.name == "workers" else st.none() | counts
    # MariaDB has no denormal numbers worth the name, and no speed is one.
    numbers = st.floats(column.least, column.most, allow_subnormal=False)
    return st.none() | (numbers | st.just(0.0) if column.zero else numbers)


def rows() -> st.SearchStrategy[Row]:
    """Return rows that an import takes, with all of the format's columns."""
    every = st.fixed_dictionaries({column.name: value_of(column) for column in FILE_COLUMNS})
    return every.filter(lambda row: row["throughput"] is not None or row["status"] not in (None, "ok"))
