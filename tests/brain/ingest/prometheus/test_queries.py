import tomllib
from pathlib import Path

import pytest

from convoy.brain.ingest.prometheus.durations import duration_of, seconds_of
from convoy.brain.ingest.prometheus.queries import COLUMNS, load
from convoy.brain.ingest.prometheus.queries_text import as_toml
from convoy.core.api.errors import InvalidSetting

MINE = """
[node.cpu_cores]
query = 'sum by (host) (rate(my_cpu[$window]))'
metrics = ["my_cpu"]
node = ["host"]
"""


@pytest.fixture
def file(home):
    path = home / "queries.toml"

    def write(text):
        path.write_text(text)
        return path

    return write


def test_every_column_of_load_has_a_built_in_query_for_machines_and_for_pods():
    measures = dict(load().measures())
    assert list(measures) == [f"{group}.{column}" for group in ("node", "pod") for column in COLUMNS]
    assert len(COLUMNS) == 8
    for query in measures.values():
        assert all(metric in query.query for metric in query.metrics)


def test_a_window_spans_four_scrapes_and_no_less_than_a_row(file):
    queries = load(file('scrape_interval = "15s"'))
    assert (queries.window(30), queries.window(300), queries.fresh()) == (60, 300, 23)
    promql = queries.promql(queries.node["disk_read"], 30)
    assert "[1m])" in promql
    assert "[23s] offset 1m)" in promql
    assert "$" not in promql


def test_a_file_takes_the_place_of_one_measure_and_leaves_the_others(file):
    queries, built_in = load(file(MINE)), load()
    assert queries.node["cpu_cores"].metrics == ["my_cpu"]
    assert queries.node["cpu_cores"].cut_port is True
    assert queries.node["memory_bytes"] == built_in.node["memory_bytes"]
    assert queries.pod == built_in.pod


def test_a_measure_can_be_left_out(file):
    queries = load(file("[pod.disk_read]\noff = true\n[node_names]\noff = true\n"))
    assert queries.node_names is None
    assert len(list(queries.measures())) == 2 * len(COLUMNS) - 1
    assert "pod.disk_read" not in dict(queries.measures())


@pytest.mark.parametrize("text", ["", MINE, "[pod.disk_read]\noff = true\n[node_names]\noff = true\n"])
def test_what_is_shown_can_be_given_back(file, text):
    queries = load(file(text))
    shown = as_toml(queries, 30)
    assert load(file(shown)) == queries
    assert set(tomllib.loads(shown)) == {"scrape_interval", "settle", "node_names", "node", "pod"}
    assert "$window is 2m" in shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[node.cpu_core]\noff = true", "node.cpu_core is no measure; did you mean cpu_cores?"),
        ("[node.temperature]\noff = true", "node.temperature is no measure; known are cpu_cores, memory_bytes"),
        ("[nodes.cpu_cores]\noff = true", "nodes isn't known; did you mean node?"),
        ("node = 3", "node is 3; expected tables such as [node.cpu_cores]"),
        (MINE.replace('node = ["host"]', ""), "node.cpu_cores.node is missing"),
        (MINE.replace('node = ["host"]', "node = []"), "node.cpu_cores.node"),
        (MINE.replace('"host"', '"ho st"'), "node.cpu_cores.node.0"),
        (MINE.replace("[node.", "[pod."), "pod.cpu_cores.namespace is missing"),
        (MINE + 'porto = "x"', "node.cpu_cores.porto isn't known"),
        (MINE + 'expoter = "x"', "node.cpu_cores.expoter isn't known; did you mean exporter?"),
        (MINE + "off = true", "node.cpu_cores.off stands beside other keys"),
        (MINE + "off = false", "node.cpu_cores.off stands beside other keys"),
        (MINE.replace("$window", "$__rate_interval"), "$__rate_interval isn't known; known are $window and $fresh"),
        (MINE.replace("'sum by (host) (rate(my_cpu[$window]))'", "''"), "node.cpu_cores.query is empty"),
        (MINE.replace('["my_cpu"]', "[]"), "node.cpu_cores.metrics"),
        (MINE + 'cut_port = "no"', "node.cpu_cores.cut_port"),
        ('scrape_interval = "half a minute"', "scrape_interval expected a duration in whole seconds such as 30s"),
        ('scrape_interval = "0s"', "scrape_interval expected at least 1s"),
        ("settle = 10", "settle Input should be a valid string (it is 10)"),
        ("[node.cpu_cores\n", "line 1"),
    ],
)
def test_a_wrong_file_is_refused_by_its_name_and_its_key(file, text, said):
    path = file(text)
    with pytest.raises(InvalidSetting) as refused:
        load(path)
    assert f"queries file {path}: " in str(refused.value)
    assert said in str(refused.value)


def test_a_file_that_is_not_there_is_named_with_the_remedy(home):
    with pytest.raises(InvalidSetting, match=r"nothing\.toml: No such file.*CONVOY_PROMETHEUS_QUERIES"):
        load(home / "nothing.toml")


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("5m", 300), ("1h30m", 5400), ("2d", 172800), ("0s", 0)])
def test_durations_are_read_and_written_as_prometheus_does(text, seconds):
    assert seconds_of(text) == seconds
    assert duration_of(seconds) == text


@pytest.mark.parametrize("text", ["", "30", "s", "1.5s", "-1s", "30s5m", "1w", "30 s"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="expected a duration in whole seconds"):
        seconds_of(text)


def test_the_page_names_every_measure_and_every_metric():
    page = (Path(__file__).parents[4] / "docs/prometheus.md").read_text()
    known = load()
    needed = {metric for _, query in known.measures() for metric in query.metrics} | set(known.node_names.metrics)
    assert [name for name in [*sorted(needed), *COLUMNS] if f"`{name}`" not in page] == []


def test_the_page_says_at_the_columns_and_in_its_limits_that_means_are_of_longer_than_a_rows_seconds():
    page = (Path(__file__).parents[4] / "docs/prometheus.md").read_text()
    window, step = load().window(30), 30
    columns = page.partition("## What is collected")[2].partition("\n## ")[0]
    assert f"is the step from one row to the next, {step} s" in columns
    assert f"4 scrape intervals long, {window} s" in columns
    means = [line for line in columns.splitlines() if line.startswith("| `") and "mean of the window" in line]
    rated = [column for column, query in load().node.items() if "[$window]" in query.query]
    assert [line.split("`")[1] for line in means] == rated
    limits = page.partition("## Limits")[2]
    assert f"A row's `seconds` is {step} while its means are of up to {window} s" in limits
    assert load().window(120) == 120  # as --every 2m


def test_the_pages_example_is_a_file_of_queries(file):
    page = (Path(__file__).parents[4] / "docs/prometheus.md").read_text()
    queries = load(file(page.partition("```toml\n")[2].partition("```")[0]))
    assert (queries.window(30), queries.fresh(), queries.settle) == (240, 90, "30s")
    assert queries.node["memory_bytes"].node == ["host"]
    assert "disk_read" not in queries.pod
