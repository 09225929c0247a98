"""What Prometheus doesn't have is named, once; the rest is stored."""

import pytest

from convoy.brain.ingest.prometheus.queries import load
from convoy.brain.store.migrate import migrate
from convoy.brain.store.tables import NodeLoad
from support.disposable import disposable_prometheus
from support.openmetrics import History, counting, every

pytestmark = pytest.mark.servers


@pytest.fixture
def store(home):
    """Return the URL of a database on one kind of server: it is Prometheus that is looked at here."""
    url = f"sqlite:///{home / 'one.db'}"
    migrate(url)
    return url


NODE = {"instance": "a:9100", "job": "node"}


def history(until=7200, gpus_since=None):
    known = History()
    known.scraped("node_cpu_seconds_total", {**NODE, "cpu": "0", "mode": "user"}, every(30, until), counting(1.0))
    known.scraped("node_memory_MemTotal_bytes", NODE, every(30, until), lambda _: 2**33)
    if gpus_since is not None:
        of = {"Hostname": "a", "job": "dcgm"}
        known.scraped("DCGM_FI_DEV_GPU_UTIL", of, every(30, until, since=gpus_since), lambda _: 50.0)
        known.scraped("DCGM_FI_DEV_FB_USED", of, every(30, until, since=gpus_since), lambda _: 1.0)
    return known.text()


def told(stage):
    """Return what was told, and forget it: (came, note, message or what is said when it is over)."""
    said = [(came, finding.note, finding.message if came else finding.over) for finding, came in stage.findings]
    stage.findings.clear()
    return said


def test_each_missing_metric_is_named_once_and_the_others_are_stored(staged, home):
    with disposable_prometheus(home / "p", history=history()) as server:
        stage = staged(server.url)
        assert stage.collect(600, 600).nodes == 1
        first = told(stage)
        for second in (630, 660):
            stage.collect(second, second)
        assert told(stage) == []
    [row] = [row for row in stage.rows(NodeLoad) if row.ended_at.second == 0 and row.ended_at.minute == 10]
    assert (row.cpu_cores, row.memory_bytes) == (pytest.approx(1.0), None)
    notes = [message for came, note, message in first if came and note]
    warnings = [message for came, note, message in first if came and not note]
    assert len(first) == 3
    assert len(notes) == 1
    assert notes[0].startswith("DCGM_FI_DEV_FB_USED, DCGM_FI_DEV_GPU_UTIL are not in Prometheus")
    of_nodes = next(message for message in warnings if "node_memory_MemAvailable_bytes" in message)
    assert "node_memory_MemTotal_bytes" not in of_nodes
    assert "node.disk_read, node.disk_written, node.memory_bytes" in of_nodes
    assert "node exporter exports them" in of_nodes
    of_pods = next(message for message in warnings if "container_cpu_usage_seconds_total" in message)
    assert "cAdvisor (the kubelet's /metrics/cadvisor) exports them" in of_pods


def test_a_metric_that_comes_is_told_and_stored_from_then_on(staged, home):
    with disposable_prometheus(home / "p", history=history(gpus_since=3600)) as server:
        stage = staged(server.url)
        stage.collect(600, 600)
        told(stage)
        stage.collect(3600, 3600)
    assert (False, True, "DCGM_FI_DEV_FB_USED, DCGM_FI_DEV_GPU_UTIL are in Prometheus again, or needed no more") in (
        told(stage)
    )
    assert stage.by_second(NodeLoad, "accelerator_busy") == {600: None, 3600: 0.5}


def test_a_query_that_gives_nothing_though_its_metric_is_there_is_told(staged, home):
    file = home / "queries.toml"
    file.write_text('scrape_interval = "5s"')
    with disposable_prometheus(home / "p", history=history()) as server:
        stage = staged(server.url, queries=load(file))
        stage.collect(610, 610, step=10)
    silent = [message for came, _, message in told(stage) if "gives nothing" in message]
    assert len(silent) == 1
    assert "node.cpu_cores: node_cpu_seconds_total is in Prometheus" in silent[0]
    assert "scraped every 5s or more often (scrape_interval)" in silent[0]


def test_a_query_that_cannot_be_evaluated_is_told_and_the_others_are_stored(staged, home):
    file = home / "queries.toml"
    measure = '[node.{}]\nquery = "{}"\nmetrics = ["node_cpu_seconds_total"]\nnode = ["{}"]\n'
    file.write_text(
        measure.format("disk_written", "node_cpu_seconds_total * on (instance) node_cpu_seconds_total", "instance")
        + measure.format("network_sent", "sum by (instance) (node_cpu_seconds_total)", "host")
    )
    known = History()
    for mode in ("user", "system"):
        labels = {**NODE, "cpu": "0", "mode": mode}
        known.scraped("node_cpu_seconds_total", labels, every(30, 3600), counting(1.0))
    with disposable_prometheus(home / "p", history=known.text()) as server:
        stage = staged(server.url, queries=load(file))
        tally = stage.collect(600, 660)
    said = [message for came, _, message in told(stage) if came]
    assert (
        len([message for message in said if "node.disk_written: its query" in message and "many-to-many" in message])
        == 1
    )
    assert (
        len([message for message in said if "node.network_sent: no series has a usable label host" in message]) == 1
    )
    assert stage.by_second(NodeLoad, "cpu_cores") == {second: pytest.approx(2.0) for second in (600, 630, 660)}
    assert (tally.moments, tally.nodes) == (3, 3)
    assert tally.dropped == {("node.network_sent", "without a usable name"): 3}
