"""Reading a manifest that may hold anything: what is there and right, and a sentence for what isn't. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from convoy.core.api import quantity
from convoy.core.api.errors import InvalidQuantity
from convoy.core.api.moments import moment

T = TypeVar("T")

Row = dict[str, Any]

MESSAGE = 4000
"""Characters of a message that are kept."""

_SHOWN = 80
_MOST_FAULTS = 20
_LONGEST_FAULT = 500
_MAX_INTEGER = 2**31 - 1
_MAX_BIGINT = 2**63 - 1
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_NEVER = datetime(1971, 1, 1, tzinfo=UTC)
"""Kubernetes writes moments that never came as the year 1 or as 1970."""


class Refused(Exception):
    """An object can't be stored; the message says why."""


class Part:
    """One place of a manifest with what is below it. What isn't there reads as empty and is no fault.

    Attributes:
        path: where it is, such as ``spec.containers[0].image``.
        faults: a sentence for each value that was left out or cut; all parts of a manifest share them.
    """

    def __init__(self, value: Any, path: str = "", faults: list[str] | None = None) -> None:
        self.path = path
        self.faults: list[str] = [] if faults is None else faults
        self._value = value

    def __bool__(self) -> bool:
        """Whether anything is there."""
        return self._value is not None

    def __getitem__(self, name: str) -> Part:
        """Return what a mapping holds under the name."""
        path = f"{self.path}.{name}" if self.path else name
        return Part(self._mapping().get(name), path, self.faults)

    def __iter__(self) -> Iterator[Part]:
        """Yield what a list holds."""
        for index, value in enumerate(self._of(list, "a list") or []):
            yield Part(value, f"{self.path}[{index}]", self.faults)

    def names(self) -> list[str]:
        """Return the names of a mapping."""
        return [name for name in self._mapping() if isinstance(name, str)]

    def first(self, matches: Callable[[Part], bool]) -> Part:
        """Return the first of a list that matches; an empty part where none does."""
        return next((part for part in self if matches(part)), Part(None, f"{self.path}[]", self.faults))

    def fault(self, sentence: str) -> None:
        """Note what is wrong here; the sentence follows the path."""
        fault = clean(f"{self.path} {sentence}")[:_LONGEST_FAULT]
        if fault not in self.faults and len(self.faults) < _MOST_FAULTS:
            self.faults.append(fault)

    def text(self, longest: int = MESSAGE) -> str:
        """Return a text, cut where it is too long and without what isn't text; ``""`` where there is none."""
        return self._fitting(clean(self._of(str, "a text") or ""), longest)

    def identifier(self, longest: int) -> str:
        """Return a text by which rows are told apart.

        Raises:
            Refused: it is empty, too long, or holds what isn't text.
        """
        value = self._value
        if not isinstance(value, str) or not value:
            raise Refused(f"{self.path} is {_shown(value)}: expected a text")
        if len(value) > longest:
            raise Refused(f"{self.path} has {len(value)} characters: expected at most {longest}")
        if value != value.strip() or not value.isprintable():
            raise Refused(f"{self.path} is {_shown(value)}: expected no space at its ends and no control characters")
        return value

    def choice(self, known: Mapping[str, str]) -> str:
        """Return what stands for a text; ``""`` where there is none, or one that isn't known."""
        text = self.text(64)
        if text and text not in known:
            self.fault(f"is {_shown(text)}: expected one of {', '.join(known)}")
        return known.get(text, "")

    def raw(self) -> str:
        """Return a text as it is."""
        return self._of(str, "a text") or ""

    def words(self, longest: int) -> list[str]:
        """Return the texts of a list, as they are."""
        return [value[:longest] for part in self if (value := part._of(str, "a text")) is not None]

    def labels(self) -> dict[str, str]:
        """Return a mapping of texts."""
        return {clean(name)[:317]: self[name].text(253) for name in self.names()}

    def whole(self) -> int | None:
        """Return a whole number of 32 bits."""
        value = self._value
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _MAX_INTEGER:
            self.fault(f"is {_shown(value)}: expected a whole number of 32 bits")
            return None
        return value

    def number(self) -> float | None:
        """Return a positive number below 1e15."""
        value = self._value
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e15:
            self.fault(f"is {_shown(value)}: expected a number from 0 to 1e15")
            return None
        return float(value)

    def flag(self) -> bool:
        """Return whether true stands there."""
        return self._of(bool, "true or false") is True

    def numeral(self) -> int | None:
        """Return the whole number that a text holds, as labels do."""
        text = self.text()
        if not text:
            return None
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            self.fault(f"is {_shown(text)}: expected a whole number")
            return None
        return int(text)

    def moment(self) -> datetime | None:
        """Return a moment; None where there is none, or one that never came."""
        text = self._of(str, "a time such as 2026-01-31T12:00:00Z")
        if not text:
            return None
        try:
            found = moment(text)
            found = found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
        except (ValueError, OverflowError):
            self.fault(f"is {_shown(text)}: expected a time such as 2026-01-31T12:00:00Z")
            return None
        return found if found >= _NEVER else None

    def cores(self) -> float | None:
        """Return CPU cores of a quantity."""
        return self._quantity(quantity.cores)

    def count(self) -> int | None:
        """Return bytes or devices of a quantity."""
        found = self._quantity(quantity.count)
        return None if found is None else min(found, _MAX_BIGINT)

    def _quantity(self, read: Callable[[Any], T]) -> T | None:
        value = self._value
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            self.fault(f"is {_shown(value)}: expected a quantity such as 500m or 3Gi")
            return None
        try:
            return read(value)
        except InvalidQuantity as error:
            self.fault(f"is wrong: {error}"[:300])
            return None

    def _mapping(self) -> dict[Any, Any]:
        return self._of(dict, "a mapping") or {}

    def _of(self, kind: type[T], expected: str) -> T | None:
        if self._value is None or isinstance(self._value, kind):
            return self._value
        self.fault(f"is {_shown(self._value)}: expected {expected}")
        return None

    def _fitting(self, text: str, longest: int) -> str:
        if len(text) <= longest:
            return text
        if longest < MESSAGE:  # of a message nobody expects all of it
            self.fault(f"has {len(text)} characters: the first {longest} are kept")
        return text[: longest - 1].rstrip() + "…"


def clean(text: str) -> str:
    """Return a text as a database can hold it and people can read it."""
    return _CONTROL.sub("�", text.encode("utf-8", "replace").decode()).strip()


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return f"a {'mapping' if isinstance(value, dict) else 'list'}"
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
