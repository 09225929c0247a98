"""The Prometheus that tests share, what they add to it, and one with a history of a test's own."""

from __future__ import annotations

import json
import os
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from support.disposable import disposable_prometheus
from support.exporter import scraped
from support.waiting import until

pytestmark = pytest.mark.servers

GPU = 'DCGM_FI_DEV_GPU_UTIL{{gpu="0",Hostname="node-a"}} {}\n'


@pytest.fixture
def address():
    if not os.environ.get("CONVOY_TEST_PROMETHEUS_URL"):
        pytest.skip("no Prometheus runs for the tests")
    return os.environ["CONVOY_TEST_PROMETHEUS_URL"]


@pytest.fixture
def targets(address):
    if not os.environ.get("CONVOY_TEST_PROMETHEUS_TARGETS"):
        pytest.skip("CONVOY_TEST_PROMETHEUS_URL is set without CONVOY_TEST_PROMETHEUS_TARGETS")
    return Path(os.environ["CONVOY_TEST_PROMETHEUS_TARGETS"])


def query(address, expression, **at):
    asked = urllib.parse.urlencode({"query": expression, **at})
    kind = "query_range" if "step" in at else "query"
    with urllib.request.urlopen(f"{address}/api/v1/{kind}?{asked}", timeout=10) as answer:
        return json.load(answer)["data"]["result"]


def test_the_node_exporter_is_scraped_each_second(address):
    until(lambda: query(address, 'up{job="node"} == 1'), "the node exporter to be scraped", timeout=20)
    counted = 'count_over_time(node_cpu_seconds_total{job="node",cpu="0",mode="idle"}[10s]) >= 5'
    until(lambda: query(address, counted), "5 samples in 10 s", timeout=30)


def test_a_target_is_added_changed_and_taken_away(address, targets):
    series = 'DCGM_FI_DEV_GPU_UTIL{job="made-up"}'
    with scraped(targets, GPU.format(35), job="made-up", labels={"instance": "node-a"}) as exporter:
        (found,) = until(lambda: query(address, series), "the made-up metric", timeout=30)
        assert found["metric"]["instance"] == "node-a"
        assert found["value"][1] == "35"
        exporter.text = GPU.format(90)
        until(lambda: query(address, f"{series} == 90"), "the changed value")
    until(lambda: not query(address, series), "the series to be stale", timeout=30)


def test_a_history_is_queried_and_outlives_a_kill(home):
    begin = int(time.time()) - 40 * 24 * 3600
    lines = [f'node_load1{{instance="node-a"}} {minute} {begin + 60 * minute}' for minute in range(180)]
    history = "\n".join(["# TYPE node_load1 gauge", *lines, "# EOF", ""])
    with disposable_prometheus(home / "prometheus", history=history) as server:
        for _ in range(2):
            (series,) = query(server.url, "node_load1", start=begin, end=begin + 179 * 60, step=60)
            assert [float(value) for _, value in series["values"]] == [float(minute) for minute in range(180)]
            server.kill()
            server.start()
