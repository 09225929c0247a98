"""Outages of what is needed: told when one begins and when it is over, waited out with growing pauses. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from convoy.core.api.errors import ConvoyError

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0


@dataclass(slots=True)
class Outages:
    """Who is away, since when (monotonic seconds), and how often in a row it failed."""

    since: dict[str, float] = field(default_factory=dict)
    failures: int = 0

    def failed(self, error: ConvoyError, now: float) -> str | None:
        """Note a failure; return who is away, unless that was told already."""
        who = "Prometheus" if error.reason.startswith("Prometheus") else "the database"
        self.failures += 1
        if who in self.since:
            return None
        self.since[who] = now
        return who

    def pause(self) -> float:
        """Return the seconds to wait before the next try: at first one, at most thirty."""
        return min(_FIRST_PAUSE * 2.0 ** min(self.failures - 1, 10), _LONGEST_PAUSE)

    def over(self, now: float) -> dict[str, float]:
        """Note that all goes well; return who was away, and for how many seconds."""
        lengths = {who: now - since for who, since in self.since.items()}
        self.since.clear()
        self.failures = 0
        return lengths
