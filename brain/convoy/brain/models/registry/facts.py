"""What a model file says of its model: what it was fitted to, when, by which code, and how good it is."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pandas as pd

from convoy.brain.models.registry.backtest import Contest
from convoy.core.api.errors import CorruptState, InvalidInput

_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MOST_COLUMNS = 1000


@dataclass(frozen=True, slots=True)
class Schema:
    """Names and types of the columns that a model was fitted to: ``(("workers", "count"), ...)``."""

    columns: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, columns: Iterable[tuple[str, str]]) -> Schema:
        """Return the schema of such columns."""
        return cls(tuple((str(name), str(kind)) for name, kind in columns))

    @property
    def hash(self) -> str:
        """Return SHA-256 of names and types, whatever their order: models go by the name."""
        text = json.dumps(sorted(self.columns), separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def frame_digest(frame: pd.DataFrame) -> str:
    """Return SHA-256 of a frame's columns and rows, whatever the rows' order."""
    rows = pd.util.hash_pandas_object(frame, index=False).sort_values().to_numpy()
    names = json.dumps([str(name) for name in frame.columns]).encode()
    return hashlib.sha256(names + rows.tobytes()).hexdigest()


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a fitted model without restoring it.

    Attributes:
        name: throughput | load | memory | startup | demand.
        code_version: of Convoy, that fitted it.
        schema: of the columns that it was fitted to.
        created_at: when it was fitted (UTC).
        trained_from, trained_until: first and last moment of what it was fitted to; None: the rows say none.
        rows: that it was fitted to.
        jobs: they came from.
        fitted_to: SHA-256 of those rows.
        seconds: that the fit took.
        contest: its back-test; None: there was none.

    Raises:
        InvalidInput: a value that can't be, named.
    """

    name: str
    code_version: str
    schema: Schema
    created_at: datetime
    trained_from: datetime | None
    trained_until: datetime | None
    rows: int
    jobs: int
    fitted_to: str
    seconds: float
    contest: Contest | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise _wrong("name", self.name, "lower-case letters, such as throughput")
        if not self.code_version or len(self.code_version) > 64:
            raise _wrong("code_version", self.code_version, "a version of at most 64 letters")
        if not 0 < len(self.schema.columns) <= _MOST_COLUMNS:
            raise _wrong("schema", len(self.schema.columns), f"1 to {_MOST_COLUMNS} columns")
        if not _DIGEST.fullmatch(self.fitted_to):
            raise _wrong("fitted_to", self.fitted_to, "64 hexadecimal digits")
        for field in ("rows", "jobs", "seconds"):
            if not 0 <= getattr(self, field) < 2**53:
                raise _wrong(field, getattr(self, field), "0 or more")
        for field in ("created_at", "trained_from", "trained_until"):
            moment = getattr(self, field)
            if moment is not None and moment.utcoffset() != timedelta(0):
                raise _wrong(field, moment, "a moment in UTC")
        if self.trained_from and self.trained_until and self.trained_from > self.trained_until:
            raise _wrong("trained_from", self.trained_from, f"no later than trained_until ({self.trained_until})")

    def document(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return {
            "name": self.name,
            "code_version": self.code_version,
            "schema": [list(column) for column in self.schema.columns],
            "created_at": self.created_at.isoformat(),
            "trained_from": _text(self.trained_from),
            "trained_until": _text(self.trained_until),
            "rows": self.rows,
            "jobs": self.jobs,
            "fitted_to": self.fitted_to,
            "seconds": self.seconds,
            "contest": None if self.contest is None else self.contest.document(),
        }

    @classmethod
    def read(cls, document: Any) -> Facts:
        """Return what ``document`` gave.

        Raises:
            CorruptState: it didn't.
        """
        try:
            return cls(
                name=str(document["name"]),
                code_version=str(document["code_version"]),
                schema=Schema.of((name, kind) for name, kind in document["schema"]),
                created_at=datetime.fromisoformat(document["created_at"]),
                trained_from=_moment(document["trained_from"]),
                trained_until=_moment(document["trained_until"]),
                rows=int(document["rows"]),
                jobs=int(document["jobs"]),
                fitted_to=str(document["fitted_to"]),
                seconds=float(document["seconds"]),
                contest=None if document["contest"] is None else Contest.read(document["contest"]),
            )
        except (InvalidInput, KeyError, TypeError, ValueError) as error:
            raise CorruptState(f"facts: not readable: {error!r}", reason="ModelFileCorrupt") from None


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _wrong(field: str, value: object, expected: str) -> InvalidInput:
    return InvalidInput(f"facts of a model: {field} is {value!r}: expected {expected}", reason="ModelFactsInvalid")
