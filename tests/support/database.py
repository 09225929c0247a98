"""Databases for tests: a SQLite file, and a database of its own on the MariaDB that ``make servers`` starts."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from convoy.brain.store.engine import open_engine, parse_url
from convoy.brain.store.migrate import migrate
from convoy.brain.store.tables import Base

MARIADB = os.environ.get("CONVOY_TEST_MARIADB_URL", "")
"""Read when this is imported: the tests' homes hide the environment's CONVOY_*."""

BOTH = [pytest.param("sqlite"), pytest.param("mariadb", marks=pytest.mark.servers)]


@contextmanager
def created() -> Iterator[str]:
    """Give the URL of a new, empty database, which is dropped at the end."""
    if not MARIADB:
        pytest.skip("no MariaDB runs for the tests")
    server = parse_url(MARIADB)
    name = f"convoy_{uuid.uuid4().hex[:12]}"
    admin = sa.create_engine(server)
    with admin.begin() as connection:
        # As a server's owner may have it: what the tables need they say themselves.
        connection.exec_driver_sql(f"CREATE DATABASE {name} CHARACTER SET latin1")
    try:
        yield server.set(drivername="mysql", database=name, query={}).render_as_string(hide_password=False)
    finally:
        with admin.begin() as connection:
            connection.exec_driver_sql(f"DROP DATABASE {name}")
        admin.dispose()


@pytest.fixture
def mariadb() -> Iterator[str]:
    """Give the URL of an empty database of the test's own on MariaDB."""
    with created() as url:
        yield url


@pytest.fixture(scope="session")
def shared_mariadb() -> Iterator[str]:
    """Give the URL of a migrated database that the tests of a run use one after the other."""
    with created() as url:
        migrate(url)
        yield url


@pytest.fixture(params=BOTH)
def url(request: pytest.FixtureRequest, home: Path) -> str:
    """Return the URL of an empty database, on each kind of server in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{home / 'brain.db'}"
    found: str = request.getfixturevalue("mariadb")
    return found


@pytest.fixture(params=BOTH)
def store(request: pytest.FixtureRequest, home: Path) -> str:
    """Return the URL of a migrated database without rows, on each kind of server in turn."""
    if request.param == "sqlite":
        file = f"sqlite:///{home / 'store.db'}"
        migrate(file)
        return file
    shared: str = request.getfixturevalue("shared_mariadb")
    engine = open_engine(shared)
    with engine.begin() as connection:
        for table in reversed(Base.metadata.sorted_tables):
            connection.execute(sa.delete(table))
    engine.dispose()
    return shared


@pytest.fixture
def engine(store: str) -> Iterator[Engine]:
    """Give an engine on a migrated database without rows, on each kind of server in turn."""
    engine = open_engine(store)
    yield engine
    engine.dispose()
