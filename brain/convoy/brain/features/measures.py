"""What is measured of a pod or a machine, as frames have it: from windows, or from their sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import sqlalchemy as sa

from convoy.brain.features.columns import Column

TIME = Column("time", "time", "beginning of the minute or hour; raw: end of the window")
MEASURES = (
    Column("seconds", "number", "how long was measured in the row's time (s)"),
    Column("windows", "count", "windows that were measured; raw: 1"),
    Column("cpu_used", "number", "mean (cores)"),
    Column("cpu_used_max", "number", "the most in a window, itself a mean (cores)"),
    Column("memory_used", "number", "mean of what was used at the ends of windows (bytes)"),
    Column("memory_used_max", "number", "the most at the end of a window (bytes)"),
    Column("network_received", "number", "in the row's time (bytes)"),
    Column("network_sent", "number", "in the row's time (bytes)"),
    Column("disk_read", "number", "in the row's time (bytes)"),
    Column("disk_written", "number", "in the row's time (bytes)"),
    Column("accelerators_used", "number", "mean: 1.5 of 2, say (accelerators)"),
    Column("accelerator_memory_max", "number", "the most at the end of a window, on all of them (bytes)"),
)


def raw(load: Any, *columns: Any) -> sa.Select[*tuple[Any, ...]]:
    """Return a query of windows: ``columns``, ``TIME`` and those of ``MEASURES`` that ``of_windows`` needs."""
    rates = (load.network_received, load.network_sent, load.disk_read, load.disk_written)
    return sa.select(
        *columns,
        load.ended_at.label("time"),
        load.seconds,
        load.cpu_cores.label("cpu_used"),
        load.memory_bytes.label("memory_used"),
        *((rate * load.seconds).label(rate.key) for rate in rates),
        load.accelerator_busy.label("accelerators_used"),
        load.accelerator_memory.label("accelerator_memory_max"),
    )


def of_windows(found: pd.DataFrame) -> pd.DataFrame:
    """Add the measures that are the same as others in a single window."""
    return found.assign(windows=1.0, cpu_used_max=found["cpu_used"], memory_used_max=found["memory_used"])


Picked = Callable[[Any], Any]


def means(of: Any, preferred: sa.ColumnElement[bool] | None = None) -> dict[str, sa.ColumnElement[Any]]:
    """Return ``MEASURES`` from a roll-up's columns, by name; for a query that groups them.

    Args:
        of: the roll-up's columns.
        preferred: the rows that are believed where they tell a measure.
    """

    def total(name: str) -> sa.ColumnElement[Any]:
        return preferring(preferred, lambda picked: sa.func.sum(picked(getattr(of, name))))

    def most(name: str) -> sa.ColumnElement[Any]:
        return preferring(preferred, lambda picked: sa.func.max(picked(getattr(of, name))))

    def mean(amount: str, known: str) -> sa.ColumnElement[Any]:
        def over(picked: Picked) -> Any:  # as floats: SQLite would divide whole numbers
            of_all = sa.func.sum(picked(getattr(of, known)))
            return sa.func.sum(picked(getattr(of, amount))) * sa.literal_column("1.0") / sa.func.nullif(of_all, 0)

        return preferring(preferred, over)

    return {
        "seconds": total("seconds"),
        "windows": total("windows"),
        "cpu_used": mean("cpu_sum", "cpu_time"),
        "cpu_used_max": most("cpu_max"),
        "memory_used": mean("memory_sum", "memory_windows"),
        "memory_used_max": most("memory_max"),
        **{name: total(name) for name in ("network_received", "network_sent", "disk_read", "disk_written")},
        "accelerators_used": mean("accelerator_sum", "accelerator_time"),
        "accelerator_memory_max": most("accelerator_memory_max"),
    }


def preferring(
    preferred: sa.ColumnElement[bool] | None, aggregate: Callable[[Picked], sa.ColumnElement[Any]]
) -> sa.ColumnElement[Any]:
    """Return an aggregate of the preferred rows where it isn't NULL, else of all."""
    everything = aggregate(lambda column: column)
    if preferred is None:
        return everything
    return sa.func.coalesce(aggregate(lambda column: sa.case((preferred, column))), everything)
