"""What a row of history must be to be stored. Pure: a row, or a fault that says what was expected and what came.

A row is the same whether it was text in a CSV file or typed in a Parquet file: numbers are float or int, moments are
aware datetimes in UTC, labels have no space at their ends, and what isn't known is None.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Any

from convoy.brain.features.columns import Column
from convoy.brain.ingest.history.columns import BY_NAME

Row = dict[str, Any]

LONGEST_LABEL = 255
EARLIEST, LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
"""A moment outside of them is a number that was taken for one."""

_FEW_LABELS = 1024
"""Labels of a column that are remembered: they come again and again."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Fault(Exception):
    """A row can't be taken. The message says why; ``reason`` is one of few, to be counted by."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Refusal:
    """A row that can't be taken, or ``rows`` of them that can't be read: where, and why."""

    place: str
    reason: str
    sentence: str
    rows: int = 1

    @classmethod
    def of(cls, place: str, fault: Fault) -> Refusal:
        """Return the refusal of the row at a place."""
        return cls(place, fault.reason, str(fault))

    def __str__(self) -> str:
        return f"{self.place}: {self.sentence}"


class RowCheck:
    """Checks the rows of a file with these columns."""

    def __init__(self, columns: Sequence[Column], *, text: bool) -> None:
        """Take the columns in the file's order.

        Args:
            columns: one a value.
            text: values are strings. Else labels are strings (bytes where they can't be decoded), numbers and counts
                float or int, moments whole microseconds since 1970.
        """
        parsers = _FROM_TEXT if text else _FROM_TYPED
        self._fields = [(column.name, _parser(column, parsers[column.kind])) for column in columns]
        self._places = {column.name: place for place, column in enumerate(columns)}  # of those without a value so far

    @property
    def empty(self) -> set[str]:
        """The columns without a value in any row so far, good or not."""
        return set(self._places)

    def row(self, values: Sequence[Any]) -> Row:
        """Return the row of these values, one a column; None and "" are "not known".

        Raises:
            Fault: one of them can't be right, or one is missing.
        """
        if self._places:
            self._places = {name: place for name, place in self._places.items() if _nothing(values[place])}
        row: Row = {}
        for (name, parse), value in zip(self._fields, values, strict=True):
            row[name] = None if value is None or value == "" else parse(value)
        row["status"] = row.get("status") or "ok"
        for name in ("job", "workers"):
            if row[name] is None:
                raise Fault(f"{name}: Empty", f"{name} is empty ({BY_NAME[name].meaning})")
        if row["status"] == "ok" and row["throughput"] is None:
            raise Fault("throughput: Empty", "throughput is empty, and status is ok")
        return row


def _nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str | bytes) and not value.strip())


def _parser(column: Column, parse: Callable[[Column, Any], Any]) -> Callable[[Any], Any]:
    parser = partial(parse, column)
    return lru_cache(_FEW_LABELS)(parser) if column.kind == "label" else parser


def _number_from_text(column: Column, text: str) -> float | int | None:
    try:
        number = float(text)
    except ValueError:
        raise _not_a_number(column, text) from None
    if not math.isfinite(number):
        raise Fault(
            f"{column.name}: NotFinite",
            f"{column.name} is {text}: expected a finite number; leave it empty where it isn't known",
        )
    if "_" in text or not text.isascii():  # what Python alone takes for a number, such as 1_000
        raise _not_a_number(column, text)
    return _bounded(column, number, text)


def _not_a_number(column: Column, text: str) -> Fault:
    return Fault(
        f"{column.name}: NotANumber", f"{column.name} is {text[:40]!r}: expected a plain number, {column.meaning}"
    )


def _number(column: Column, value: float) -> float | int:
    number = float(value)
    if not math.isfinite(number):
        raise Fault(
            f"{column.name}: NotFinite",
            f"{column.name} is {number}: expected a finite number; leave it null where it isn't known",
        )
    return _bounded(column, number, f"{value!r}")


def _bounded(column: Column, number: float, shown: str) -> float | int:
    if not column.least <= number <= column.most and not (number == 0 and column.zero):
        raise Fault(
            f"{column.name}: OutOfBounds",
            f"{column.name} is {shown}: expected {column.meaning} between {column.least:g} and {column.most:g}; is "
            "the unit right?",
        )
    if column.kind == "count":
        if number != int(number):
            raise Fault(
                f"{column.name}: NotWhole", f"{column.name} is {shown}: expected a whole number, {column.meaning}"
            )
        return int(number)
    return number + 0.0  # -0.0 is 0.0: databases differ in whether they keep the sign


def _label(column: Column, text: str) -> str | None:
    text = text.strip()
    if not text:
        return None
    if len(text) > LONGEST_LABEL:
        raise Fault(
            f"{column.name}: TooLong",
            f"{column.name} has {len(text)} characters: expected at most {LONGEST_LABEL}",
        )
    if _CONTROL.search(text):
        raise Fault(
            f"{column.name}: ControlCharacter", f"{column.name} is {text[:40]!r}: expected no control characters"
        )
    if column.choices and text not in column.choices:
        raise Fault(
            f"{column.name}: UnknownValue",
            f"{column.name} is {text[:40]!r}: expected one of {', '.join(column.choices)}",
        )
    return text


def _decoded_label(column: Column, text: str | bytes) -> str | None:
    if isinstance(text, bytes):
        raise Fault(f"{column.name}: NotUtf8", f"{column.name} isn't UTF-8 ({text[:40]!r}); write the file in UTF-8")
    return _label(column, text)


def _moment_from_text(column: Column, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Fault(
            f"{column.name}: NotAMoment",
            f"{column.name} is {text[:40]!r}: expected ISO 8601, as 2026-01-31T12:00:00Z",
        ) from None
    if moment.tzinfo is None:
        raise Fault(f"{column.name}: NoZone", f"{column.name} is {text!r}: expected a zone, as 2026-01-31T12:00:00Z")
    return _dated(column, moment, text)


def _moment(column: Column, microseconds: int) -> datetime:
    """Return the moment so many microseconds after 1970 began; any whole number may be given."""
    try:
        moment = _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        moment = datetime.max.replace(tzinfo=UTC)
    return _dated(column, moment, f"{microseconds / 1e6:.15g} s since 1970")


def _dated(column: Column, moment: datetime, shown: str) -> datetime:
    if not EARLIEST <= moment < LATEST:
        raise Fault(
            f"{column.name}: OutOfBounds",
            f"{column.name} is {shown}: expected a moment from {EARLIEST.year} on, before {LATEST.year}; is the unit "
            "right?",
        )
    return moment.astimezone(UTC)


def _stripped(parse: Callable[[Column, str], Any]) -> Callable[[Column, str], Any]:
    def parsed(column: Column, text: str) -> Any:
        text = text.strip()
        return parse(column, text) if text else None

    return parsed


_FROM_TEXT: dict[str, Callable[[Column, Any], Any]] = {
    "label": _label,
    "number": _stripped(_number_from_text),
    "count": _stripped(_number_from_text),
    "time": _stripped(_moment_from_text),
}
_FROM_TYPED: dict[str, Callable[[Column, Any], Any]] = {
    "label": _decoded_label,
    "number": _number,
    "count": _number,
    "time": _moment,
}
