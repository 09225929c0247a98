"""What a job's annotations ask of its planning: what it is for, what it can take, when it is to be left alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from convoy.core.api import freeze, names
from convoy.core.api.errors import InvalidManifest

OBJECTIVES = ("throughput", "cost", "deadline")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is asked; what isn't is empty or zero."""

    pinned: bool = False
    frozen: tuple[freeze.Span | freeze.Again, ...] = ()
    objective: str = ""
    deadline: float = 0.0
    """Moment, seconds since 1970."""
    total_samples: float = 0.0
    allowed_workers: tuple[int, ...] = ()
    max_batch: int = 0

    def frozen_until(self, now: float) -> float:
        """Return until when nothing may be changed; 0: it may now."""
        until = freeze.frozen_until(self.frozen, datetime.fromtimestamp(now, UTC))
        return until.timestamp() if until is not None else 0.0


def wishes(annotations: Mapping[str, str]) -> Wishes:
    """Return what annotations ask.

    Raises:
        InvalidManifest: one can't be read; with its path and what was expected.
    """

    def read(name: str, how: Callable[[str], T], otherwise: T) -> T:
        text = annotations.get(name, "").strip()
        if not text:
            return otherwise
        try:
            return how(text)
        except ValueError as error:
            raise InvalidManifest(f"metadata.annotations[{name}]", str(error)) from None

    nowhen: tuple[freeze.Span | freeze.Again, ...] = ()
    return Wishes(
        pinned=annotations.get(names.ANNOTATION_PIN, "").strip().lower() == "true",
        frozen=read(names.ANNOTATION_FREEZE, freeze.windows, nowhen),
        objective=read(names.ANNOTATION_OBJECTIVE, _objective, ""),
        deadline=read(names.ANNOTATION_DEADLINE, _moment, 0.0),
        total_samples=read(names.ANNOTATION_TOTAL_SAMPLES, _amount, 0.0),
        allowed_workers=read(names.ANNOTATION_ALLOWED_WORKERS, _sizes, ()),
        max_batch=read(names.ANNOTATION_MAX_BATCH, _count, 0),
    )


def readable(annotations: Mapping[str, str]) -> Wishes:
    """Return what annotations ask, those left out that can't be read: they must not stop a job that runs."""
    found: dict[str, str] = {}
    for name, text in annotations.items():
        try:
            wishes({name: text})
        except InvalidManifest:
            continue
        found[name] = text
    return wishes(found)


def _objective(text: str) -> str:
    if text not in OBJECTIVES:
        raise ValueError(f"{text!r} isn't known; use one of {', '.join(OBJECTIVES)}")
    return text


def _moment(text: str) -> float:
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(f"{text!r} is no moment: expected one such as 2026-12-24T18:00:00Z") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


def _amount(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not (math.isfinite(found) and found > 0):
        raise ValueError(f"{text!r} is no number above zero")
    return found


def _count(text: str) -> int:
    found = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
    if found < 1:
        raise ValueError(f"{text!r} is no whole number from 1 on")
    return found


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(sorted({_count(part.strip()) for part in text.split(",")}))
