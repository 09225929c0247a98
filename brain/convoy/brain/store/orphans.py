"""Rows of series whose job or machine isn't there: partitioned tables can have no foreign keys to keep them out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from convoy.brain.store.batches import delete_in_batches
from convoy.brain.store.engine import reading
from convoy.brain.store.sums import KINDS
from convoy.brain.store.tables import Job, Node, RollupDue


def find(engine: Engine) -> dict[str, list[int]]:
    """Return by series the numbers of jobs or machines that have rows and no row of their own.

    What was stored since the last roll-up is in ``rollup_due``, all else in the sums by the hour: these two tell.
    """
    found: dict[str, list[int]] = {}
    with reading(engine) as connection:
        for series, (_, _, hours) in KINDS.items():
            subject, parent = _subject(hours)
            summed = sa.select(subject.label("number")).distinct()
            due = sa.select(RollupDue.subject_id.label("number")).where(RollupDue.series == series).distinct()
            numbers = sa.union(summed, due).subquery()
            query = sa.select(numbers.c.number).outerjoin(parent, parent.id == numbers.c.number)
            found[series] = sorted(connection.execute(query.where(parent.id.is_(None))).scalars())
    return found


def remove(engine: Engine, on_rows: Callable[[int], None] = lambda count: None) -> dict[str, int]:
    """Remove what ``find`` finds; return how many rows went, by table.

    Raises:
        Unavailable: the database can't be reached, or rows stayed locked.
    """
    removed: dict[str, int] = {}
    for series, numbers in find(engine).items():
        for number in numbers:
            for name, count in remove_rows_of(engine, series, number, on_rows).items():
                removed[name] = removed.get(name, 0) + count
    return removed


def remove_rows_of(
    engine: Engine, series: str, number: int, on_rows: Callable[[int], None] = lambda count: None
) -> dict[str, int]:
    """Remove what a series and its sums hold of one job or machine; return how many rows went, by table.

    Raises:
        Unavailable: the database can't be reached, or rows stayed locked.
    """
    removed: dict[str, int] = {}
    for table in KINDS[series]:
        subject, _ = _subject(table)
        count = delete_in_batches(engine, table, subject == number, on_rows)
        if count:
            removed[table.__tablename__] = count
    mark = sa.and_(RollupDue.series == series, RollupDue.subject_id == number)
    delete_in_batches(engine, RollupDue, mark)
    return removed


def _subject(table: type[Any]) -> tuple[Any, type[Any]]:
    return (table.node_id, Node) if hasattr(table, "node_id") else (table.job_id, Job)
