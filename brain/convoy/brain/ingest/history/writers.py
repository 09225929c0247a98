"""Rows of history into a file: CSV, plain or in gzip, and Parquet. What is written reads as the same rows."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from convoy.brain.ingest.history.columns import BY_NAME, FILE_COLUMNS
from convoy.brain.ingest.history.file import CSV_ENDINGS, ENDINGS, PARQUET_ENDINGS
from convoy.brain.ingest.history.rows import Row
from convoy.core.api.errors import InvalidInput
from convoy.core.process.files import replacing


class Writer(Protocol):
    """Takes rows; all columns of the format are written, whatever a row lacks is empty."""

    def write(self, rows: Sequence[Row]) -> None:
        """Write rows."""


@contextmanager
def writing_history(path: Path, *, replace: bool = False) -> Iterator[Writer]:
    """Give a writer to a file that is there, whole, at the end, in the format that its name says.

    Args:
        path: ends in one of ``ENDINGS``.
        replace: a file of that name may be there.

    Raises:
        InvalidInput: the name says no format, or a file of that name is there.
        Unusable: the folder isn't there or can't be written, or the disk is full.
    """
    name = path.name.lower()
    if not name.endswith(ENDINGS):
        raise InvalidInput(
            f"{path}: its name says no format; name one that ends in {', '.join(ENDINGS)}, or - for CSV to stdout",
            reason="HistoryUnwritable",
        )
    if path.is_dir() or (path.exists() and not replace):
        remedy = "name a file in it" if path.is_dir() else "name another one, or replace it with --force"
        raise InvalidInput(f"{path}: it is there already; {remedy}", reason="HistoryUnwritable")
    with replacing(path) as file:
        if name.endswith(PARQUET_ENDINGS):
            with closing(ParquetWriter(file)) as writer:
                yield writer
        elif name.endswith(CSV_ENDINGS[0]):
            yield CsvWriter(file)
        else:
            # Without a time, so that the same rows are the same bytes.
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as zipped:
                yield CsvWriter(cast(BinaryIO, zipped))


class CsvWriter:
    """Writes CSV in UTF-8, the header at once. Floats are written so that they read as the same floats."""

    def __init__(self, file: BinaryIO) -> None:
        """Write the header to a file, which stays open."""
        self._file = file
        self._put([[column.name for column in FILE_COLUMNS]])

    def write(self, rows: Sequence[Row]) -> None:
        """Write rows."""
        self._put([[_text(row.get(name)) for name in BY_NAME] for row in rows])

    def _put(self, lines: Sequence[Sequence[Any]]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(lines)
        self._file.write(text.getvalue().encode())


def _text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value  # csv writes a float by its repr


class ParquetWriter:
    """Writes Parquet, a row group a call. Close it: only then the file is whole."""

    def __init__(self, file: BinaryIO) -> None:
        """Begin a Parquet file in a file, which stays open."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        kinds = {
            "label": pa.string(),
            "number": pa.float64(),
            "count": pa.int64(),
            "time": pa.timestamp("us", tz="UTC"),
        }
        self._schema = pa.schema([(column.name, kinds[column.kind]) for column in FILE_COLUMNS])
        self._table = pa.Table
        self._file = pq.ParquetWriter(file, self._schema, compression="zstd")

    def write(self, rows: Sequence[Row]) -> None:
        """Write rows."""
        columns = {name: [row.get(name) for row in rows] for name in BY_NAME}
        self._file.write_table(self._table.from_pydict(columns, schema=self._schema))

    def close(self) -> None:
        """Write the end of the file."""
        self._file.close()
