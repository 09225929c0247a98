import time

import pytest

from convoy.brain.store.engine import open_engine
from convoy.brain.store.locks import exclusive
from convoy.core.api.errors import Unavailable
from support.disposable import disposable_mariadb

pytestmark = pytest.mark.servers


def test_a_lock_is_held_longer_than_the_server_keeps_an_idle_connection(tmp_path):
    with disposable_mariadb(tmp_path / "mariadb") as server:
        engine, other = open_engine(server.url), open_engine(server.url)
        with other.begin() as connection:
            connection.exec_driver_sql("SET GLOBAL wait_timeout = 1")
        with exclusive(engine, "maintain", 1.0):
            time.sleep(2.5)
            with pytest.raises(Unavailable, match="'maintain' lock"), exclusive(other, "maintain", 0.1):
                pass
        with exclusive(other, "maintain", 0.1):
            pass
        engine.dispose()
        other.dispose()


def test_a_lock_that_is_lost_hides_neither_what_was_done_nor_what_went_wrong(mariadb):
    engine, other = open_engine(mariadb), open_engine(mariadb)

    def lose_it(failure=None):
        with other.begin() as connection:
            held = "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
            for number in connection.exec_driver_sql(held).scalars().all():
                connection.exec_driver_sql(f"KILL {number}")
        if failure is not None:
            raise failure

    with exclusive(engine, "maintain", 1.0):
        lose_it()
    with pytest.raises(ValueError, match="something else"), exclusive(engine, "maintain", 1.0):
        lose_it(ValueError("something else"))
    with exclusive(engine, "maintain", 1.0):
        pass
    engine.dispose()
    other.dispose()
