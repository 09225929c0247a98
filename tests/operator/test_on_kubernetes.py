"""Operators, masters and agents as real processes on a real API server; scheduler and kubelet alone are played."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from convoy.core.api import names
from convoy.core.api.job import ElasticJob
from convoy.core.cluster.kubernetes import KubernetesCluster
from convoy.core.cluster.port import Kind
from support.accounts import DEPLOY, applied, kubeconfig_of
from support.api_server import admin, cluster, identities, kubeconfig, namespace
from support.command import COMMAND
from support.machine import EXAMPLES, digits, records_in
from support.played_kubelet import PlayedKubelet, played_kubelet
from support.waiting import until

__all__ = ["admin", "cluster", "identities", "kubeconfig", "namespace"]
pytestmark = pytest.mark.servers


@contextmanager
def operator(kubeconfig: Path, namespace: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a replica of the operator for one namespace, with the rights that deploy/ gives it."""
    own = kubeconfig_of(kubeconfig, namespace, "convoy-operator", log.parent)
    command = [*COMMAND, "operator", "--kubernetes", "--kubeconfig", str(own), "--namespace", namespace]
    settings = {
        names.ENV_POD_NAMESPACE: namespace,
        "CONVOY_MASTER_ACCOUNT": "convoy-master",
        "CONVOY_MASTER_ROLE": "convoy-master",
    }
    with open(log, "ab") as output:
        process = subprocess.Popen(command, stderr=output, env={**os.environ, **settings})
    try:
        yield process
    finally:
        process.kill()
        process.wait(20)


@pytest.fixture(autouse=True)
def rights(kubeconfig: Path, namespace: str) -> Iterator[None]:
    with applied(kubeconfig, DEPLOY / "operator" / "rbac.yaml", namespace):
        yield


@pytest.fixture
def kubelet(cluster: KubernetesCluster, kubeconfig: Path, namespace: str, tmp_path: Path) -> Iterator[PlayedKubelet]:
    folder = tmp_path / "pods"
    folder.mkdir()
    with played_kubelet(cluster, kubeconfig, namespace, folder) as played:
        yield played


