"""History from a file: past jobs' measurements, for a Brain that has seen none of its own yet.

A CSV file in UTF-8 with a header. Its columns are those of ``convoy.brain.features.columns``, in any order, ``job``,
``workers`` and ``throughput`` at least, and ``origin`` (free text: where the row was measured). Lines that begin with
``#`` before the header are remarks. ``observed_at`` is ISO 8601 with its zone.
"""

from __future__ import annotations

import csv
import difflib
import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from convoy.brain.features.columns import BY_NAME, NAMES, Column
from convoy.brain.ingest.check import Refused, Row
from convoy.brain.store.engine import writing
from convoy.brain.store.tables import IMPORTED, HistoryObservation
from convoy.brain.store.write import insert_new
from convoy.core.api.errors import InvalidInput

REQUIRED = ("job", "workers", "throughput")
ORIGIN = "origin"
_LONGEST = 255
_CHUNK = 5000


@dataclass(frozen=True, slots=True)
class History:
    """What a file holds: rows for history_observation, and a sentence with the line for each row that is refused."""

    rows: list[Row]
    refused: list[str]


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of a file: rows added, rows that were there already, and a sentence for each that was refused."""

    added: int
    already: int
    refused: list[str]


def read_history(path: Path) -> History:
    """Read and check a file.

    Raises:
        InvalidInput: it can't be read at all: no such file, not UTF-8, no header, a column unknown or missing.
    """
    lines = _lines(path)
    header, first = _header(path, lines)
    rows: list[Row] = []
    refused: list[str] = []
    copies: Counter[str] = Counter()
    for number, line in enumerate(lines[first:], start=first + 1):
        if not line.strip():
            continue
        try:
            row = _row(header, line, last=number == len(lines))
        except Refused as sentence:
            refused.append(f"{path.name} line {number}: {sentence}")
            continue
        source = row.pop(ORIGIN, None) or path.name
        content = json.dumps([_plain(row.get(name)) for name in NAMES], separators=(",", ":"))
        copies[content] += 1
        # The same measurement twice in one file is two; the same file twice is one.
        digest = hashlib.sha256(f"{copies[content]}:{content}".encode()).hexdigest()
        rows.append({**row, "digest": digest, "source": source[:_LONGEST]})
    return History(rows, refused)


def import_history(engine: Engine, path: Path, origin: str = IMPORTED) -> Imported:
    """Store a file's rows; those that are there already stay as they are.

    Args:
        engine: of the store.
        path: the file.
        origin: what the rows are marked as.

    Raises:
        InvalidInput: as ``read_history``.
        Unavailable: the database can't be reached now; importing again adds what is missing.
    """
    history = read_history(path)
    now = datetime.now(UTC)
    count = sa.select(sa.func.count()).select_from(HistoryObservation)
    added = 0
    for start in range(0, len(history.rows), _CHUNK):
        chunk = history.rows[start : start + _CHUNK]
        with writing(engine) as connection:
            digests = [row["digest"] for row in chunk]
            there = connection.execute(count.where(HistoryObservation.digest.in_(digests))).scalar_one()
            insert_new(
                connection, HistoryObservation, [{**row, "origin": origin, "imported_at": now} for row in chunk]
            )
        added += len(chunk) - there
    return Imported(added=added, already=len(history.rows) - added, refused=history.refused)


def _lines(path: Path) -> list[str]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"history {path}: {error.strerror}; name a CSV file", reason="HistoryUnreadable") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = content[: error.start].count(b"\n") + 1
        raise InvalidInput(
            f"history {path} line {number}: not UTF-8 (byte {content[error.start]:#04x}); write the file in UTF-8",
            reason="HistoryUnreadable",
        ) from None
    return text.splitlines(keepends=True)


def _header(path: Path, lines: list[str]) -> tuple[list[str], int]:
    """Return the column names and the number of lines up to and with the header."""
    place = next((index for index, line in enumerate(lines) if line.strip() and not line.startswith("#")), None)
    if place is None:
        raise InvalidInput(f"history {path}: empty; expected a header line and rows", reason="HistoryUnreadable")
    header = [name.strip() for name in next(csv.reader([lines[place]]))]
    known = (*NAMES, ORIGIN)
    for name in header:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
            hint = f"did you mean {near[0]} ({_meaning(near[0])})?" if near else f"known are {', '.join(known)}"
            raise InvalidInput(
                f"history {path} line {place + 1}: unknown column {name!r}; {hint}", reason="HistoryColumnUnknown"
            )
        if header.count(name) > 1:
            raise InvalidInput(
                f"history {path} line {place + 1}: column {name!r} stands twice", reason="HistoryColumnUnknown"
            )
    for name in REQUIRED:
        if name not in header:
            raise InvalidInput(
                f"history {path} line {place + 1}: column {name!r} is missing ({_meaning(name)})",
                reason="HistoryColumnMissing",
            )
    return header, place + 1


def _meaning(name: str) -> str:
    return "where the row was measured" if name == ORIGIN else BY_NAME[name].meaning


def _row(header: list[str], line: str, *, last: bool) -> Row:
    try:
        fields = next(_parsed(line))
    except csv.Error as error:
        raise Refused(f"not a line of CSV: {error}") from None
    if len(fields) != len(header):
        raise Refused(f"{len(fields)} fields: expected {len(header)}, as the header has; is the line cut short?")
    if last and not line.endswith(("\n", "\r")):
        raise Refused("the file ends within this line; is it cut short? End it with a newline")
    row: Row = {}
    for name, text in zip(header, (field.strip() for field in fields), strict=True):
        row[name] = text or None if name == ORIGIN else _value(BY_NAME[name], text)
    row["status"] = row.get("status") or "ok"
    for name in ("job", "workers"):
        if row[name] is None:
            raise Refused(f"{name} is empty ({BY_NAME[name].meaning})")
    if row["status"] == "ok" and row["throughput"] is None:
        raise Refused("throughput is empty, and status is ok")
    return row


def _parsed(line: str) -> Iterator[list[str]]:
    return csv.reader([line], strict=True)


def _value(column: Column, text: str) -> Any:
    if not text:
        return None
    if column.kind == "label":
        return _label(column, text)
    if column.kind == "time":
        return _time(column, text)
    try:
        number = float(text)
    except ValueError:
        raise Refused(f"{column.name} is {text!r}: expected a plain number, {column.meaning}") from None
    if not math.isfinite(number):
        raise Refused(f"{column.name} is {text}: expected a finite number; leave it empty where it isn't known")
    if not column.least <= number <= column.most and not (number == 0 and column.zero):
        raise Refused(
            f"{column.name} is {text}: expected {column.meaning} between {column.least:g} and {column.most:g}; is "
            "the unit right?"
        )
    if column.kind == "count":
        if number != int(number):
            raise Refused(f"{column.name} is {text}: expected a whole number, {column.meaning}")
        return int(number)
    return number


def _label(column: Column, text: str) -> str:
    if len(text) > _LONGEST:
        raise Refused(f"{column.name} has {len(text)} characters: expected at most {_LONGEST}")
    if column.choices and text not in column.choices:
        raise Refused(f"{column.name} is {text!r}: expected one of {', '.join(column.choices)}")
    return text


def _time(column: Column, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Refused(f"{column.name} is {text!r}: expected ISO 8601, as 2026-01-31T12:00:00Z") from None
    if moment.tzinfo is None:
        raise Refused(f"{column.name} is {text!r}: expected a zone, as 2026-01-31T12:00:00Z")
    return moment.astimezone(UTC)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
