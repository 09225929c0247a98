"""From a database URL to an engine: MySQL and MariaDB through PyMySQL, SQLite as the embedded default.

Both behave alike to the caller: transactions are real (SQLite's too, reads included) and moments are UTC. On SQLite
``writing`` takes the write lock at its beginning, so that two writers wait for each other and never fail half-way.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from convoy.brain.store import driver_errors
from convoy.core.api.errors import ConvoyError, InvalidSetting, Unusable
from convoy.core.process import paths

EXPECTED = "sqlite:////absolute/path/brain.db or mysql://USER:PASSWORD@HOST:3306/DATABASE"
_WRITE = "convoy_write"
_BUSY_SECONDS = 20.0
_CONNECT_SECONDS = 5
_STATEMENT_SECONDS = 60


def default_url(state_dir: Path) -> str:
    """Return the URL of the embedded database in a state directory, which is made where it isn't there.

    Raises:
        Unusable: the state directory can't be written.
    """
    return f"sqlite:///{paths.ensure_writable(state_dir) / 'brain.db'}"


def parse_url(url: str) -> URL:
    """Return the URL with our drivers filled in.

    Raises:
        InvalidSetting: not a URL of a database that Convoy can use. The message never holds the password.
    """
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise _wrong("can't be read as a URL (percent-encode special characters of a password)") from None
    if backend not in ("sqlite", "mysql", "mariadb"):
        raise _wrong(f"{backend!r} isn't a database that Convoy can use")
    if backend == "sqlite":
        if parsed.database in (None, "", ":memory:"):
            raise _wrong("a database in memory ends with its process: name a file")
        return parsed.set(drivername="sqlite+pysqlite")
    if url.count("@") > 1:  # of a password that isn't encoded a part is taken for host or database: not to be shown
        raise _wrong("an '@' besides the one before the host, in a password say, has to be written %40")
    if not parsed.database:
        raise _wrong(f"{shown(parsed)} names no database")
    query = {"charset": "utf8mb4", **parsed.query}
    return parsed.set(drivername="mysql+pymysql", query=query)


def _wrong(what: str) -> InvalidSetting:
    return InvalidSetting(
        f"database_url: {what}; expected {EXPECTED}; set it with --database-url or CONVOY_DATABASE_URL"
    )


def shown(url: URL | str) -> str:
    """Return the URL as it may be shown: without its password and options."""
    parsed = make_url(url) if isinstance(url, str) else url
    return parsed.set(drivername=parsed.get_backend_name(), query={}).render_as_string(hide_password=True)


def open_engine(
    url: str,
    *,
    must_exist: bool = False,
    connect_seconds: int = _CONNECT_SECONDS,
    statement_seconds: int | None = None,
) -> Engine:
    """Return an engine; nothing is connected yet.

    Args:
        url: of the database.
        must_exist: refuse a SQLite file that isn't there, instead of making one.
        connect_seconds: how long a connection to a server may take.
        statement_seconds: how long a server may take for one statement; None: a minute.

    Raises:
        InvalidSetting: the URL is wrong.
        Unusable: the SQLite file, or its folder, isn't there.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(parsed, must_exist=must_exist)
    return _mysql(parsed, connect_seconds, statement_seconds or _STATEMENT_SECONDS)


def _sqlite(url: URL, *, must_exist: bool) -> Engine:
    file = Path(str(url.database))
    if must_exist and not file.is_file():
        raise Unusable(
            f"database {file}: there is no such file; name another with --database-url or CONVOY_DATABASE_URL, or "
            "make it with `convoy brain migrate`",
            reason="DatabaseMissing",
        )
    if not file.parent.is_dir():
        raise Unusable(
            f"database {file}: its folder {file.parent} isn't there; make it, or name another file with "
            "--database-url or CONVOY_DATABASE_URL",
            reason="DatabaseMissing",
        )
    engine = sa.create_engine(url, connect_args={"timeout": _BUSY_SECONDS}, pool_pre_ping=True)

    @sa.event.listens_for(engine, "connect")
    def on_connect(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # transactions begin where on_begin says, and nowhere else
        _write_ahead(connection)
        for pragma in ("synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @sa.event.listens_for(engine, "begin")
    def on_begin(connection: Connection) -> None:
        write = connection.get_execution_options().get(_WRITE, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Turn the write-ahead log on. The file keeps it; the first time, SQLite wants to be alone and doesn't wait."""
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").fetchall()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.02)


def _mysql(url: URL, connect_seconds: int, statement_seconds: int) -> Engine:
    return sa.create_engine(
        url,
        # What is committed is seen: a job that another thread made between two statements, for one.
        isolation_level="READ COMMITTED",
        connect_args={
            "connect_timeout": connect_seconds,
            "read_timeout": statement_seconds,
            "write_timeout": statement_seconds,
            # A value that doesn't fit is an error, whatever the server's own mode.
            "init_command": "SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
        },
        paramstyle="format",  # values by their place: a little quicker with many rows than by name
        pool_pre_ping=True,
        max_overflow=60,  # no fewer connections than threads that may want one
        pool_recycle=1800,
        pool_timeout=10,
    )


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """Give a connection in a transaction that is committed at the end, or undone by an error.

    Raises:
        Unavailable: the database can't be reached or is too busy now.
        Unusable: it refuses us.
    """
    with driver_errors.translated(engine.url), engine.execution_options(**{_WRITE: True}).begin() as connection:
        yield connection


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """Give a connection for reading.

    Raises:
        Unavailable: the database can't be reached or is too busy now.
        Unusable: it refuses us.
    """
    with driver_errors.translated(engine.url), engine.begin() as connection:
        yield connection


@contextmanager
def snapshot(engine: Engine, *tables: type[Any]) -> Iterator[Connection]:
    """Give a connection for reading on which all statements see the store as it is at the first one.

    Args:
        engine: of the store.
        tables: that are read. On MySQL none of their partitions is made or dropped until the end: a snapshot doesn't
            keep rows whose partition goes. So be quick: those who maintain the store wait.

    Raises:
        Unavailable: the database can't be reached or is too busy now.
        Unusable: it refuses us.
    """
    mysql = engine.dialect.name == "mysql"
    with reading(engine.execution_options(isolation_level="REPEATABLE READ") if mysql else engine) as connection:
        if mysql and tables:
            names = ", ".join(table.__tablename__ for table in tables)
            connection.exec_driver_sql(f"SELECT 1 FROM {names} LIMIT 0")
        yield connection


def check(url: str, *, must_exist: bool = False, seconds: float = 1.5) -> None:
    """Return if the database answers.

    Raises:
        InvalidSetting: the URL is wrong.
        Unusable: it isn't there, refuses us, or gives no answer within ``seconds``; the message says which.
    """
    engine = open_engine(url, must_exist=must_exist, connect_seconds=max(1, int(seconds)))
    outcome: list[Exception | None] = []

    def connect() -> None:
        try:
            with engine.connect() as connection:
                connection.exec_driver_sql("SELECT 1")
            outcome.append(None)
        except Exception as error:
            outcome.append(error)

    # In a thread, because neither the resolver nor a server that accepts and says nothing keeps a deadline.
    thread = threading.Thread(target=connect, name="database-check", daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise Unusable(
            f"database {shown(engine.url)}: no answer within {seconds:g} s; {driver_errors.AWAY}",
            reason="DatabaseUnreachable",
        )
    engine.dispose()
    failure = outcome[0]
    if isinstance(failure, DBAPIError):
        raise driver_errors.unusable(failure, engine.url) from None
    if failure is not None:
        raise failure if isinstance(failure, ConvoyError) else driver_errors.unusable(failure, engine.url) from None
