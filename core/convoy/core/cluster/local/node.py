"""The one node of the local cluster: what this machine, or the control group that we run in, has to give."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import psutil

from convoy.core.api import quantity
from convoy.core.cluster.local.environment import POD_IP
from convoy.core.cluster.local.podstatus import NODE_NAME

_CGROUP = Path("/sys/fs/cgroup")


def manifest() -> dict[str, Any]:
    """Return the Node object ``local`` with its capacity; all of it can be allotted."""
    capacity = {"cpu": quantity.render_cores(cores()), "memory": f"{memory() // 1024}Ki"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NODE_NAME, "labels": {"kubernetes.io/hostname": socket.gethostname()}},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "addresses": [{"type": "InternalIP", "address": POD_IP}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def cores() -> float:
    """Return the CPU cores that this process may use: its affinity, or its control group's quota if that is less."""
    affinity = float(len(os.sched_getaffinity(0)))
    quota, _, period = _control("", "cpu.max").partition(" ")
    if not (quota.isdigit() and period.isdigit()):
        quota, period = _control("cpu", "cpu.cfs_quota_us"), _control("cpu", "cpu.cfs_period_us")
    if quota.isdigit() and period.isdigit() and int(period):
        return min(affinity, max(1.0, int(quota) / int(period)))
    return affinity


def memory() -> int:
    """Return the bytes of memory: the machine's, or the control group's limit if that is less."""
    machine = int(psutil.virtual_memory().total)
    limits = (_control("", "memory.max"), _control("memory", "memory.limit_in_bytes"))
    return min([machine, *(int(text) for text in limits if text.isdigit())])


def _control(controller: str, file: str) -> str:
    """Return a file of our control group, or of the root that we see; empty where absent. ``""`` is cgroup v2."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            for folder in (_CGROUP / controller / path.lstrip("/"), _CGROUP / controller):
                try:
                    return (folder / file).read_text().strip()
                except OSError:
                    continue
    return ""
