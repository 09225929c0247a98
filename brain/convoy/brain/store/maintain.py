"""Maintenance of the store: days made ahead, hours rolled up, what is old removed, what belongs to nothing found.

Each step is made of short transactions that bear being repeated: it may run twice, in two places at once, beside
ingest, and be killed anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from convoy.brain.store import orphans, partitions, retention, rollup
from convoy.brain.store.engine import reading, shown
from convoy.brain.store.locks import exclusive
from convoy.brain.store.retention import Retention
from convoy.core.api.errors import Unavailable, Unusable

_LOCK_SECONDS = 2.0
_CLOCKS_APART = timedelta(hours=1)
Progress = Callable[[str, int], None]
"""Is told a step's name, and how many more of its things were done."""


@dataclass(frozen=True, slots=True)
class Maintained:
    """What was done.

    Attributes:
        busy: another process does it already; nothing was done here.
        days: partitions made.
        hours: subject's hours summed.
        removed: rows, or days of rows, by what they are.
        orphans: rows of series without a job or machine, removed, by table.
    """

    busy: bool = False
    days: int = 0
    hours: int = 0
    removed: dict[str, int] = field(default_factory=dict)
    orphans: dict[str, int] = field(default_factory=dict)


def maintain(
    engine: Engine, now: datetime, kept: Retention, *, progress: Progress = lambda step, count: None
) -> Maintained:
    """Do all of it once.

    Args:
        engine: of the store.
        now: the moment from which ages are counted.
        kept: how long rows are kept.
        progress: is told how far it is.

    Raises:
        Unusable: ``now`` is another time than the server's: nothing is removed by a clock that is wrong.
        Unavailable: the database can't be reached, or stayed in use; what was done is done, run it again.
    """
    _refuse_other_clock(engine, now)
    try:
        with exclusive(engine, "maintain", _LOCK_SECONDS):
            return _all(engine, now, kept, progress)
    except Unavailable as error:
        if error.reason == "LockHeld":
            return Maintained(busy=True)
        raise


def _all(engine: Engine, now: datetime, kept: Retention, progress: Progress) -> Maintained:
    days, in_use = 0, None
    try:
        days = partitions.make_days(engine, now.astimezone(UTC).date())
    except Unavailable as error:  # a table that somebody reads; there is a week's time, and the rest doesn't need it
        in_use = error
    done = Maintained(
        days=days,
        hours=rollup.roll_up(engine, on_hours=lambda count: progress("hours summed", count)),
        removed=retention.remove_old(engine, now, kept, lambda count: progress("rows removed", count)),
        orphans=orphans.remove(engine, lambda count: progress("orphans removed", count)),
    )
    if in_use is not None:
        raise in_use
    return done


def _refuse_other_clock(engine: Engine, now: datetime) -> None:
    """Compare with the server's clock; SQLite has none of its own."""
    if engine.dialect.name != "mysql":
        return
    with reading(engine) as connection:
        theirs = connection.execute(sa.select(sa.func.utc_timestamp(6))).scalar_one().replace(tzinfo=UTC)
    apart = abs(now - theirs)
    if apart > _CLOCKS_APART:
        raise Unusable(
            f"database {shown(engine.url)}: its server's clock says {theirs:%Y-%m-%d %H:%M} and this machine's "
            f"{now.astimezone(UTC):%Y-%m-%d %H:%M} UTC; nothing was removed. Set the wrong one right (NTP)",
            reason="ClocksDiffer",
        )
