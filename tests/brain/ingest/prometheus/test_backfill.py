"""Ranges of the past in chunks: what Prometheus refuses isn't asked for, and what was broken off is begun again."""

import threading
from datetime import UTC, datetime

import pytest

from convoy.brain.ingest.prometheus.backfill import backfill, planned
from convoy.brain.ingest.prometheus.grid import MOST_STEPS
from convoy.brain.store.tables import Node, NodeLoad
from convoy.core.api.errors import Unavailable
from support.disposable import disposable_prometheus
from support.openmetrics import BEGIN, History, counting, every

pytestmark = pytest.mark.servers

HOUR = 3600


def history(machines, until, scrape=30):
    known = History()
    for machine in range(machines):
        labels = {"cpu": "0", "mode": "user", "instance": f"n{machine}:9100", "job": "node"}
        known.scraped("node_cpu_seconds_total", labels, every(scrape, until), counting(float(machine)))
    return known.text()


def span_of(since, until, step=30):
    moments = [datetime.fromtimestamp(BEGIN + second, UTC) for second in (since, until)]
    return planned(*moments, step, BEGIN + until, None)


def test_a_range_longer_than_prometheus_answers_at_once_comes_in_chunks(staged, home):
    with disposable_prometheus(home / "p", history=history(1, 5 * HOUR)) as server:
        stage = staged(server.url)
        filled, done = span_of(0, 5 * HOUR, step=1), []
        assert len(filled.span) > 11_000
        backfill(stage.collector, filled, done.append)
    assert done == sorted(done)
    assert done[-1] == len(filled.span) == filled.tally.moments == 5 * HOUR + 1
    assert max(later - earlier for earlier, later in zip([0, *done], done, strict=False)) <= MOST_STEPS
    assert filled.tally.nodes == len(stage.rows(NodeLoad)) == 5 * HOUR + 1 - 120


def test_collecting_again_stores_nothing_twice_and_changes_nothing(staged, home):
    with disposable_prometheus(home / "p", history=history(3, HOUR)) as server:
        stage = staged(server.url)
        stage.collect(0, 1800)
        before = stage.rows(NodeLoad)
        stage.collect(900, HOUR)
        stage.collect(0, HOUR)
        rows = stage.rows(NodeLoad)
    assert set(before) < set(rows)
    assert len(rows) == 3 * (HOUR - 120 + 30) / 30
    assert len(stage.rows(Node)) == 3


def test_what_is_too_much_for_prometheus_is_asked_for_in_smaller_parts(staged, home):
    flags = ["--query.max-samples=500"]
    with disposable_prometheus(home / "p", history=history(4, HOUR), flags=flags) as server:
        stage, filled, done = staged(server.url), span_of(0, HOUR), []
        backfill(stage.collector, filled, done.append)
    assert len(done) > 3
    assert filled.tally.nodes == len(stage.rows(NodeLoad)) == 4 * (HOUR - 120 + 30) / 30
    assert not [finding for finding, _ in stage.findings if "evaluated" in finding.message]


def test_what_is_too_much_at_a_single_moment_is_told(staged, home):
    flags = ["--query.max-samples=20"]
    with disposable_prometheus(home / "p", history=history(12, HOUR), flags=flags) as server:
        stage = staged(server.url)
        stage.collect(600, 660)
    [message] = [finding.message for finding, _ in stage.findings if "node.cpu_cores" in finding.message]
    assert "too many samples" in message
    assert stage.rows(NodeLoad) == []


def test_a_short_outage_is_waited_out(staged, home):
    with disposable_prometheus(home / "p", history=history(2, HOUR)) as server:
        stage, filled = staged(server.url), span_of(0, HOUR)
        server.kill()
        back = threading.Timer(1.0, server.start)
        back.start()
        backfill(stage.collector, filled, lambda _: None)
        back.join()
    assert filled.tally.moments == len(filled.span) == 121


def test_a_long_outage_ends_it_with_where_to_go_on(staged, home):
    with disposable_prometheus(home / "p", history=history(2, 2 * HOUR)) as server:
        stage, filled = staged(server.url), span_of(0, 2 * HOUR)
        with pytest.raises(Unavailable) as gone:
            backfill(stage.collector, filled, lambda _: server.kill(), patience=2.0)
        assert filled.tally.moments == 60
        assert "What came before is stored: go on with --from 2026-01-01T00:30:00+00:00" in str(gone.value)
        assert gone.value.reason == "PrometheusUnreachable"
        server.start()
        again = span_of(1800, 2 * HOUR)
        backfill(stage.collector, again, lambda _: None)
    assert len(stage.rows(NodeLoad)) == 2 * (2 * HOUR - 120 + 30) / 30
