"""Histories for a Prometheus of a test's own: what exporters would have shown, scrape by scrape, in OpenMetrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable

BEGIN = 1_767_225_600
"""2026-01-01, on every grid that tests use."""


class History:
    """Samples by series.

    ``scraped`` adds a series' samples; ``text`` is what ``disposable_prometheus(history=...)`` takes.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []

    def scraped(
        self, metric: str, labels: dict[str, str], at: Iterable[float], value: Callable[[float], float]
    ) -> None:
        """Add a series, scraped at some seconds since BEGIN; ``value`` gives what it was then."""
        named = ",".join(f'{name}="{label}"' for name, label in labels.items())
        self._lines += [f"{metric}{{{named}}} {value(second)!r} {BEGIN + second}" for second in at]

    def text(self) -> str:
        """Return all of it."""
        return "\n".join([*self._lines, "# EOF", ""])


def every(seconds: int, until: int, *, since: int = 0) -> range:
    """Return the moments of scrapes, in seconds since BEGIN."""
    return range(since, until + 1, seconds)


def counting(rate: float, *, start: float = 0.0, reset_at: float | None = None) -> Callable[[float], float]:
    """Return a counter that grows by ``rate`` a second from ``start``, and begins anew at a reset."""

    def value(second: float) -> float:
        if reset_at is not None and second >= reset_at:
            return rate * (second - reset_at)
        return start + rate * second

    return value