@pytest.mark.long
def test_a_job_trains_through_the_loss_of_a_worker_its_master_and_the_leading_operator(
    cluster: KubernetesCluster, kubeconfig: Path, namespace: str, kubelet: PlayedKubelet, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    here = Watched(cluster, namespace, shared)
    with (
        operator(kubeconfig, namespace, tmp_path / "first.log") as first,
        operator(kubeconfig, namespace, tmp_path / "second.log") as second,
    ):
        replicas = {tmp_path / "first.log": first, tmp_path / "second.log": second}
        [leader] = until(lambda: [one for log, one in replicas.items() if leads(log)], "a leader", timeout=40.0)
        cluster.create(here.manifest(), field_manager="kubectl")
        here.await_more(timeout=90.0)
        assert here.phase() == "Running"
        until(lambda: here.replicas() == 2, "the number that /scale shows")

        [worker, *_] = here.pods("worker")
        cluster.delete(Kind.POD, namespace, worker, grace_seconds=0)
        until(
            lambda: len(here.pods("worker")) == 2 and worker not in here.pods("worker"), "its replacement", timeout=40
        )
        here.await_more(timeout=60.0)

        master = here.pods("dlrover-master")[-1]
        pids = {name: kubelet.pid(name) for name in here.pods("worker")}
        os.kill(kubelet.pid(master), signal.SIGKILL)
        until(lambda: here.pods("dlrover-master") not in ([], [master]), "the next master", timeout=40.0)
        until(lambda: here.job().status.master.epoch == 2, "the next master's epoch", timeout=40.0)
        here.await_more(timeout=60.0)
        assert {name: kubelet.pid(name) for name in here.pods("worker")} == pids

        os.kill(leader.pid, signal.SIGKILL)
        [_, worker] = here.pods("worker")
        cluster.delete(Kind.POD, namespace, worker, grace_seconds=0)
        until(lambda: worker not in here.pods("worker") and len(here.pods("worker")) == 2, "another", timeout=60.0)
        assert all(map(leads, replicas))
        here.await_more(timeout=60.0)

        (shared / "finish").touch()
        until(lambda: here.phase() == "Succeeded", "the job's end", timeout=60.0)
        cluster.delete(Kind.ELASTIC_JOB, namespace, "digits")
        until(lambda: here.left() == [], "all of it to be gone", timeout=60.0)


def test_a_template_that_the_cluster_would_not_take_is_refused_by_its_path(
    cluster: KubernetesCluster, kubeconfig: Path, namespace: str, tmp_path: Path
) -> None:
    here = Watched(cluster, namespace, tmp_path)
    wrong = here.manifest()
    del wrong["spec"]["replicaSpecs"]["worker"]["template"]["spec"]["containers"][0]["image"]
    cluster.create(wrong, field_manager="kubectl")
    path = "spec.replicaSpecs.worker.template.spec.containers[0].image"
    with operator(kubeconfig, namespace, tmp_path / "operator.log") as running:
        said = until(lambda: [one for one in here.job().status.conditions if path in one.message], path, timeout=40.0)
        assert {one.reason for one in said} == {"InvalidManifest"}
        assert here.phase() == "Failed"
        assert here.pods("worker") == here.pods("dlrover-master") == []
        running.terminate()
        assert running.wait(30) == 0


def leads(log: Path) -> bool:
    """Whether a replica of the operator has led, by its log."""
    return "operator leads" in log.read_text()


class Watched:
    """The job of the test."""

    def __init__(self, cluster: KubernetesCluster, namespace: str, shared: Path) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._shared = shared

    def manifest(self) -> dict[str, Any]:
        """Return a job of two workers that share a folder; their number is Convoy's to write."""
        made = digits("digits", workers=2, worker__restartCount=100)
        worker = made["spec"]["replicaSpecs"]["worker"]
        worker |= {"minReplicas": worker["replicas"], "maxReplicas": worker.pop("replicas")}
        made["metadata"]["namespace"] = self._namespace
        container = made["spec"]["replicaSpecs"]["worker"]["template"]["spec"]["containers"][0]
        container["env"].append({"name": names.ENV_JOB_DIR, "value": str(self._shared)})
        container |= {"image": "train:1", "workingDir": str(EXAMPLES)}
        return made

    def job(self) -> ElasticJob:
        return ElasticJob.from_manifest(self._cluster.get(Kind.ELASTIC_JOB, self._namespace, "digits"))

    def phase(self) -> str | None:
        return self.job().status.phase

    def replicas(self) -> int | None:
        """Return the number of workers that stands in the job's spec."""
        found = self._cluster.get(Kind.ELASTIC_JOB, self._namespace, "digits")
        number: int | None = found["spec"]["replicaSpecs"]["worker"].get("replicas")
        return number

    def pods(self, role: str) -> list[str]:
        """Return the pods of a role that aren't over, the oldest first."""
        found = self._cluster.list(Kind.POD, self._namespace, {names.LABEL_JOB: "digits", names.LABEL_ROLE: role})
        alive = [pod for pod in found.items if pod.get("status", {}).get("phase") in (None, "Pending", "Running")]
        return [
            pod["metadata"]["name"] for pod in sorted(alive, key=lambda one: one["metadata"]["creationTimestamp"])
        ]

    def step(self) -> int:
        """Return the highest step that was finished, 0 where none was."""
        return max((record.step for record in records_in(self._shared)), default=0)

    def await_more(self, steps: int = 10, *, timeout: float) -> None:
        target = self.step() + steps
        until(lambda: self.step() >= target, f"step {target}", timeout=timeout, every=0.2)

    def left(self) -> list[str]:
        """Return what is left of the job."""
        kinds = (Kind.POD, Kind.SERVICE, Kind.SECRET, Kind.CONFIG_MAP, Kind.SCALE_PLAN, Kind.ELASTIC_JOB)
        found = [(kind, one["metadata"]) for kind in kinds for one in self._cluster.list(kind, self._namespace).items]
        return [f"{kind} {one['name']}" for kind, one in found if one["name"] != "kube-root-ca.crt"]
