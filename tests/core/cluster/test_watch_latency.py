"""How soon a watch hears of other processes' commits, and what waiting costs."""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

from convoy.core.api.meta import Manifest
from convoy.core.cluster.local import LocalCluster, open_cluster
from convoy.core.cluster.port import Kind
from support.pods import cpu_seconds

WRITE = """
import sys, time
from pathlib import Path
from convoy.core.cluster.local import open_cluster
with open_cluster(Path(sys.argv[1])) as cluster:
    for number in range(int(sys.argv[2])):
        time.sleep(0.05)
        data = {"sent": str(time.time()), "number": str(number)}
        manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "beat"}, "data": data}
        cluster.apply(manifest, field_manager="t")
"""


def test_another_processes_changes_come_complete_in_order_and_soon(cluster: LocalCluster, state_dir: Path) -> None:
    since = cluster.list(Kind.SECRET).resource_version
    delays, numbers = [], []
    with subprocess.Popen([sys.executable, "-c", WRITE, state_dir, "30"]):
        for change in cluster.watch(Kind.SECRET, since, timeout=30):
            delays.append(time.time() - float(change.object["data"]["sent"]))
            numbers.append(int(change.object["data"]["number"]))
            if len(numbers) == 30:
                break
    assert numbers == list(range(30))
    assert statistics.median(delays) < 0.05


def test_waiting_costs_next_to_nothing(cluster: LocalCluster) -> None:
    since = cluster.list(Kind.POD).resource_version
    waiting = [
        threading.Thread(target=lambda: list(cluster.watch(Kind.POD, since, timeout=2.0)), daemon=True)
        for _ in range(5)
    ]
    for thread in waiting:
        thread.start()
    time.sleep(0.2)
    begin = cpu_seconds()
    for thread in waiting:
        thread.join(10)
    assert cpu_seconds() - begin < 0.1  # of 2 s: below 5 % of a core for five watches, on a noisy machine


def test_close_ends_the_watches(state_dir: Path) -> None:
    cluster = open_cluster(state_dir)
    heard: list[list[Manifest]] = []
    waiting = threading.Thread(
        target=lambda: heard.append([one.object for one in cluster.watch(Kind.POD, "0", timeout=60)])
    )
    waiting.start()
    time.sleep(0.1)
    cluster.close()
    waiting.join(5)
    assert heard == [[]]
