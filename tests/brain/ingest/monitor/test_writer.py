"""The writer: in batches, through the database's absence, and past what a database refuses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from convoy.brain.ingest.monitor.monitor import Monitor
from convoy.brain.ingest.monitor.pending import Pending
from convoy.brain.ingest.monitor.tally import Tally
from convoy.brain.ingest.monitor.told import Entry, translate
from convoy.brain.ingest.monitor.writer import Writer
from convoy.brain.store.engine import open_engine, reading
from convoy.brain.store.migrate import migrate
from convoy.brain.store.tables import Job, Node
from convoy.core.cluster.local import LocalCluster, open_cluster
from convoy.core.cluster.port import Change, Kind
from convoy.core.process.clock import SystemClock
from servers.mariadb import MariaDB
from support import cluster_objects as objects
from support import manifests
from support.clock import FakeClock
from support.disposable import disposable_mariadb
from support.monitored import QUICK, START, Told
from support.waiting import until


@pytest.fixture
def server(home: Path) -> Iterator[MariaDB]:
    with disposable_mariadb(home / "mariadb") as started:
        yield started


@pytest.fixture
def cluster(state_dir: Path) -> Iterator[LocalCluster]:
    with open_cluster(state_dir) as opened:
        yield opened


def count(engine: Engine, table: type[Any], **wanted: Any) -> int:
    with reading(engine) as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(table).filter_by(**wanted)).scalar_one()


def put(cluster: LocalCluster, name: str) -> None:
    cluster.create(manifests.job(name), field_manager="t")


@pytest.mark.servers
def test_what_changes_while_the_database_is_away_is_stored_afterwards(
    server: MariaDB, cluster: LocalCluster, state_dir: Path
) -> None:
    migrate(server.url)
    engine = open_engine(server.url)
    reader = open_cluster(state_dir)
    monitor = Monitor(engine, reader, name="here", close=reader.close, pace=QUICK, most=8)
    monitor.start()
    try:
        for number in range(5):
            put(cluster, f"before-{number}")
        until(lambda: count(engine, Job) == 5, "the first jobs")
        server.kill()
        cluster.delete(Kind.ELASTIC_JOB, "default", "before-0")
        for number in range(20):  # more than may wait
            put(cluster, f"meanwhile-{number}")
        until(lambda: monitor.report()["database_away"], "the loss to be noticed", timeout=20)
        cluster.delete(Kind.ELASTIC_JOB, "default", "meanwhile-0")
        assert len(monitor._pending) <= 8 + 8  # those that wait, and those that are being stored
        server.start()
        until(lambda: count(engine, Job) == 25, "all jobs", timeout=30)
        until(lambda: count(engine, Job, gone_at=None) == 23, "two of them to be gone", timeout=20)
        until(lambda: monitor.settled() and not monitor.report()["database_away"], "all to be stored")
        assert monitor.tally.counts("left_out") == {}
    finally:
        monitor.stop()
        reader.close()
        engine.dispose()


def node(name: str) -> Entry:
    entry = translate(Kind.NODE, Change("ADDED", objects.node(name, uid=f"uid-{name}")), "user", START)
    assert entry is not None
    return entry


@pytest.fixture
def pending() -> Pending:
    return Pending()


@pytest.fixture
def writer(told: Told, pending: Pending) -> Writer:
    return Writer(told.engine, told.place, pending, lambda: True, Tally(), SystemClock())


def test_many_are_written_in_few_transactions(told: Told, pending: Pending, writer: Writer) -> None:
    commits: list[object] = []
    sa.event.listen(told.engine, "commit", commits.append)
    for number in range(1_200):
        pending.put(node(f"n{number}"), lambda: False)
    stop = threading.Event()
    thread = threading.Thread(target=writer.run, args=(stop,))
    thread.start()
    until(lambda: not len(pending), "all to be stored", timeout=30)
    stop.set()
    thread.join()
    assert len(commits) == 3
    assert len(told.rows(Node)) == 1_200


def test_what_is_there_when_it_stops_is_stored(told: Told, pending: Pending, writer: Writer) -> None:
    for number in range(3):
        pending.put(node(f"n{number}"), lambda: False)
    stop = threading.Event()
    stop.set()
    writer.run(stop)
    assert len(told.rows(Node)) == 3


class TestRefusals:
    def test_what_the_database_refuses_is_left_out_alone(self, told: Told, writer: Writer) -> None:
        entries = [node(f"n{number}") for number in range(9)]
        assert entries[4].row is not None
        entries[4].row["memory_capacity"] = 2**64
        assert writer.flush(entries, threading.Event())
        assert [row.name for row in told.rows(Node)] == [f"n{number}" for number in (0, 1, 2, 3, 5, 6, 7, 8)]
        assert writer._tally.counts("left_out") == {"Node": 1}
        assert writer._tally.counts("stored") == {"Node": 8}

    def test_a_plan_for_a_job_that_never_comes_is_left_out(self, told: Told) -> None:
        clock = FakeClock()
        writer = Writer(told.engine, told.place, Pending(), lambda: True, Tally(), clock)
        plan = objects.plan(objects.job(), by_person=True)
        entry = translate(Kind.SCALE_PLAN, Change("ADDED", plan), "user", START)
        assert entry is not None
        writer.flush([entry], threading.Event())
        assert writer.waiting == 1
        clock.advance(60)
        writer.flush([], threading.Event())
        assert (writer.waiting, writer._tally.counts("left_out")) == (0, {"ScalePlan": 1})
