"""Times in which a job isn't to be changed: ``Mon-Fri 08:00-18:00, 2026-12-24T00:00Z/2027-01-02T00:00Z``.

All are UTC. Entries are separated by commas. One is a span of time between two moments, with a slash, or one that
comes again: days (``Mon``, ``Fri-Mon``; none: every day) and hours, from one to another, past midnight where the
other is earlier.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_AGAIN = re.compile(r"^(?:([a-z]{3})(?:-([a-z]{3}))? )?(\d\d):(\d\d)-(\d\d):(\d\d)$")
_DAY, _WEEK = timedelta(days=1), timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Span:
    """From one moment to another, the latter not included."""

    begin: datetime
    end: datetime

    def until(self, now: datetime) -> datetime | None:
        """Return when it ends; None where it isn't now."""
        return self.end if self.begin <= now < self.end else None


@dataclass(frozen=True, slots=True)
class Again:
    """Each week on some days, from a time of the day on, for so long."""

    days: frozenset[int]
    begin: timedelta
    lasts: timedelta

    def until(self, now: datetime) -> datetime | None:
        """Return when it ends; None where it isn't now."""
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        for back in (0, 1):  # it may have begun yesterday
            begin = midnight - timedelta(days=back) + self.begin
            if (midnight.weekday() - back) % 7 in self.days and begin <= now < begin + self.lasts:
                return begin + self.lasts
        return None


def windows(text: str) -> tuple[Span | Again, ...]:
    """Return the windows that a text names.

    Raises:
        ValueError: an entry is neither; the message names it.
    """
    entries = [entry.strip() for entry in text.split(",")]
    return tuple(_span(entry) if "/" in entry else _again(entry) for entry in entries if entry)


def frozen_until(given: tuple[Span | Again, ...], now: datetime) -> datetime | None:
    """Return the end of the freeze that is now, windows that meet joined, for a week or so; None: there is none."""
    until = now
    while until - now < _WEEK:
        later = max((end for one in given if (end := one.until(until)) is not None), default=None)
        if later is None:
            break
        until = later
    return until if until > now else None


def _span(entry: str) -> Span:
    try:
        begin, end = (_moment(part.strip()) for part in entry.split("/"))
    except ValueError:
        raise ValueError(
            f"{entry!r} is no span of time: expected two moments, such as 2026-12-24T00:00Z/2027-01-02T00:00Z"
        ) from None
    if begin >= end:
        raise ValueError(f"{entry!r} ends before it begins")
    return Span(begin, end)


def _moment(text: str) -> datetime:
    found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _again(entry: str) -> Again:
    found = _AGAIN.match(entry.lower())
    hours = [int(part) for part in found.groups()[2:]] if found else []
    begin, end = (timedelta(hours=hours[at], minutes=hours[at + 1]) if hours else timedelta() for at in (0, 2))
    good = found is not None and max(hours[1::2]) < 60 and begin < _DAY and end <= _DAY
    first, last = (found.group(1), found.group(2) or found.group(1)) if found else (None, None)
    if not good or any(day is not None and day not in DAYS for day in (first, last)):
        raise ValueError(f"{entry!r} is no window: expected days and hours (UTC), such as Mon-Fri 08:00-18:00")
    lasts = end - begin if end > begin else end - begin + _DAY
    return Again(_days(first, last), begin, lasts)


def _days(first: str | None, last: str | None) -> frozenset[int]:
    if first is None or last is None:
        return frozenset(range(7))
    begin, end = DAYS.index(first), DAYS.index(last)
    return frozenset((begin + step) % 7 for step in range((end - begin) % 7 + 1))
