"""How long, and in how much memory, pods are listed: Convoy's reader beside the Kubernetes client's typed call.

    python benchmarks/bench_kubernetes_list.py                 # 5,000 pods on an API server of its own
    python benchmarks/bench_kubernetes_list.py --pods 1000 --repeats 5

Each measurement is a process of its own that lists once unmeasured (connection, imports), then once measured:
seconds, and the growth of its peak memory since its start, imports of the way included. Printed are medians, and
ratios to the typed call in the same run. The API server's programs are those of ``make servers``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from convoy.core.cluster.kubernetes import open_reader
from convoy.core.cluster.port import Kind

MIB = 1024 * 1024


def typed(kubeconfig: Path) -> Callable[[], int]:
    """The client's models, all pods in one answer, as its examples do."""
    from kubernetes import client, config

    api = client.CoreV1Api(config.new_client_from_config(str(kubeconfig)))
    return lambda: len(api.list_pod_for_all_namespaces().items)


def typed_pages(kubeconfig: Path) -> Callable[[], int]:
    """The client's models, in pages of 500 that are dropped."""
    from kubernetes import client, config

    api = client.CoreV1Api(config.new_client_from_config(str(kubeconfig)))

    def count() -> int:
        found, more = 0, None
        while more != "":
            page = api.list_pod_for_all_namespaces(limit=500, _continue=more)
            found, more = found + len(page.items), page.metadata._continue or ""
        return found

    return count


def whole(kubeconfig: Path) -> Callable[[], int]:
    """Convoy's ``list``: all of them held."""
    reader = open_reader(kubeconfig)
    return lambda: len(reader.list(Kind.POD).items)


def pages(kubeconfig: Path) -> Callable[[], int]:
    """Convoy's ``pages``, as ``follow`` reads them: one page held."""
    reader = open_reader(kubeconfig)
    return lambda: sum(len(page.items) for page in reader.pages(Kind.POD))


WAYS = {"typed": typed, "typed, paged": typed_pages, "list": whole, "pages": pages}


def peak() -> int:
    """Return this program's peak of resident bytes; getrusage's would hold what its parent had when it forked."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def measure(way: str, kubeconfig: Path, expected: int) -> dict[str, float]:
    """Return seconds and bytes of one listing in this process."""
    before = peak()
    count = WAYS[way](kubeconfig)
    count()
    begin, used = time.perf_counter(), time.process_time()
    found = count()
    seconds, cpu = time.perf_counter() - begin, time.process_time() - used
    assert found == expected, f"{found} pods instead of {expected}"
    return {
        "seconds": seconds,
        "cpu": cpu,
        "peak": peak() - before,
    }


def pod(number: int) -> dict[str, Any]:
    """A worker's pod as an operator would make it, of usual size."""
    name = f"job-{number // 8:04}-edljob-worker-{number % 8}"
    env = [{"name": f"SETTING_{index}", "value": f"value-of-setting-{index}"} for index in range(12)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {
                "app": f"job-{number // 8:04}",
                "elasticjob.dlrover/name": f"job-{number // 8:04}",
                "elasticjob.dlrover/replica-type": "worker",
                "elasticjob.dlrover/rank-index": str(number % 8),
            },
        },
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/train:1",
                    "command": ["dlrover-run", "--nnodes=1:8", "train.py"],
                    "env": env,
                    "resources": {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {"memory": "16Gi"}},
                }
            ],
        },
    }


def status(number: int) -> dict[str, Any]:
    """What a kubelet says of it."""
    moment = "2026-01-01T00:00:00Z"
    return {
        "phase": "Running",
        "podIP": f"10.{number // 65536}.{number // 256 % 256}.{number % 256}",
        "conditions": [
            {"type": type_, "status": "True", "lastTransitionTime": moment}
            for type_ in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        ],
        "containerStatuses": [
            {
                "name": "main",
                "image": "registry.example/train:1",
                "imageID": "registry.example/train@sha256:" + "0" * 64,
                "containerID": "containerd://" + "1" * 64,
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": moment}},
            }
        ],
    }


def fill(kubeconfig: Path, count: int) -> int:
    """Make the pods and return the bytes of one of them on the wire, roughly."""
    from support.raw_objects import raw_objects

    with raw_objects(kubeconfig) as hands, ThreadPoolExecutor(4) as pool:

        def make(number: int) -> int:
            made = pod(number)
            hands.create(made)
            return len(json.dumps(hands.set_status(Kind.POD, "default", made["metadata"]["name"], **status(number))))

        return statistics.median_low(pool.map(make, range(count)))


def compare(kubeconfig: Path, count: int, repeats: int) -> None:
    """Measure each way in turn, and print."""
    results: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(repeats):
        for way in WAYS:
            command = [
                sys.executable,
                __file__,
                "--measure",
                way,
                "--kubeconfig",
                str(kubeconfig),
                "--pods",
                str(count),
            ]
            results[way].append(
                json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            )
    medians = {
        way: {name: statistics.median(one[name] for one in runs) for name in runs[0]} for way, runs in results.items()
    }
    base = medians["typed"]
    print(f"{'':14}{'seconds':>9}{'ratio':>7}{'CPU s':>9}{'ratio':>7}{'peak MiB':>10}{'ratio':>7}")
    for way, one in medians.items():
        print(
            f"{way:14}{one['seconds']:9.2f}{one['seconds'] / base['seconds']:7.2f}{one['cpu']:9.2f}"
            f"{one['cpu'] / base['cpu']:7.2f}{one['peak'] / MIB:10.0f}{one['peak'] / base['peak']:7.2f}"
        )


def main() -> None:
    """Run the comparison, or one measurement of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=5_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", choices=list(WAYS), help=argparse.SUPPRESS)
    parser.add_argument("--kubeconfig", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure, given.kubeconfig, given.pods)))
        return
    from servers.api_server import ApiServer

    with tempfile.TemporaryDirectory() as folder:
        server = ApiServer(Path(folder) / "api-server", controllers=False)
        server.install()
        try:
            server.start()
            size = fill(server.kubeconfig, given.pods)
            print(f"{given.pods} pods of {size} bytes, medians of {given.repeats}; ratios to the typed call")
            compare(server.kubeconfig, given.pods, given.repeats)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
