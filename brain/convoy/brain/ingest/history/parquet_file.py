"""History in Parquet, read a row group and a few thousand rows at a time.

Labels are text (dictionaries too, as pandas writes categories), numbers and counts are numbers of any width, moments
are timestamps with a zone. A column of nulls and NaN alone isn't known, whatever its type: pandas takes an empty
column for numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from convoy.brain.features.columns import Column
from convoy.brain.ingest.history.columns import settle
from convoy.brain.ingest.history.rows import Fault, Refusal, Row, RowCheck
from convoy.core.api.errors import InvalidInput

_BATCH = 2048
_BUFFER = 2**20
_DAMAGED = (pa.ArrowException, OSError, ValueError)
"""What pyarrow raises where a file's pages can't be read."""

_TICKS = {"s": (1_000_000, 1), "ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}
"""Microseconds of a timestamp's unit, as a fraction."""

_EXPECTED = {
    "label": "text (string)",
    "number": "a number (double)",
    "count": "a number (int64 or double)",
    "time": "a timestamp with a zone (timestamp[us, tz=UTC])",
}


class ParquetHistory:
    """A file of history in Parquet, opened, its schema checked. A context manager; its rows can be read once."""

    def __init__(self, path: Path, name: str) -> None:
        """Open the file and check its schema; ``name`` is what its rows' places begin with.

        Raises:
            InvalidInput: it isn't a Parquet file, or has a column that it may not have, or one of a wrong type.
        """
        self.name = name
        try:
            self._file = pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER)
        except _DAMAGED as error:
            raise _unreadable(path, error) from None
        self._read = 0
        self._unknown: set[str] = set()
        self.size: int = self._file.metadata.num_rows
        try:
            self.columns = self._settled(path)
            self._check = RowCheck(self.columns, text=False)
        except InvalidInput:
            self.close()
            raise

    def position(self) -> int:
        """Return how many of the file's ``size`` rows were read."""
        return self._read

    def empty(self) -> set[str]:
        """Return the columns without a value in any row that was read so far, good or not."""
        return self._check.empty

    def rows(self) -> Iterator[Row | Refusal]:
        """Give the rows one by one, and a refusal in the place of each that can't be taken."""
        end = 0
        for group in range(self._file.num_row_groups):
            end += self._file.metadata.row_group(group).num_rows
            try:
                for batch in self._batches(group):
                    yield from self._checked(batch)
            except _DAMAGED as error:
                first, count = self._read + 1, end - self._read
                self._read = end
                place = f"{self.name} rows {first} to {end}"
                yield Refusal(place, "Unreadable", f"they can't be read: {_first_line(error)}", rows=count)

    def close(self) -> None:
        """Close the file."""
        self._file.close(force=True)

    def __enter__(self) -> ParquetHistory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _settled(self, path: Path) -> tuple[Column, ...]:
        schema = self._file.schema_arrow
        columns = settle(f"history {path}", schema.names)
        for column, kind in zip(columns, schema.types, strict=True):
            fits = _fits(column, kind)
            if fits and not pa.types.is_floating(kind):
                continue
            if self._holds_nothing(column, kind):
                self._unknown.add(column.name)
            elif not fits:
                raise InvalidInput(
                    f"history {path}: column {column.name!r} is {kind}: expected {_EXPECTED[column.kind]}, "
                    f"{column.meaning}; cast it",
                    reason="HistoryColumnType",
                )
        return columns

    def _holds_nothing(self, column: Column, kind: Any) -> bool:
        """Whether a column is of nulls and NaN alone; it is read as far as its first value."""
        if pa.types.is_null(kind):
            return True
        batches = self._file.iter_batches(batch_size=_BATCH, columns=[column.name], use_threads=False)
        try:
            return all(_all_null(batch.column(0)) for batch in batches)
        except _DAMAGED:
            return False  # the rows are refused when they are read

    def _batches(self, group: int) -> Iterator[Any]:
        names = [column.name for column in self.columns]
        return iter(self._file.iter_batches(batch_size=_BATCH, row_groups=[group], columns=names, use_threads=False))

    def _checked(self, batch: Any) -> Iterator[Row | Refusal]:
        values = [
            [None] * batch.num_rows if column.name in self._unknown else _values(column, batch.column(place))
            for place, column in enumerate(self.columns)
        ]
        for row in zip(*values, strict=True):
            self._read += 1
            try:
                yield self._check.row(row)
            except Fault as fault:
                yield Refusal.of(f"{self.name} row {self._read}", fault)


def _all_null(values: Any) -> bool:
    if pa.types.is_floating(values.type):
        values = values.cast(pa.float64())
    return bool(values.is_null(nan_is_null=True).true_count == len(values))


def _fits(column: Column, kind: Any) -> bool:
    types = pa.types
    if column.kind == "label":
        kind = kind.value_type if types.is_dictionary(kind) else kind
        return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))
    if column.kind == "time":
        return bool(types.is_timestamp(kind) and kind.tz is not None)
    return bool(types.is_integer(kind) or types.is_floating(kind))


def _values(column: Column, values: Any) -> list[Any]:
    """Return a column's values as ``RowCheck`` takes them."""
    if column.kind == "time":
        times, by = _TICKS[values.type.unit]
        return [None if tick is None else tick * times // by for tick in values.cast(pa.int64()).to_pylist()]
    try:
        return list(values.to_pylist())
    except UnicodeDecodeError:
        plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
        return [_text(value) for value in plain.cast(pa.large_binary()).to_pylist()]


def _text(value: bytes | None) -> str | bytes | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return value


def _unreadable(path: Path, error: Exception) -> InvalidInput:
    return InvalidInput(
        f"history {path}: not a Parquet file that can be read ({_first_line(error)}); write it anew, or name a CSV "
        "file .csv",
        reason="HistoryUnreadable",
    )


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
