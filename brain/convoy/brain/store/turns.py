"""Short transactions beside others: one that meets somebody else's lock gives way, and comes again a little later."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError

from convoy.brain.store import driver_errors
from convoy.brain.store.engine import writing
from convoy.core.api.errors import Unavailable

T = TypeVar("T")

_TRIES = 30
_PAUSE = 0.1
_LOCK_SECONDS = 1
"""The least that MySQL can wait. Who waits for a table's own lock holds up all who come after it."""


def in_turns(engine: Engine, work: Callable[[Connection], T], *, tries: int = _TRIES, pause: float = _PAUSE) -> T:
    """Run ``work`` in a transaction; where locks of others undo it, again after a pause. It must bear being repeated.

    Args:
        engine: of the store.
        work: to be done.
        tries: how often.
        pause: seconds after the first one, at most; ten times as long after ten.

    Raises:
        Unavailable: it was undone ``tries`` times, or the database can't be reached.
    """
    for attempt in range(1, tries + 1):
        try:
            with writing(engine) as connection:
                if connection.dialect.name == "mysql":
                    connection.exec_driver_sql(
                        f"SET SESSION innodb_lock_wait_timeout = {_LOCK_SECONDS}, lock_wait_timeout = {_LOCK_SECONDS}"
                    )
                try:
                    return work(connection)
                finally:
                    _forget(connection)
        except Unavailable as error:
            undone = isinstance(error.__cause__, DBAPIError) and driver_errors.again(error.__cause__)
            if not undone or attempt == tries:
                raise
            time.sleep(random.uniform(0.5, 1.0) * pause * min(attempt, 10))
    raise AssertionError("unreachable")


def _forget(connection: Connection) -> None:
    """Put the waits back to the server's: the connection goes back to its pool."""
    if connection.dialect.name == "mysql" and not connection.invalidated:
        connection.exec_driver_sql("SET SESSION innodb_lock_wait_timeout = DEFAULT, lock_wait_timeout = DEFAULT")
