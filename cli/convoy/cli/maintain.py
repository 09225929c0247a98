"""``convoy brain maintain``: the store's roll-ups, days and retention, told as they are done."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from convoy.brain.settings import BrainSettings
from convoy.brain.store.engine import check, open_engine, shown
from convoy.brain.store.maintain import Maintained, maintain
from convoy.brain.store.migrate import require_schema
from convoy.brain.store.partitions import TABLES
from convoy.cli.screen import Working


def run(database_url: str | None) -> None:
    """Maintain the store once and say what was done.

    Raises:
        InvalidSetting, Unusable, UnknownSchema: the database can't be used.
        Unavailable: it can't be reached now, or its tables stayed in use.
    """
    settings = BrainSettings.load(database_url=database_url)
    url = settings.database()
    check(url, must_exist=True)
    engine = open_engine(url, must_exist=True)
    counts: dict[str, int] = {}
    try:
        require_schema(engine)
        with Working("looking what is to be done") as line:

            def progress(step: str, count: int) -> None:
                counts[step] = counts.get(step, 0) + count
                line(", ".join(f"{number:,} {name}" for name, number in counts.items()))

            done = maintain(engine, datetime.now(UTC), settings.retention(), progress=progress)
    finally:
        engine.dispose()
    sys.stdout.write(f"database {shown(url)}: {told(done, by_day=engine.dialect.name == 'mysql')}\n")


def told(done: Maintained, *, by_day: bool) -> str:
    """Return what was done, in one sentence; ``by_day``: of large series whole days were removed, not rows."""
    if done.busy:
        return "another process is maintaining it; nothing was done here"
    parts = [f"{done.hours:,} subject-hours of series summed"] if done.hours else []
    parts += [f"{done.days:,} days made"] if done.days else []
    for table, count in done.removed.items():
        parts.append(f"{count:,} old {'days' if by_day and table in TABLES else 'rows'} of {table} removed")
    parts += [f"{count:,} rows of {table} without a job or machine removed" for table, count in done.orphans.items()]
    return ", ".join(parts) or "nothing was to be done"
