"""Many rows removed a few at a time, so that nobody waits long for their locks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from convoy.brain.store.turns import in_turns
from convoy.core.process.crashpoint import crash_point

_BATCH = 2000


def delete_in_batches(
    engine: Engine,
    table: type[Any],
    condition: sa.ColumnElement[bool],
    on_rows: Callable[[int], None] = lambda count: None,
) -> int:
    """Remove the rows for which the condition holds, a transaction a batch; return how many.

    Raises:
        Unavailable: the database can't be reached, or rows stayed locked.
    """
    total = 0
    while True:
        count = in_turns(engine, lambda connection: _delete_some(connection, table, condition))
        crash_point("batches.after-batch")
        total += count
        on_rows(count)
        if count < _BATCH:
            return total


def _delete_some(connection: Connection, table: type[Any], condition: sa.ColumnElement[bool]) -> int:
    statement = sa.delete(table)
    if connection.dialect.name == "mysql":
        statement = statement.where(condition).with_dialect_options(mysql_limit=_BATCH)
    else:
        key = list(table.__table__.primary_key.columns)
        statement = statement.where(sa.tuple_(*key).in_(sa.select(*key).where(condition).limit(_BATCH)))
    return connection.execute(statement).rowcount
