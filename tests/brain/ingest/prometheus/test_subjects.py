import pytest

from convoy.brain.ingest.prometheus.queries import load
from convoy.brain.ingest.prometheus.subjects import NodeNames, Pod, node_label, pod_of, without_port

QUERIES = load()


@pytest.mark.parametrize(
    ("label", "bare"),
    [
        ("gpu-1:9100", "gpu-1"),
        ("10.0.0.7:9100", "10.0.0.7"),
        ("[::1]:9100", "::1"),
        ("fe80::1", "fe80::1"),
        ("gpu-1", "gpu-1"),
        ("gpu-1:http", "gpu-1:http"),
        ("a:b:9100", "a:b:9100"),
        ("gpu-1:", "gpu-1:"),
    ],
)
def test_a_port_is_cut_and_nothing_else(label, bare):
    assert without_port(label) == bare


def test_the_first_label_that_is_not_empty_names_the_machine():
    query = QUERIES.node["accelerator_busy"]
    assert node_label({"node": "a", "Hostname": "b", "instance": "c:9400"}, query) == "a"
    assert node_label({"node": "", "Hostname": "b", "instance": "c:9400"}, query) == "b"
    assert node_label({"instance": "c:9400"}, query) == "c:9400"
    assert node_label({"job": "x"}, query) is None


@pytest.mark.parametrize("name", ["x" * 254, "a\nb", "a ", "\ud800"])
def test_a_name_that_the_store_cannot_hold_names_nothing(name):
    assert node_label({"node": name}, QUERIES.node["cpu_cores"]) is None


def test_an_address_has_the_name_that_was_its_own_at_the_moment():
    names = NodeNames()
    names.learn("10.0.0.7:9100", 30, "old")
    names.learn("10.0.0.7:9100", 60, "new")
    names.learn("fqdn.example:9100", 30, "short")
    assert names.of("10.0.0.7:9100", 30, cut_port=True) == "old"
    assert names.of("10.0.0.7:9400", 60, cut_port=True) == "new"  # another exporter of that machine
    assert names.of("10.0.0.7:9100", 90, cut_port=True) == "10.0.0.7"
    assert names.of("10.0.0.7:9100", 90, cut_port=False) == "10.0.0.7:9100"
    assert names.of("fqdn.example:9100", 30, cut_port=True) == "fqdn.example"  # a name is left as it is


def test_an_address_of_two_machines_names_neither_but_by_its_port():
    names = NodeNames()
    names.learn("10.0.0.7:9100", 30, "a")
    names.learn("10.0.0.7:9101", 30, "b")
    assert names.of("10.0.0.7:9101", 30, cut_port=True) == "b"
    assert names.of("10.0.0.7:9400", 30, cut_port=True) == "10.0.0.7"


def test_a_pod_is_named_by_its_own_labels_before_those_of_its_exporters_pod():
    query = QUERIES.pod["accelerator_busy"]
    exporter = {"namespace": "gpu-operator", "pod": "dcgm-x"}
    assert pod_of({"exported_namespace": "team", "exported_pod": "job-worker-0", **exporter}, query) == Pod(
        "team", "job-worker-0"
    )
    assert pod_of({"namespace": "team", "pod": "job-worker-0"}, query) == Pod("team", "job-worker-0")
    assert pod_of({"pod": "job-worker-0"}, query) is None
    assert pod_of({"namespace": "n" * 64, "pod": "job-worker-0"}, query) is None
