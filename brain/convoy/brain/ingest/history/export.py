"""From the store to rows of history, as an import takes them: imported rows as they came, measured jobs as the frames
show them, one row a (job, configuration) under the job's uid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from convoy.brain.features import frames
from convoy.brain.features.columns import COLUMNS, NAMES
from convoy.brain.ingest.history.columns import ORIGIN
from convoy.brain.ingest.history.rows import Row
from convoy.brain.store.engine import reading
from convoy.brain.store.tables import MEASURED, HistoryObservation, Job
from convoy.core.api.errors import NotFound

_CHUNK = 10_000
_PLAIN: dict[str, Callable[[Any], Any]] = {"number": float, "count": int, "time": pd.Timestamp.to_pydatetime}
"""From what a frame holds to what a row holds, by the column's kind."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows to export.

    Attributes:
        jobs: only of these: names in column ``job``, or names of measured jobs; empty: of all.
        origin: only measured jobs, or only imported rows; None: both.
        since: only what was measured at that moment or later; rows that don't say are left out then.
    """

    jobs: tuple[str, ...] = ()
    origin: Literal["measured", "imported"] | None = None
    since: datetime | None = None


def exported(engine: Engine, wanted: Wanted) -> Iterator[list[Row]]:
    """Give the rows, some thousands at a time, imported ones first: the frames' columns and ``origin``.

    ``origin`` is what an imported row came with, and ``measured`` for jobs that the store measured itself.

    Raises:
        NotFound: the store has nothing of a job that is wanted.
        Unavailable: the database can't be reached now.
    """
    names = _names(engine, wanted.jobs)
    if wanted.origin != "measured":
        yield from _imported(engine, names, wanted.since)
    if wanted.origin != "imported":
        yield from _measured(engine, names, wanted.since)


def _names(engine: Engine, jobs: tuple[str, ...]) -> set[str]:
    """Return what the wanted jobs are called in column ``job``: as imported, and by the uids of measured ones."""
    found: set[str] = set()
    imported = sa.select(HistoryObservation.job).limit(1)
    with reading(engine) as connection:
        for job in jobs:
            own = connection.execute(imported.where(HistoryObservation.job == job)).scalars().all()
            uids = connection.execute(sa.select(Job.uid).where((Job.uid == job) | (Job.name == job))).scalars().all()
            if not own and not uids:
                raise NotFound(
                    f"job {job!r}: the store has no measurement of it; name it as its rows' column job, or as "
                    "`convoy jobs` shows it"
                )
            found.update(own, uids)
    return found


def _imported(engine: Engine, names: set[str], since: datetime | None) -> Iterator[list[Row]]:
    table = HistoryObservation
    columns = [getattr(table, name) for name in NAMES]
    query = sa.select(table.id, *columns, table.source.label(ORIGIN)).order_by(table.id).limit(_CHUNK)
    if names:
        query = query.where(table.job.in_(names))
    if since is not None:
        query = query.where(table.observed_at >= since)
    last = 0
    while True:  # by key and not by one long read, which would hold the store's log back
        with reading(engine) as connection:
            rows = [dict(row) for row in connection.execute(query.where(table.id > last)).mappings()]
        if not rows:
            return
        last = rows[-1]["id"]
        for row in rows:
            del row["id"]
        yield rows


def _measured(engine: Engine, names: set[str], since: datetime | None) -> Iterator[list[Row]]:
    with reading(engine) as connection:
        uids = set(connection.execute(sa.select(Job.uid)).scalars())
    uids = uids & names if names else uids
    if not uids:
        return
    frame = frames.history(engine)
    frame = frame[frame["job"].isin(uids)]
    imported = _imported_too(engine)
    for start in range(0, len(frame), _CHUNK):
        rows = [row for row in _rows(frame.iloc[start : start + _CHUNK]) if not _taken(imported, row)]
        yield rows if since is None else [row for row in rows if row["observed_at"] >= since]


def _imported_too(engine: Engine) -> Counter[tuple[Any, ...]]:
    """Return the imported rows of jobs that the store has as its own: the frame has them beside the measured ones."""
    both = sa.select(HistoryObservation.job).where(HistoryObservation.job.in_(sa.select(Job.uid))).distinct()
    with reading(engine) as connection:
        jobs = set(connection.execute(both).scalars())
    return Counter(_content(row) for rows in (_imported(engine, jobs, None) if jobs else ()) for row in rows)


def _taken(imported: Counter[tuple[Any, ...]], row: Row) -> bool:
    """Take a row out of the imported ones, if it is one of them."""
    content = _content(row)
    found = imported[content] > 0
    if found:
        imported[content] -= 1
    return found


def _content(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in NAMES)


def _rows(frame: pd.DataFrame) -> list[Row]:
    values = {}
    for column in COLUMNS:
        series = frame[column.name]
        plain = _PLAIN.get(column.kind, lambda value: value)
        values[column.name] = [
            plain(value) if known else None for value, known in zip(series, series.notna(), strict=True)
        ]
    return [{**dict(zip(values, row, strict=True)), ORIGIN: MEASURED} for row in zip(*values.values(), strict=True)]
