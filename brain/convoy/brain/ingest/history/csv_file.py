"""History in CSV: UTF-8, with or without its mark, plain or in gzip; one line a row.

Lines that begin with ``#`` before the header are remarks, and empty lines are skipped. A value can't hold a line
break, so that a line that is cut short costs one row and no more.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, cast

from convoy.brain.features.columns import Column
from convoy.brain.ingest.history.columns import settle
from convoy.brain.ingest.history.rows import Fault, Refusal, Row, RowCheck
from convoy.core.api.errors import InvalidInput

LONGEST_LINE = 2**20
_BROKEN = (EOFError, OSError, zlib.error)
"""What reading a file raises that is cut short or damaged within its gzip."""

_OTHER_FORMATS = {
    b"PAR1": "it is a Parquet file; name it .parquet",
    b"\x1f\x8b": "it is compressed by gzip; name it .csv.gz",
    b"PK\x03\x04": "it is a workbook or a zip archive; save it as CSV",
    codecs.BOM_UTF16_LE: "it is in UTF-16; write it in UTF-8",
    codecs.BOM_UTF16_BE: "it is in UTF-16; write it in UTF-8",
}


class CsvHistory:
    """A file of history in CSV, opened, its header read. A context manager; its rows can be read once."""

    def __init__(self, path: Path, name: str) -> None:
        """Open the file and read its header; ``name`` is what its rows' places begin with.

        Raises:
            InvalidInput: it can't be read, is empty, isn't CSV in UTF-8, or has a column that it may not have.
        """
        self.name = name
        self._raw: BinaryIO = open(path, "rb")  # noqa: SIM115 - closed by close()
        zipped = path.name.lower().endswith(".gz")
        self._lines = cast(BinaryIO, gzip.GzipFile(fileobj=self._raw)) if zipped else self._raw
        self._number = 0
        try:
            self.size = path.stat().st_size
            self.columns = self._header(path)
            self._check = RowCheck(self.columns, text=True)
        except _BROKEN as error:
            self.close()
            raise _unreadable(path, f"{_said(error)}; write the file anew") from None
        except InvalidInput:
            self.close()
            raise

    def position(self) -> int:
        """Return how many of the file's ``size`` bytes were read."""
        return self._raw.tell()

    def empty(self) -> set[str]:
        """Return the columns without a value in any row that was read so far, good or not."""
        return self._check.empty

    def rows(self) -> Iterator[Row | Refusal]:
        """Give the rows one by one, and a refusal in the place of each that can't be taken."""
        while True:
            try:
                line = self._line()
                if not line:
                    return
                if line.strip():
                    yield self._check.row(self._fields(line))
            except Fault as fault:
                yield Refusal.of(f"{self.name} line {self._number}", fault)
            except _BROKEN as error:
                place = f"{self.name} after line {self._number}"
                yield Refusal(place, "Unreadable", f"the rest can't be read: {_said(error)}")
                return

    def close(self) -> None:
        """Close the file."""
        self._lines.close()
        self._raw.close()

    def __enter__(self) -> CsvHistory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _line(self) -> bytes:
        """Return the next line with its end; empty where there is none."""
        line = self._lines.readline(LONGEST_LINE)
        if not line:
            return line
        self._number += 1
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = self._lines.readline(LONGEST_LINE)
            raise Fault("TooLong", f"the line is longer than {LONGEST_LINE} bytes; is it CSV?")
        return line

    def _fields(self, line: bytes) -> list[str]:
        try:
            fields = next(csv.reader([line.decode()], strict=True))
        except UnicodeDecodeError as error:
            raise Fault("NotUtf8", f"not UTF-8 (byte {line[error.start]:#04x}); write the file in UTF-8") from None
        except csv.Error as error:
            raise Fault("NotCsv", f"not a line of CSV: {error}; a value can't hold a line break") from None
        if len(fields) != len(self.columns):
            raise Fault(
                "WrongFieldCount",
                f"{len(fields)} fields: expected {len(self.columns)}, as the header has; is the line cut short?",
            )
        if not line.endswith(b"\n"):
            raise Fault("CutShort", "the file ends within this line; is it cut short? End it with a newline")
        return fields

    def _header(self, path: Path) -> tuple[Column, ...]:
        try:
            line = self._line()
            for magic, what in _OTHER_FORMATS.items():
                if line.startswith(magic):
                    raise _unreadable(path, what)
            line = line.removeprefix(codecs.BOM_UTF8)
            while line.startswith(b"#") or (line and not line.strip()):
                line = self._line()
            if not line:
                raise _unreadable(path, "empty; expected a header line and rows")
            if b"\r" in line.rstrip(b"\r\n"):
                raise Fault("NotCsv", "lines end in CR alone; end them with LF, or CR and LF")
            names = next(csv.reader([line.decode()], strict=True))
        except UnicodeDecodeError as error:
            raise self._no_header(
                path, f"not UTF-8 (byte {line[error.start]:#04x}); write the file in UTF-8"
            ) from None
        except (csv.Error, Fault) as error:
            raise self._no_header(path, str(error)) from None
        return settle(f"history {path} line {self._number}", [name.strip() for name in names])

    def _no_header(self, path: Path, what: str) -> InvalidInput:
        return InvalidInput(f"history {path} line {self._number}: {what}", reason="HistoryUnreadable")


def _unreadable(path: Path, what: str) -> InvalidInput:
    return InvalidInput(f"history {path}: {what}", reason="HistoryUnreadable")


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
