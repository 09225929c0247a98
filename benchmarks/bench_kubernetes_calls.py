"""How many calls a second Convoy's Kubernetes adapter does, and what one costs this process.

    python benchmarks/bench_kubernetes_calls.py                # 300 calls of each kind on an API server of its own
    python benchmarks/bench_kubernetes_calls.py --calls 1000 --threads 16

Printed for each kind of call, one at a time and by several threads: calls a second, milliseconds (median, 99th of
100), and milliseconds of this process's CPU a call, which say more where API server and etcd share the machine. At
the end: how soon a watch tells of a write, the write included. The API server's programs are those of ``make
servers``.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from bench_kubernetes_list import pod

from convoy.core.api import names
from convoy.core.cluster.kubernetes import KubernetesCluster
from convoy.core.cluster.port import Kind
from support import manifests

Call = Callable[[int], object]
_PHASES = ("Pending", "Running")


def calls(cluster: KubernetesCluster) -> dict[str, Call]:
    """Return what is measured, by name; each is called with numbers that don't come twice."""
    jobs = [cluster.apply(manifests.job(f"j{number}"), field_manager="bench")["metadata"] for number in range(50)]

    def status(number: int, *fields: str) -> object:
        metadata = {field: jobs[number % len(jobs)][field] for field in ("name", "namespace", *fields)}
        head = {"apiVersion": names.API_VERSION, "kind": "ElasticJob", "metadata": metadata}
        return cluster.apply_status(
            {**head, "status": {"phase": _PHASES[number // len(jobs) % 2]}}, field_manager="bench"
        )

    def placed(number: int) -> dict[str, Any]:
        made = pod(number)
        return {**made, "spec": {**made["spec"], "nodeName": "n1"}}  # so that its end takes two steps

    def name(number: int) -> str:
        return str(pod(number)["metadata"]["name"])

    return {
        "get a job": lambda number: cluster.get(Kind.ELASTIC_JOB, "default", "j1"),
        "apply a job's status": status,
        "apply it by uid": lambda number: status(number, "uid"),
        "create a pod": lambda number: cluster.create(placed(number), field_manager="bench"),
        "list a job's 8 pods": lambda number: cluster.list(
            Kind.POD, "default", {names.LABEL_JOB: f"job-{number // 8:04}"}
        ),
        "delete a pod": lambda number: cluster.delete(Kind.POD, "default", name(number), grace_seconds=30),
    }


def measure(call: Call, numbers: range, threads: int) -> str:
    """Return a row's figures."""
    times: list[float] = []

    def one(number: int) -> None:
        begin = time.perf_counter()
        call(number)
        times.append(time.perf_counter() - begin)

    begin, used = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(one, numbers))
    seconds, cpu = time.perf_counter() - begin, time.process_time() - used
    median, worst = statistics.median(times) * 1e3, statistics.quantiles(times, n=100)[-1] * 1e3
    return f"{len(numbers) / seconds:8.0f}{median:10.1f}{worst:10.1f}{cpu / len(numbers) * 1e3:10.2f}"


def told_after(cluster: KubernetesCluster, writes: int) -> list[float]:
    """Return the seconds from before each write until a watch told of it."""
    since, delays = cluster.list(Kind.CONFIG_MAP, "default").resource_version, []

    def listen() -> None:
        watch = cluster.watch(Kind.CONFIG_MAP, since, "default", timeout=120)
        for change in itertools.islice(watch, writes):
            delays.append(time.time() - float(change.object["data"]["sent"]))

    listening = threading.Thread(target=listen)
    listening.start()
    for _ in range(writes):
        data = {"sent": repr(time.time())}
        beat = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "beat"}, "data": data}
        cluster.apply(beat, field_manager="bench")
        time.sleep(0.01)
    listening.join()
    return delays


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--threads", type=int, default=8)
    given = parser.parse_args()
    from servers.api_server import ApiServer

    with tempfile.TemporaryDirectory() as folder:
        server = ApiServer(Path(folder) / "api-server", controllers=False)
        server.install()
        try:
            server.start()
            with KubernetesCluster.open(server.kubeconfig) as cluster:
                print(f"{'':22}{'threads':>8}{'calls/s':>8}{'median ms':>10}{'p99 ms':>10}{'CPU ms':>10}")
                for what, call in calls(cluster).items():
                    for round_, threads in enumerate((1, given.threads)):
                        numbers = range(round_ * given.calls, (round_ + 1) * given.calls)
                        print(f"{what:22}{threads:8}{measure(call, numbers, threads)}")
                delays = told_after(cluster, given.calls)
            median, worst = statistics.median(delays) * 1e3, statistics.quantiles(delays, n=100)[-1] * 1e3
            print(f"told by a watch: median {median:.1f} ms, p99 {worst:.1f} ms; load {os.getloadavg()[0]:.1f}")
        finally:
            server.stop()


if __name__ == "__main__":
    main()
