"""Rows of a table brought to what was told of them, whoever else writes them at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from convoy.brain.ingest.monitor.parts import Row
from convoy.brain.store.write import insert_new, insert_or_update

Merge = Callable[[Row, Row], Row]
"""From a row that is stored and one that is told to the one that it becomes."""


def bring(
    connection: Connection, table: type[Any], key: tuple[str, ...], told: list[Row], merged: Merge
) -> list[tuple[Row, Row]]:
    """Bring the rows of ``key`` to what merging says. Rows that needn't change are neither written nor locked.

    Returns:
        The rows that were changed, as they were and as they are.
    """
    if not told:
        return []
    wanted: dict[tuple[Any, ...], list[Row]] = {}
    for row in told:
        wanted.setdefault(tuple(row[name] for name in key), []).append(row)
    stored = _stored(connection, table, key, wanted.keys())
    insert_new(connection, table, [rows[0] for which, rows in sorted(wanted.items()) if which not in stored])
    changing = [
        which for which, rows in wanted.items() if which not in stored or _merged(stored[which], rows, merged)
    ]
    # Again, now locked: another process may have stored the same, or a master told of it.
    found = _stored(connection, table, key, changing, lock=True)
    changes = [(row, new) for which, row in found.items() if (new := _merged(row, wanted[which], merged))]
    columns = [column.name for column in table.__table__.columns if column.name != "id"]  # the key finds it
    rows = [{name: new[name] for name in columns} for _, new in changes]
    insert_or_update(connection, table, rows, key=key, update=columns)
    return changes


def _merged(stored: Row, told: list[Row], merged: Merge) -> Row | None:
    """Return what the row is to become; None where it is that."""
    new = stored
    for row in told:
        new = merged(new, row)
    return new if new != stored else None


def _stored(
    connection: Connection,
    table: type[Any],
    key: tuple[str, ...],
    which: Iterable[tuple[Any, ...]],
    *,
    lock: bool = False,
) -> dict[tuple[Any, ...], Row]:
    keys = list(which)
    if not keys:
        return {}
    columns = [getattr(table, name) for name in key]
    there = columns[0].in_([one for (one,) in keys]) if len(key) == 1 else sa.tuple_(*columns).in_(keys)
    query = sa.select(table.__table__).where(there).order_by(table.id)
    rows = connection.execute(query.with_for_update() if lock else query).mappings()
    return {tuple(row[name] for name in key): dict(row) for row in rows}
