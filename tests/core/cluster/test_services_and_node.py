"""What the local cluster allots: a Service's port for ever, the node's capacity."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest

from convoy.core.api import quantity
from convoy.core.api.errors import InvalidManifest
from convoy.core.cluster.local import LocalCluster, node
from convoy.core.cluster.port import Kind


def service(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def port_of(manifest: dict[str, Any]) -> int:
    return int(manifest["spec"]["ports"][0]["port"])


def test_a_service_gets_a_free_port_and_an_address(cluster: LocalCluster) -> None:
    made = cluster.create(service("one", ports=[{"name": "grpc"}]), field_manager="t")
    assert made["spec"]["ports"][0]["name"] == "grpc"
    assert made["status"]["address"] == f"127.0.0.1:{port_of(made)}"
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", port_of(made)))


def test_each_service_has_a_port_of_its_own(cluster: LocalCluster) -> None:
    ports = {port_of(cluster.create(service(f"s{number}"), field_manager="t")) for number in range(50)}
    assert len(ports) == 50


@pytest.mark.parametrize("spec", [{}, {"ports": [{"name": "grpc"}]}])
def test_the_port_stays_whatever_is_applied_without_one(cluster: LocalCluster, spec: dict[str, Any]) -> None:
    made = cluster.apply(service("one", ports=[{"name": "grpc"}]), field_manager="t")
    again = cluster.apply(service("one", **spec, selector={"app": "x"}), field_manager="t")
    assert port_of(again) == port_of(made)
    assert again["status"] == made["status"]


def test_a_port_that_is_asked_for_is_given(cluster: LocalCluster) -> None:
    cluster.apply(service("one"), field_manager="t")
    changed = cluster.apply(service("one", ports=[{"port": 50001}]), field_manager="t", force=True)
    assert changed["status"]["address"] == "127.0.0.1:50001"


def test_the_node_offers_what_this_process_may_use(cluster: LocalCluster) -> None:
    allocatable = cluster.get(Kind.NODE, "", "local")["status"]["allocatable"]
    assert 0 < quantity.cores(allocatable["cpu"]) <= len(os.sched_getaffinity(0))
    assert 0 < quantity.count(allocatable["memory"]) <= psutil.virtual_memory().total


def test_an_unchanged_node_writes_nothing(cluster: LocalCluster) -> None:
    before = cluster.get(Kind.NODE, "", "local")
    assert cluster.register_node() == before


def test_a_control_groups_limits_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    (tmp_path / "memory.max").write_text("1048576\n")
    monkeypatch.setattr(node, "_CGROUP", tmp_path)
    if "0::" not in Path("/proc/self/cgroup").read_text():
        pytest.skip("no unified control group hierarchy")
    assert node.cores() == 1.0
    assert node.memory() == 1048576


@pytest.mark.parametrize(
    ("field", "manifest"),
    [
        ("kind", {"kind": "Deployment", "metadata": {"name": "x"}}),
        ("metadata.name", {"kind": "Pod", "metadata": {"name": "../x"}}),
        ("metadata.name", {"kind": "Pod", "metadata": {}}),
        ("metadata.namespace", {"kind": "Pod", "metadata": {"name": "x", "namespace": "../.."}}),
        ("spec.containers", {"kind": "Pod", "metadata": {"name": "x"}, "spec": {}}),
    ],
)
def test_names_that_would_leave_their_folder_and_kinds_unknown_are_refused(
    cluster: LocalCluster, field: str, manifest: dict[str, Any]
) -> None:
    with pytest.raises(InvalidManifest) as caught:
        cluster.create(manifest, field_manager="t")
    assert caught.value.path == field
