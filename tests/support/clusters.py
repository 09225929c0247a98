"""Both adapters of the cluster port, each with what runs its pods, as far as their objects show it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from convoy.core.api.meta import Manifest
from convoy.core.cluster.kubernetes import KubernetesCluster
from convoy.core.cluster.local import LocalKubelet, open_cluster
from convoy.core.cluster.port import Cluster, Kind
from servers.api_server import ApiServer
from support.pods import end_all, wait_gone, wait_phase
from support.raw_objects import RawObjects, raw_objects


class Node(Protocol):
    """What runs pods, as far as their objects show it."""

    def run(self, manifest: Manifest) -> None:
        """Have a pod created and running."""

    def end(self, name: str) -> None:
        """See to it that a pod that was deleted has ended."""


class OneMachine:
    """The local kubelet does it all."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def run(self, manifest: Manifest) -> None:
        self._cluster.create(manifest, field_manager="t")
        wait_phase(self._cluster, manifest["metadata"]["name"], "Running")

    def end(self, name: str) -> None:
        wait_gone(self._cluster, name)


class Hands:
    """No node is there: the test does to the pod's object what a scheduler and a kubelet do."""

    def __init__(self, cluster: Cluster, raw: RawObjects) -> None:
        self._cluster = cluster
        self._raw = raw

    def run(self, manifest: Manifest) -> None:
        placed = {**manifest, "spec": {**manifest["spec"], "nodeName": "n1"}}
        name = self._cluster.create(placed, field_manager="t")["metadata"]["name"]
        self._raw.set_status(Kind.POD, "default", name, phase="Running")

    def end(self, name: str) -> None:
        self._raw.delete(Kind.POD, "default", name)
        wait_gone(self._cluster, name)


@contextmanager
def on_one_machine(state_dir: Path) -> Iterator[tuple[Cluster, Node]]:
    """Give an empty cluster and its kubelet."""
    with open_cluster(state_dir) as cluster:
        kubelet = LocalKubelet(cluster)
        kubelet.start()
        yield cluster, OneMachine(cluster)
        end_all(cluster)
        kubelet.stop()


@contextmanager
def on_kubernetes(server: ApiServer) -> Iterator[tuple[Cluster, Node]]:
    """Give an API server's cluster, which is emptied afterwards."""
    with KubernetesCluster.open(server.kubeconfig) as cluster, raw_objects(server.kubeconfig) as raw:
        yield cluster, Hands(cluster, raw)
        raw.clear()
