"""Statements that differ between MySQL and SQLite: insert what isn't there, insert or replace, and leave out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DataError, IntegrityError

from convoy.brain.store import driver_errors

Row = dict[str, Any]


def insert_new(connection: Connection, table: type[Any], rows: Sequence[Row]) -> None:
    """Insert the rows whose key isn't there; leave those whose key is. Any other fault of a row is an error."""
    if not rows:
        return
    target: sa.Table = table.__table__
    if connection.dialect.name == "mysql":
        # Not INSERT IGNORE, which would also cut and replace values that don't fit.
        some = next(iter(target.primary_key.columns))
        statement: Any = mysql.insert(target).on_duplicate_key_update({some.name: some})
    else:
        statement = sqlite.insert(target).on_conflict_do_nothing()
    connection.execute(statement, list(rows))


def insert_or_update(
    connection: Connection, table: type[Any], rows: Sequence[Row], *, key: Sequence[str], update: Sequence[str]
) -> None:
    """Insert the rows; where one of that ``key`` (a unique constraint) is there, set the columns ``update``."""
    if not rows:
        return
    target: sa.Table = table.__table__
    if connection.dialect.name == "mysql":
        inserted = mysql.insert(target)
        statement: Any = inserted.on_duplicate_key_update({name: inserted.inserted[name] for name in update})
    else:
        upsert = sqlite.insert(target)
        statement = upsert.on_conflict_do_update(
            index_elements=list(key), set_={name: upsert.excluded[name] for name in update}
        )
    connection.execute(statement, list(rows))


def each_that_fits(rows: Sequence[Row], insert: Callable[[Sequence[Row]], None]) -> dict[int, str]:
    """Insert rows; where the database refuses one, insert them one by one without those that it refuses.

    Args:
        rows: to insert.
        insert: inserts rows; a row that is there already is no error.

    Returns:
        Why a row was refused, by its position.
    """
    try:
        insert(rows)
    except (DataError, IntegrityError):  # the statement was undone, the transaction goes on
        refused = {}
        for position, row in enumerate(rows):
            try:
                insert([row])
            except (DataError, IntegrityError) as error:
                refused[position] = driver_errors.text_of(error)
        return refused
    return {}
