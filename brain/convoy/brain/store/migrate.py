"""Bring a database's schema up to this version's. Safe to run again, from two processes at once, and after a kill."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import command
from sqlalchemy.engine import Connection, Engine

from convoy.brain.store import partitions
from convoy.brain.store.engine import check, open_engine, reading, shown, writing
from convoy.brain.store.locks import exclusive
from convoy.brain.store.tables import Base
from convoy.core.api.errors import Unavailable, UnknownSchema, Unusable
from convoy.core.process import logs
from convoy.sql.config import VERSION_TABLE, config, head, known

_LOCK_SECONDS = 50
_RETRY_SECONDS = 1.0
_STEP_SECONDS = 24 * 3600
"""How long one step may take: a table with a year's rows is copied as a whole."""
_versions = sa.table(VERSION_TABLE, sa.column("version_num", sa.String))


@dataclass(frozen=True, slots=True)
class Migration:
    """What was done: the schema's revision before (None: there was none) and after."""

    before: str | None
    after: str


def migrate(url: str, *, check_seconds: float = 1.5, move_all: bool = False) -> Migration:
    """Create or upgrade the schema; does nothing where it is up to date.

    Two processes that start together take turns. A migration that was killed is carried on by the next run.

    Args:
        url: of the database.
        check_seconds: within which the database has to answer at all.
        move_all: on MySQL, give rows that lie beyond the last day their days, however many they are; the table can't
            be written meanwhile.

    Raises:
        InvalidSetting: the URL is wrong.
        Unusable: the database isn't there, refuses us, or holds tables of somebody else's.
        UnknownSchema: a newer version of Convoy made the schema.
        Unavailable: another process held the migration's lock for too long.
    """
    check(url, seconds=check_seconds)
    engine = open_engine(url, statement_seconds=_STEP_SECONDS)
    try:
        # On SQLite the transaction keeps others out; on MySQL, whose DDL commits, a lock does that outlasts it.
        with exclusive(engine, "migrate", _LOCK_SECONDS), writing(engine) as connection:
            before = revision(connection)
            _refuse_foreign(connection, before)
            if before != head():
                settings = config()
                settings.attributes["connection"] = connection
                command.upgrade(settings, "head")
        partitions.make_days(engine, datetime.now(UTC).date(), copy_any=move_all or before != head())
        return Migration(before=before, after=head())
    finally:
        engine.dispose()


def migrate_when_up(url: str, seconds: float, stop: threading.Event) -> bool:
    """Migrate, for a process that starts; False: told to stop before it was done.

    A server that is away is waited for, ``seconds`` at most; one that refuses us isn't.

    Raises:
        ConvoyError: as ``migrate`` does, after the wait where waiting could help.
    """
    log = logs.get("brain")
    until = time.monotonic() + seconds
    while not stop.is_set():
        try:
            done = migrate(url)
        except (Unusable, Unavailable) as error:
            away = error.reason in ("DatabaseUnreachable", "DatabaseBusy")
            if not away or time.monotonic() >= until:
                raise
            log.warning("waiting for the database", error=str(error), seconds=round(until - time.monotonic()))
            stop.wait(_RETRY_SECONDS)
        else:
            if done.before != done.after:
                log.info("schema brought up to date", before=done.before, after=done.after)
            return True
    return False


def revision(connection: Connection) -> str | None:
    """Return the revision of the schema, None where there is none (or a first migration didn't end)."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(sa.select(_versions.c.version_num)).scalar_one_or_none()
    return None if found is None else str(found)


def require_schema(engine: Engine) -> None:
    """Return if the database holds this version's schema.

    Raises:
        Unusable: it holds none, or an older one.
        UnknownSchema: it holds a newer one.
        Unavailable: it can't be reached now.
    """
    with reading(engine) as connection:
        found = revision(connection)
    if found == head():
        return
    if found is not None and found not in known():
        raise _newer(engine, found)
    has = "no schema of Convoy's" if found is None else f"schema {found}, older than {head()}"
    raise Unusable(
        f"database {shown(engine.url)}: it holds {has}; run `convoy brain migrate`, or name another with "
        "--database-url or CONVOY_DATABASE_URL",
        reason="SchemaMissing",
    )


def require_ours(url: str) -> None:
    """Return if the database is empty, or holds a schema that this version can use or upgrade. Changes nothing.

    Raises:
        Unusable: it holds tables of somebody else's, or refuses us.
        UnknownSchema: a newer version of Convoy made the schema.
        Unavailable: it can't be reached now.
    """
    engine = open_engine(url)
    try:
        with reading(engine) as connection:
            _refuse_foreign(connection, revision(connection))
    finally:
        engine.dispose()


def _newer(engine: Engine, found: str) -> UnknownSchema:
    return UnknownSchema(
        f"database {shown(engine.url)}: schema {found} is newer than {head()}, the newest that this version knows; "
        "upgrade Convoy"
    )


def _refuse_foreign(connection: Connection, before: str | None) -> None:
    if before is not None and before not in known():
        raise _newer(connection.engine, before)
    inspector = sa.inspect(connection)
    if before is None and not inspector.has_table(VERSION_TABLE):
        taken = sorted(set(inspector.get_table_names()) & set(Base.metadata.tables))
        if taken:
            raise Unusable(
                f"database {shown(connection.engine.url)}: it holds a table {taken[0]!r} that Convoy didn't make; "
                "name a database of Convoy's own with --database-url or CONVOY_DATABASE_URL",
                reason="DatabaseForeign",
            )
