"""How long each kind of row is kept, and the removal of what is older.

Raw rows of a series go by whole days, once they are summed; roll-ups, events, advice and jobs go row by row, a few
thousand a transaction. On MySQL a day's partition is dropped, which takes no time; on SQLite its rows are deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy.engine import Engine

from convoy.brain.store.engine import reading
from convoy.brain.store.series import SUBJECT, complete_since

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Retention:
    """Days for which rows are kept; None: for ever.

    Attributes:
        speed: raw windows of training speed.
        load: raw windows of the load of pods and machines.
        minutes, hours: roll-ups.
        events: what happened to jobs and machines.
        jobs: jobs that are over, with all that is known of them.
        imported: history that somebody imported.
    """

    speed: int | None = 30
    load: int | None = 14
    minutes: int | None = 180
    hours: int | None = 1825
    events: int | None = 365
    jobs: int | None = 1825
    imported: int | None = None

    def raw(self, series: str) -> int | None:
        """Return the days for which a series' rows are kept."""
        return self.speed if series == "training_speed" else self.load

    def taken_since(self, engine: Engine, now: float) -> dict[str, float]:
        """Return by series from when on rows are still taken (seconds since the epoch)."""
        moment = datetime.fromtimestamp(now, UTC)
        with reading(engine) as connection:
            complete = {series: complete_since(connection, series) for series in SUBJECT}
        since: dict[str, float] = {}
        for series in SUBJECT:
            days = self.raw(series)
            bounds = [complete[series]] if complete[series] is not None else []
            bounds += [moment - days * DAY] if days is not None else []
            since[series] = max((bound.timestamp() for bound in bounds if bound is not None), default=0.0)
        return since
