"""The window that a run of the batch is for: of a grid that all who run it share. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from convoy.core.api.errors import InvalidInput

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SHORTEST, LONGEST = timedelta(seconds=1), timedelta(days=366)


@dataclass(frozen=True, slots=True)
class Window:
    """From ``begin`` until just before ``end``, UTC."""

    begin: datetime
    end: datetime

    @property
    def shown(self) -> str:
        """Return it in words."""
        form = "%Y-%m-%d %H:%M" if self.begin.second == self.end.second == 0 else "%Y-%m-%d %H:%M:%S"
        return f"{self.begin:{form}} to {self.end:{form}} UTC"

    @property
    def next_end(self) -> datetime:
        """Return when the next window of the grid is over."""
        return self.end + (self.end - self.begin)


def last_window(now: datetime, length: timedelta) -> Window:
    """Return the last window of that length that is over; windows of a length lie end to end since 1970.

    Raises:
        InvalidInput: the length isn't between a second and a year, or is no whole number of seconds.
    """
    if not SHORTEST <= length <= LONGEST or length.microseconds:
        raise InvalidInput(
            f"a window of {length.total_seconds():g} s: expected whole seconds, from 1 s to 366 days",
            reason="WindowInvalid",
        )
    end = now.astimezone(UTC) - (now - _EPOCH) % length
    return Window(end - length, end)
