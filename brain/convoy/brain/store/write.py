"""Statements that differ between MySQL and SQLite: insert what isn't there, insert or replace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.engine import Connection

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
