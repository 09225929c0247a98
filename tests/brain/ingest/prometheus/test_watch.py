"""``convoy brain collect`` as it runs for ever: through outages, stops and starts, and told to end."""

import json
import subprocess
import time
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from convoy.brain.store.engine import open_engine, reading
from convoy.brain.store.migrate import migrate
from convoy.brain.store.tables import NodeLoad
from convoy.core.api.errors import ConvoyError
from support.command import COMMAND
from support.disposable import disposable_mariadb, disposable_prometheus
from support.waiting import until

pytestmark = pytest.mark.servers


class Collecting:
    """The command, what it logs, and what it stored."""

    def __init__(self, process, log, engine):
        self.process = process
        self._log = log
        self._engine = engine

    def said(self, words):
        """Return the log's lines with these words."""
        lines = [json.loads(line) for line in self._log.read_text().splitlines()]
        return [line for line in lines if words in line["event"]]

    def seconds(self):
        """Return the moments that are stored, none while the database is away."""
        try:
            with reading(self._engine) as connection:
                found = connection.execute(sa.select(NodeLoad.ended_at).order_by(NodeLoad.ended_at)).scalars()
                return [int(moment.timestamp()) for moment in found]
        except ConvoyError:
            return []

    def goes_on(self, moments=3):
        """Wait until it has stored some moments later than all until now."""
        now = time.time()
        until(
            lambda: len([second for second in self.seconds() if second > now]) >= moments,
            "rows of now",
            timeout=45.0,
            every=0.2,
        )


@pytest.fixture
def collecting(home):
    """Return what starts the command, with a row each second, and ends it with the test's block."""
    file, number = home / "queries.toml", 0
    file.write_text('scrape_interval = "3s"\nsettle = "1s"\n')

    @contextmanager
    def start(database, prometheus, **settings):
        nonlocal number
        number += 1
        log = home / f"collect{number}.log"
        engine = open_engine(database, connect_seconds=1)
        arguments = ["brain", "collect", "--every", "1s", "--queries", str(file), "--database-url", database]
        with log.open("w") as output:
            process = subprocess.Popen(
                [*COMMAND, *arguments, "--prometheus-url", prometheus], stdout=output, stderr=subprocess.STDOUT
            )
        try:
            yield Collecting(process, log, engine)
            process.terminate()
            assert process.wait(20) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()
            engine.dispose()

    return start


def without_gap(seconds):
    return seconds == list(range(seconds[0], seconds[-1] + 1))


@pytest.fixture
def sqlite(home):
    url = f"sqlite:///{home / 'watch.db'}"
    migrate(url)
    return url


@pytest.mark.long
def test_the_database_away_is_told_once_and_its_gap_is_filled(collecting, home):
    with disposable_prometheus(home / "p", exporter=True) as prometheus, disposable_mariadb(home / "m") as database:
        url = database.url
        with collecting(url, prometheus.url) as running:
            running.goes_on()
            database.kill()
            until(lambda: running.said("the database is away"), "the outage to be told", timeout=30.0)
            time.sleep(4.0)
            database.start()
            running.goes_on()
            assert len(running.said("the database is away")) == 1
            [back] = running.said("the database is back, and what was missed is collected")
            assert back["seconds"] >= 4
            assert without_gap(running.seconds())
            assert not running.said("Prometheus is")


@pytest.mark.long
def test_prometheus_away_is_told_once_and_what_it_did_not_see_has_no_rows(collecting, home, sqlite):
    with disposable_prometheus(home / "p", exporter=True) as prometheus:
        prometheus.kill()
        with collecting(sqlite, prometheus.url) as running:
            until(lambda: running.said("Prometheus is away"), "the outage to be told", timeout=30.0)
            prometheus.start()
            running.goes_on()
            killed = time.time()
            prometheus.kill()
            until(lambda: len(running.said("Prometheus is away")) == 2, "the second to be told", timeout=30.0)
            time.sleep(8.0)
            back = time.time()
            prometheus.start()
            running.goes_on()
            assert len(running.said("Prometheus is away")) == 2
            assert len(running.said("Prometheus is back")) == 2
            seconds = running.seconds()
    assert not [second for second in seconds if killed + 6 < second < back]
    assert [second for second in seconds if second < killed]


def test_what_a_stop_left_out_is_collected_at_the_next_start(collecting, home, sqlite):
    with disposable_prometheus(home / "p", exporter=True) as prometheus:
        with collecting(sqlite, prometheus.url) as running:
            running.goes_on()
        stopped = running.seconds()[-1]
        time.sleep(4.0)
        with collecting(sqlite, prometheus.url) as running:
            running.goes_on()
            seconds = running.seconds()
    assert seconds[-1] > stopped + 4
    assert without_gap(seconds)
