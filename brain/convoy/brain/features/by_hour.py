"""What windows of speed tell beside it, by the hour of a round and configuration, past warm-up.

Only windows themselves hold it, not the sums of hours: what retention has dropped isn't known any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from convoy.brain.features.layout import read_all
from convoy.brain.features.speed import CONFIGURATION
from convoy.brain.store.sums import beginning
from convoy.brain.store.tables import TrainingSpeed

KEY = ("job_id", "round", *CONFIGURATION)


def by_hour(
    connection: Connection,
    jobs: sa.Select[Any] | list[int],
    measures: Mapping[str, sa.ColumnElement[Any]],
    *conditions: sa.ColumnElement[bool],
    also: tuple[str, ...] = (),
) -> pd.DataFrame:
    """Return ``measures`` by ``KEY``, ``also`` and hour, with ``observed_at`` (its last window's end) and
    ``window_seconds``.

    Args:
        connection: on a snapshot.
        jobs: numbers of jobs.
        measures: aggregates of columns of ``training_speed``, by name.
        conditions: on its rows.
        also: further columns of it that tell rows apart.
    """
    t = TrainingSpeed
    keys = {name: getattr(t, name) for name in (*KEY, *also)}
    query = (
        sa.select(
            *keys.values(),
            sa.func.max(t.ended_at).label("observed_at"),
            sa.func.sum(t.seconds).label("window_seconds"),
            *(measure.label(name) for name, measure in measures.items()),
        )
        .where(t.job_id.in_(jobs), t.warming.is_(False), *conditions)
        .group_by(*keys.values(), beginning(t.ended_at, "hour", connection.dialect.name))
    )
    numbers = (*CONFIGURATION, *also, "window_seconds", *measures)
    return read_all(connection, query).astype(dict.fromkeys(numbers, "float64"))
