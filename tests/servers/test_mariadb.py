"""The MariaDB that tests share, and one that a test may take away."""

from __future__ import annotations

import os

import pytest
import sqlalchemy as sa

from convoy.brain.store.engine import open_engine, parse_url
from support.disposable import disposable_mariadb

pytestmark = pytest.mark.servers


def test_the_shared_one_answers():
    if not os.environ.get("CONVOY_TEST_MARIADB_URL"):
        pytest.skip("no MariaDB runs for the tests")
    engine = sa.create_engine(parse_url(os.environ["CONVOY_TEST_MARIADB_URL"]))
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT 6 * 7")) == 42
    engine.dispose()


def test_what_was_committed_outlives_a_kill_on_the_same_address(home):
    with disposable_mariadb(home / "mariadb") as server:
        address = server.url
        engine = open_engine(address)
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE speed (step INT PRIMARY KEY)")
        for step in range(3):
            with engine.begin() as connection:
                connection.execute(sa.text("INSERT INTO speed VALUES (:step)"), {"step": step})
        server.kill()
        assert not server.running()
        engine.dispose()
        with pytest.raises(sa.exc.OperationalError), engine.connect():
            pass
        server.start()
        assert server.url == address
        with engine.connect() as connection:
            assert connection.scalars(sa.text("SELECT step FROM speed ORDER BY step")).all() == [0, 1, 2]
            durability = "SELECT @@innodb_flush_log_at_trx_commit, @@innodb_doublewrite"
            assert tuple(connection.execute(sa.text(durability)).one()) == (1, 1)
        engine.dispose()


def test_two_run_beside_each_other(home):
    with disposable_mariadb(home / "one") as one, disposable_mariadb(home / "other") as other:
        assert one.port != other.port
        one.kill()
        engine = open_engine(other.url)
        with engine.connect() as connection:
            assert connection.scalar(sa.text("SELECT @@datadir")) == f"{home}/other/data/"
        engine.dispose()
