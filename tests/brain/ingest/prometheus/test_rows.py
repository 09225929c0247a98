from convoy.brain.ingest.prometheus.queries import COLUMNS, load
from convoy.brain.ingest.prometheus.rows import Loads, measures, names_of
from convoy.brain.ingest.prometheus.subjects import NodeNames, Pod

QUERIES = load()


def series(values, **labels):
    return {"metric": labels, "values": list(values)}


def nodes(column, *answer):
    loads = Loads()
    loads.add_nodes(column, QUERIES.node[column], answer, NodeNames())
    return loads


def test_what_is_no_number_of_a_machine_is_dropped_and_counted():
    values = ["1.5", "NaN", "+Inf", "-Inf", "-0.1", "1e16"]
    loads = nodes("cpu_cores", series(enumerate(values), node="a"), series([(0, "2")], job="x"))
    assert loads.nodes == {("a", 0): {"cpu_cores": 1.5}}
    assert dict(loads.dropped) == {
        ("node.cpu_cores", "NaN"): 1,
        ("node.cpu_cores", "infinite"): 2,
        ("node.cpu_cores", "negative"): 1,
        ("node.cpu_cores", "above 1e15"): 1,
        ("node.cpu_cores", "without a usable name"): 1,
    }


def test_of_two_series_of_one_machine_the_larger_counts_in_either_order():
    one, other = series([(30, "1")], node="a", job="x"), series([(30, "2")], instance="a:9100", job="y")
    for answer in ((one, other), (other, one)):
        loads = nodes("cpu_cores", *answer)
        assert loads.nodes == {("a", 30): {"cpu_cores": 2.0}}
        assert sum(loads.dropped.values()) == 1


def test_measures_of_one_moment_make_one_row_and_what_is_not_known_is_none():
    loads = nodes("cpu_cores", series([(30, "1")], node="a"))
    loads.add_nodes(
        "memory_bytes", QUERIES.node["memory_bytes"], [series([(30, "2.6"), (60, "3")], node="a")], NodeNames()
    )
    assert set(loads.nodes) == {("a", 30), ("a", 60)}
    row = measures(loads.nodes["a", 30])
    assert list(row) == list(COLUMNS)
    assert (row["cpu_cores"], row["memory_bytes"], row["disk_read"]) == (1.0, 3, None)
    assert isinstance(row["memory_bytes"], int)


def test_an_accelerator_that_no_pod_uses_is_not_counted_as_a_fault():
    loads = Loads()
    free, used = series([(30, "0")], job="dcgm"), series([(30, "0.5")], namespace="team", pod="p")
    loads.add_pods("accelerator_busy", QUERIES.pod["accelerator_busy"], [free, used])
    assert loads.pods == {(Pod("team", "p"), 30): {"accelerator_busy": 0.5}}
    assert not loads.dropped


def test_names_of_machines_come_from_series_that_have_both_labels():
    names = names_of(
        [series([(30, "1")], instance="10.0.0.7:9100", nodename="gpu-1"), series([(30, "1")])], "instance", "nodename"
    )
    assert names.of("10.0.0.7:9100", 30, cut_port=True) == "gpu-1"
