from convoy.brain.ingest.prometheus.findings import MISSING, SILENT, Seen, changes, judge
from convoy.brain.ingest.prometheus.queries import load

QUERIES = dict(load().measures())


def missing(*measures, present=(), settled=()):
    empty = {measure: QUERIES[measure] for measure in measures}
    return judge(Seen(empty, frozenset(present), frozenset(settled)), "30s")


def test_a_missing_metric_is_named_with_its_measures_and_its_exporter():
    [finding] = missing("node.memory_bytes", present=["node_memory_MemTotal_bytes"]).values()
    assert finding.reason == MISSING
    assert finding.message.startswith(
        "node_memory_MemAvailable_bytes is not in Prometheus, so that node.memory_bytes can't be collected; node "
        "exporter exports it"
    )
    assert not finding.note


def test_an_exporter_that_is_not_scraped_is_one_finding_and_an_optional_one_a_note():
    found = missing("node.accelerator_busy", "pod.accelerator_busy", "node.accelerator_memory", "pod.cpu_cores")
    by_exporter = {finding.note: finding.message for finding in found.values()}
    assert len(found) == 2
    assert "DCGM_FI_DEV_FB_USED, DCGM_FI_DEV_GPU_UTIL are not in Prometheus" in by_exporter[True]
    assert "container_cpu_usage_seconds_total is not in Prometheus" in by_exporter[False]


def test_a_query_that_gives_nothing_is_a_finding_once_its_metric_has_been_there_long_enough():
    metric = "node_cpu_seconds_total"
    assert missing("node.cpu_cores", present=[metric]) == {}
    [finding] = missing("node.cpu_cores", present=[metric], settled=[metric]).values()
    assert finding.reason == SILENT
    assert "scraped every 30s or more often" in finding.message


def test_a_finding_is_told_when_it_comes_and_when_it_goes():
    first, second = missing("pod.cpu_cores"), missing("pod.cpu_cores", "node.accelerator_busy")
    came, went = changes({}, first)
    assert (len(came), went) == (1, [])
    assert changes(first, first) == ([], [])
    came, went = changes(first, second)
    assert [finding.note for finding in came] == [True]
    came, went = changes(second, first)
    assert (came, [finding.over for finding in went]) == (
        [],
        ["DCGM_FI_DEV_GPU_UTIL is in Prometheus again, or needed no more"],
    )
    [refused] = judge(Seen(refused={"node.cpu_cores": "parse error"}), "30s").values()
    assert "node.cpu_cores: its query can't be evaluated (parse error)" in refused.message
    [unnamed] = judge(Seen(unnamed={"node.cpu_cores": "node or instance"}), "30s").values()
    assert "no series has a usable label node or instance" in unnamed.message
