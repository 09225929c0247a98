"""Durations as Prometheus writes them: ``30s``, ``5m``, ``1h30m``. Pure."""

from __future__ import annotations

import re

_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?")
EXPECTED = "a duration in whole seconds such as 30s, 5m or 1h30m"


def seconds_of(text: str) -> int:
    """Return a duration's seconds.

    Raises:
        ValueError: it isn't one.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise ValueError(f"expected {EXPECTED}, not {text!r}")
    return sum(int(number) * unit for number, unit in zip(match.groups(), _UNITS.values(), strict=True) if number)


def duration_of(seconds: int) -> str:
    """Return seconds as a duration: 90 is ``1m30s``."""
    parts = []
    for unit, size in _UNITS.items():
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"
