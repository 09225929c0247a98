"""From a file of history to a sink.

Rows are read, checked and put there a few thousand at a time, so a file may be larger than memory. A row is known by
the digest of its content: importing a file again, or after a kill, adds what is missing and nothing twice.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy.engine import Engine

from convoy.brain.features.columns import NAMES
from convoy.brain.ingest.history.columns import ORIGIN
from convoy.brain.ingest.history.file import HistoryFile, open_history
from convoy.brain.ingest.history.rows import Refusal, Row
from convoy.brain.ingest.history.scratch import Tally
from convoy.brain.ingest.history.sinks import Sink, Store
from convoy.brain.store.tables import IMPORTED

SHOWN = 20
"""Refused rows that are kept to be shown, where nothing else is said."""

OTHERS = "(others)"
_MOST_ORIGINS = 100
_CHUNK = 5000
_CONTENT = json.JSONEncoder(separators=(",", ":"), default=datetime.isoformat)
"""What a digest is of. Stores hold digests: a change here, or a new column, makes rows that are there look new."""


@dataclass(slots=True)
class Refused:
    """The rows that can't be taken.

    Attributes:
        most: how many refusals are kept to be shown.
        rows: how many rows they are, by reason too.
        total: refusals; one may be of several rows that can't be read.
        shown: the first of them.
    """

    most: int = SHOWN
    rows: int = 0
    total: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    shown: list[Refusal] = field(default_factory=list)

    def add(self, refusal: Refusal) -> None:
        """Count one more."""
        self.rows += refusal.rows
        self.total += 1
        self.reasons[refusal.reason] += refusal.rows
        if len(self.shown) < self.most:
            self.shown.append(refusal)


@dataclass(slots=True)
class Imported:
    """What became of a file, as far as it was read.

    Attributes:
        file: its name.
        added: rows that were stored, or would be.
        already: rows that were there.
        measured: rows left out, since the store measured their jobs itself.
        refused: rows that can't be taken.
        jobs: different jobs among the good rows.
        since, until: when the good rows were measured, as far as they say.
        untimed: good rows that don't say.
        origins: good rows by where they were measured; beyond a hundred places under ``OTHERS``.
        columns: that the file has.
        empty: those of its columns that no row has a value in, good or not.
    """

    file: str
    refused: Refused
    columns: tuple[str, ...]
    empty: set[str]
    added: int = 0
    already: int = 0
    measured: int = 0
    jobs: int = 0
    since: datetime | None = None
    until: datetime | None = None
    untimed: int = 0
    origins: Counter[str] = field(default_factory=Counter)

    @property
    def good(self) -> int:
        """Rows that may be stored."""
        return self.added + self.already + self.measured

    @property
    def rows(self) -> int:
        """Rows that were read."""
        return self.good + self.refused.rows

    def describe(self, rows: Sequence[Row]) -> None:
        """Take note of good rows."""
        for row in rows:
            source = row["source"]
            room = source in self.origins or len(self.origins) < _MOST_ORIGINS
            self.origins[source if room else OTHERS] += 1
        moments = [row["observed_at"] for row in rows if row.get("observed_at") is not None]
        self.untimed += len(rows) - len(moments)
        if moments:
            self.since = min(moments) if self.since is None else min(self.since, *moments)
            self.until = max(moments) if self.until is None else max(self.until, *moments)


def import_history(engine: Engine, path: Path, origin: str = IMPORTED) -> Imported:
    """Store a file's rows; those that are there already stay as they are.

    Args:
        engine: of the store.
        path: the file.
        origin: what the rows are marked as.

    Raises:
        InvalidInput: it can't be read at all: no such file, of another format, a column unknown or missing.
        Unavailable: the database can't be reached now; importing again adds what is missing.
    """
    with open_history(path) as file:
        return take(file, Store(engine, origin, datetime.now(UTC)))


def take(
    file: HistoryFile, sink: Sink, *, most_shown: int = SHOWN, told: Callable[[Imported], None] | None = None
) -> Imported:
    """Read a file to its end and put its good rows where ``sink`` says.

    Args:
        file: just opened.
        sink: takes the rows.
        most_shown: refused rows to keep.
        told: called after each few thousand rows.

    Raises:
        Unavailable: the database can't be reached now.
        Unusable: the folder for temporary files is full.
    """
    names = tuple(column.name for column in file.columns)
    outcome = Imported(file.name, Refused(most_shown), names, set(names))
    with Tally() as contents, Tally() as jobs:
        for chunk in _chunks(file.rows()):
            rows = []
            for row in chunk:
                if isinstance(row, Refusal):
                    outcome.refused.add(row)
                else:
                    rows.append(row)
            rows = _known(rows, contents, file.name)
            fate = sink.put(rows)
            outcome.added += fate.added
            outcome.already += fate.already
            outcome.measured += fate.measured
            outcome.describe(rows)
            outcome.empty = file.empty()
            jobs.count(hashlib.sha256(row["job"].encode()).digest() for row in rows)
            if told is not None:
                told(outcome)
        outcome.jobs = len(jobs)
    return outcome


def _chunks(rows: Iterator[Row | Refusal]) -> Iterator[list[Row | Refusal]]:
    while chunk := list(itertools.islice(rows, _CHUNK)):
        yield chunk


def _known(rows: Sequence[Row], contents: Tally, file: str) -> list[Row]:
    """Return the rows with their digest and their source.

    The same measurement twice in one file is two; the same file twice is one.
    """
    texts = [_CONTENT.encode([row.get(name) for name in NAMES]) for row in rows]
    times = contents.count(hashlib.sha256(text.encode()).digest() for text in texts)
    known = []
    for row, text, number in zip(rows, texts, times, strict=True):
        source = row.pop(ORIGIN, None) or file
        known.append({**row, "digest": hashlib.sha256(f"{number}:{text}".encode()).hexdigest(), "source": source})
    return known
