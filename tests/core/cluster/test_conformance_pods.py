"""What every adapter does whose cluster runs pods: their processes, output and ends.

That is one machine. On Kubernetes it takes nodes, which an API server alone hasn't; what becomes of a pod's object is
held of both by ``test_conformance.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from convoy.core.api.meta import Manifest
from convoy.core.cluster.local import LocalKubelet, open_cluster
from convoy.core.cluster.port import Cluster, Kind
from support.pods import end_all, main_pid, pod, python, runs, terminated, wait_gone, wait_phase
from support.waiting import until


@contextmanager
def _local(state_dir: Path) -> Iterator[Cluster]:
    with open_cluster(state_dir) as cluster:
        kubelet = LocalKubelet(cluster)
        kubelet.start()
        yield cluster
        end_all(cluster)
        kubelet.stop()


ADAPTERS: dict[str, Callable[[Path], AbstractContextManager[Cluster]]] = {"local": _local}
"""By name, what opens an empty cluster that runs pods."""


@pytest.fixture(params=list(ADAPTERS))
def port(request: pytest.FixtureRequest, state_dir: Path) -> Iterator[Cluster]:
    with ADAPTERS[request.param](state_dir) as cluster:
        yield cluster


def test_a_pod_runs_and_succeeds_and_its_log_is_kept(port: Cluster) -> None:
    port.create(pod("hello", "sh", "-c", "echo one; echo two >&2; echo three"), field_manager="t")
    ended = wait_phase(port, "hello", "Succeeded")
    assert terminated(ended)["exitCode"] == 0
    assert terminated(ended)["reason"] == "Completed"
    assert port.logs("default", "hello") == "one\ntwo\nthree\n"
    assert port.logs("default", "hello", tail=2) == "two\nthree\n"


def test_a_pod_that_fails_tells_its_exit_code(port: Cluster) -> None:
    port.create(pod("bad", "sh", "-c", "exit 3"), field_manager="t")
    assert terminated(wait_phase(port, "bad", "Failed"))["exitCode"] == 3


def test_secrets_and_fields_reach_the_environment(port: Cluster) -> None:
    metadata = {"name": "token", "namespace": "default"}
    token: Manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"token": "czNjcjN0"}}
    port.create(token, field_manager="t")
    env = [
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "token"}}},
        {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "GREETING", "value": "hello $(WHO)"},
    ]
    port.create(pod("env", "sh", "-c", "echo $TOKEN $GREETING $0", "$(TOKEN)-$$(WHO)", env=env), field_manager="t")
    wait_phase(port, "env", "Succeeded")
    assert port.logs("default", "env") == "s3cr3t hello env s3cr3t-$(WHO)\n"


def test_a_deleted_pod_may_end_in_its_grace(port: Cluster) -> None:
    code = "import signal,sys,time\nsignal.signal(15, lambda *_: sys.exit(0))\nprint('up')\ntime.sleep(60)"
    port.create(python("polite", code), field_manager="t")
    pid = main_pid(wait_phase(port, "polite", "Running"))
    until(lambda: port.logs("default", "polite") == "up\n", "its first line")
    since = port.list(Kind.POD).resource_version
    port.delete(Kind.POD, "default", "polite", grace_seconds=20)
    assert port.get(Kind.POD, "default", "polite")["metadata"]["deletionTimestamp"]
    wait_gone(port, "polite", timeout=5)
    assert not runs(pid)
    last = list(port.watch(Kind.POD, since, timeout=0.2))[-1]
    assert last.type == "DELETED"
    assert terminated(last.object)["exitCode"] == 0


def test_a_pod_that_wont_end_is_killed_when_its_grace_is_over(port: Cluster) -> None:
    code = "import signal,time\nsignal.signal(15, signal.SIG_IGN)\nprint('up')\ntime.sleep(60)"
    port.create(python("stubborn", code), field_manager="t")
    pid = main_pid(wait_phase(port, "stubborn", "Running"))
    until(lambda: port.logs("default", "stubborn") == "up\n", "its first line")
    begin = time.monotonic()
    port.delete(Kind.POD, "default", "stubborn", grace_seconds=1)
    wait_gone(port, "stubborn", timeout=8)
    assert 0.9 <= time.monotonic() - begin < 5
    assert not runs(pid)


def test_a_pod_that_doesnt_fit_waits_and_says_why(port: Cluster) -> None:
    huge = pod("huge", "true", resources={"requests": {"cpu": "10000"}})
    port.create(huge, field_manager="t")

    def placed() -> Manifest:
        conditions = port.get(Kind.POD, "default", "huge")["status"].get("conditions", [])
        return next((one for one in conditions if one["type"] == "PodScheduled"), {})

    until(lambda: placed().get("reason") == "Unschedulable", "a word on where it can run")
    assert placed()["status"] == "False"
    assert "cpu" in placed()["message"]
    port.delete(Kind.POD, "default", "huge")
    wait_gone(port, "huge", timeout=3)


def test_the_cluster_has_nodes_with_capacity(port: Cluster) -> None:
    nodes = port.list(Kind.NODE).items
    assert nodes
    assert all({"cpu", "memory"} <= one["status"]["allocatable"].keys() for one in nodes)
