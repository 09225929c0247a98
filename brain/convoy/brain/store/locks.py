"""A lock in the database, so that of several processes on several machines one at a time does a thing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError

from convoy.brain.store import driver_errors
from convoy.brain.store.engine import shown
from convoy.core.api.errors import Unavailable, Unusable
from convoy.core.process import logs
from convoy.core.process.lock import ProcessLock

log = logs.get("brain.store")

_IDLE_SECONDS = 7 * 86400
"""So long the server is told to keep the lock's connection, on which nothing is said while the work is done."""


@contextmanager
def exclusive(engine: Engine, what: str, seconds: float) -> Iterator[None]:
    """Keep others out who do the same with this database; the lock ends with its connection, a kill included.

    On SQLite there is nothing to take: a writing transaction keeps all others out by itself.

    Args:
        engine: of the database.
        what: is done, one word; part of the lock's name.
        seconds: to wait for it.

    Raises:
        Unavailable: another process held it all the time, or the database can't be reached.
    """
    if engine.dialect.name != "mysql":
        yield
        return
    place = hashlib.sha256(str(engine.url.database).encode()).hexdigest()[:32]
    name = f"convoy.{what}.{place}"
    with driver_errors.translated(engine.url), engine.connect() as connection:
        if connection.execute(sa.select(sa.func.get_lock(name, seconds))).scalar() != 1:
            raise Unavailable(
                f"database {shown(engine.url)}: another process has held its {what!r} lock for {seconds:g} s; try "
                "again when it is done",
                reason="LockHeld",
            )
        connection.exec_driver_sql(f"SET SESSION wait_timeout = {_IDLE_SECONDS}")
        connection.commit()  # the lock is the connection's: no transaction is kept open meanwhile
        try:
            yield
        finally:
            if not _released(connection, name):
                log.warning("a lock ended before what it was held for", lock=what, database=shown(engine.url))


@contextmanager
def sole(engine: Engine, what: str, seconds: float = 1.0) -> Iterator[None]:
    """Keep others out of long work that is made of many transactions; the lock ends with the process or before.

    On MySQL it is ``exclusive``. On SQLite it is the lock of a file beside the database, ``NAME.WHAT.lock``, which
    the kernel drops with its holder.

    Args:
        engine: of the database.
        what: is done, one word.
        seconds: to wait for it, on MySQL.

    Raises:
        Unavailable: another process holds it (``LockHeld``), or the database can't be reached.
        Unusable: the file can't be written.
    """
    if engine.dialect.name == "mysql":
        with exclusive(engine, what, seconds):
            yield
        return
    database = Path(str(engine.url.database)).resolve()
    lock = ProcessLock(database.with_name(f"{database.name}.{what}.lock"))
    try:
        taken = lock.acquire()
    except OSError as error:
        raise Unusable(f"{lock.path}: can't be written: {error.strerror}", reason="LockUnwritable") from error
    if not taken:
        raise Unavailable(
            f"database {database}: process {lock.holder()} holds its {what!r} lock; try again when it is done",
            reason="LockHeld",
        )
    try:
        yield
    finally:
        lock.release()


def _released(connection: Connection, name: str) -> bool:
    """Give the lock back; False: it was lost with its connection. What was done, or went wrong, stands."""
    try:
        connection.exec_driver_sql("SET SESSION wait_timeout = DEFAULT")
        return connection.execute(sa.select(sa.func.release_lock(name))).scalar() == 1
    except DBAPIError:
        return False
