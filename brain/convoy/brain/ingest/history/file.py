"""A file of history, whatever its format: its name says which."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Protocol

from convoy.brain.features.columns import Column
from convoy.brain.ingest.history.csv_file import CsvHistory
from convoy.brain.ingest.history.rows import Refusal, Row
from convoy.core.api.errors import InvalidInput

CSV_ENDINGS = (".csv", ".csv.gz")
PARQUET_ENDINGS = (".parquet", ".pq")
ENDINGS = (*CSV_ENDINGS, *PARQUET_ENDINGS)


class HistoryFile(Protocol):
    """A file that was opened and whose columns are right. A context manager; its rows can be read once."""

    name: str  # as it is shown, and stored where a row doesn't say where it was measured
    columns: tuple[Column, ...]
    size: int

    def rows(self) -> Iterator[Row | Refusal]:
        """Give the rows one by one, and a refusal in the place of each that can't be taken."""

    def position(self) -> int:
        """Return how much of ``size`` was read."""

    def empty(self) -> set[str]:
        """Return the columns without a value in any row that was read so far, good or not."""

    def close(self) -> None:
        """Close the file."""

    def __enter__(self) -> HistoryFile: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def open_history(path: Path) -> HistoryFile:
    """Open a file and see to it that its columns are right.

    Raises:
        InvalidInput: it can't be used at all: there is no such file, it is of another format, or has a column that
            it may not have.
    """
    try:
        found = path.stat()
        if not found.st_size and stat.S_ISREG(found.st_mode):
            raise _unreadable(path, "empty; expected a header line and rows")
        if not stat.S_ISREG(found.st_mode):
            raise _unreadable(path, f"not a file; name one that ends in {', '.join(ENDINGS)}")
        ending, name = path.name.lower(), printable(path.name)
        if ending.endswith(CSV_ENDINGS):
            return CsvHistory(path, name)
        if ending.endswith(PARQUET_ENDINGS):
            from convoy.brain.ingest.history.parquet_file import ParquetHistory

            return ParquetHistory(path, name)
    except OSError as error:
        raise _unreadable(path, f"{error.strerror}; name a file that can be read") from None
    raise _unreadable(path, f"its name says no format; expected one that ends in {', '.join(ENDINGS)}")


def printable(name: str) -> str:
    """Return a file's name in letters that can be shown and stored as a label."""
    return "".join(letter if letter.isprintable() else "?" for letter in name).strip()


def _unreadable(path: Path, what: str) -> InvalidInput:
    return InvalidInput(f"history {path}: {what}", reason="HistoryUnreadable")
