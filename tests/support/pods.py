"""Pods for tests of the local cluster, and waits for what becomes of them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from convoy.core.api.errors import NotFound
from convoy.core.cluster.port import Cluster, Kind
from support.waiting import until

Manifest = dict[str, Any]


def pod(name: str, *command: str, **spec: Any) -> Manifest:
    """Return a pod that runs a command once; ``env`` and such go to its container, the rest to its spec."""
    container = {"name": "main", "command": list(command)}
    container |= {key: spec.pop(key) for key in ("env", "resources", "workingDir", "args", "image") if key in spec}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }


def python(name: str, code: str, *arguments: str | Path, **spec: Any) -> Manifest:
    """Return a pod that runs Python code."""
    return pod(name, sys.executable, "-u", "-c", code, *map(str, arguments), **spec)


def wait_for(
    cluster: Cluster, name: str, condition: Callable[[Manifest], bool], what: str, timeout: float = 15.0
) -> Manifest:
    """Return the pod once it is as awaited."""
    return until(
        lambda: next((one for one in [cluster.get(Kind.POD, "default", name)] if condition(one)), None),
        f"pod {name}: {what}",
        timeout=timeout,
    ) or {}  # fmt: skip


def wait_phase(cluster: Cluster, name: str, phase: str, timeout: float = 15.0) -> Manifest:
    """Return the pod once it is in the phase."""
    return wait_for(cluster, name, lambda one: one["status"].get("phase") == phase, phase, timeout)


def wait_gone(cluster: Cluster, name: str, timeout: float = 15.0) -> None:
    """Wait until the pod's object is gone."""

    def gone() -> bool:
        try:
            cluster.get(Kind.POD, "default", name)
        except NotFound:
            return True
        return False

    until(gone, f"pod {name} to go", timeout=timeout)


def main_pid(manifest: Manifest) -> int:
    """Return the pid of the pod's main process."""
    return int(manifest["status"]["containerStatuses"][0]["pid"])


def shim_pid(manifest: Manifest) -> int:
    """Return the pid of the pod's shim, the parent of its main process."""
    return int(Path(f"/proc/{main_pid(manifest)}/stat").read_text().rpartition(")")[2].split()[1])


def terminated(manifest: Manifest) -> Manifest:
    """Return how the pod's container ended."""
    found: Manifest = manifest["status"]["containerStatuses"][0]["state"]["terminated"]
    return found


def runs(pid: int) -> bool:
    """Whether the process lives; a zombie doesn't."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def read_pids(path: Path, count: int) -> list[int]:
    """Return the pids that a pod's processes wrote to a file, once there are so many."""

    def found() -> list[int]:
        pids = [int(line) for line in path.read_text().split()] if path.exists() else []
        return pids if len(pids) >= count else []

    return until(found, f"{count} pids in {path}")


def end_all(cluster: Cluster, timeout: float = 10.0) -> None:
    """Delete every pod without grace and wait until their processes are gone."""
    end = time.monotonic() + timeout
    while pods := cluster.list(Kind.POD).items:
        assert time.monotonic() < end, f"pods that don't go: {[one['metadata']['name'] for one in pods]}"
        for one in pods:
            try:
                cluster.delete(Kind.POD, one["metadata"]["namespace"], one["metadata"]["name"], grace_seconds=0)
            except NotFound:
                continue
        time.sleep(0.02)


def cpu_seconds() -> float:
    """Return the CPU time that this process used."""
    times = os.times()
    return times.user + times.system
