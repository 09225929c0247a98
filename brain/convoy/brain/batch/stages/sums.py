"""Stage ``rollup``: the series' rows summed by the minute and by the hour. What is summed already stays."""

from __future__ import annotations

from convoy.brain.batch.work import Result, Work
from convoy.brain.store import rollup


def roll_up(work: Work) -> Result:
    """Bring the roll-ups up to date.

    Raises:
        Unavailable: the database can't be reached, or rows stayed locked.
    """
    done = 0

    def on_hours(count: int) -> None:
        nonlocal done
        done += count
        work.check()
        work.around.progress("rollup", f"{done:,} subject-hours summed")

    rollup.roll_up(work.around.engine, on_hours=on_hours)
    return Result({"hours": done})
