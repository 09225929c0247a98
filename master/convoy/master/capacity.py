"""What the cluster has left for a job: nodes' allocatable resources minus what other pods ask for. Pure.

Where there is one node, Convoy's own small pods (masters, what runs in its system namespace) aren't subtracted:
nothing is placed by requests there, and a tenth of a core would cost a whole worker.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from convoy.core.api import names, quantity
from convoy.core.api.meta import Manifest

SYSTEM_NAMESPACE = "convoy-system"


@dataclass(frozen=True, slots=True)
class Capacity:
    """Cores and bytes that are free to this job, what it has now included; all 0 where no node is known."""

    cpu: float = 0.0
    memory: int = 0
    largest_cpu: float = 0.0
    largest_memory: int = 0
    nodes: tuple[tuple[float, int], ...] = ()  # free cores and bytes of each

    def fits(self, cpu: float, memory: int) -> int:
        """Return how many workers of that size fit, node by node; 0 where no node is known or none fits."""
        return sum(_fit(free_cpu, free_memory, cpu, memory) for free_cpu, free_memory in self.nodes)


def measure(
    nodes: Sequence[Manifest], pods: Iterable[Manifest], job: str, namespace: str, *, stated: bool
) -> Capacity:
    """Return what is left. ``stated``: the job's workers state their cores; else others' requests don't bind it."""
    free = {node["metadata"]["name"]: _allocatable(node) for node in nodes if not _is_cordoned(node)}
    largest = (max((cpu for cpu, _ in free.values()), default=0.0), max((mem for _, mem in free.values()), default=0))
    alone = len(free) == 1
    for pod in pods:
        place = next(iter(free)) if alone else (pod.get("spec") or {}).get("nodeName", "")
        if place not in free or not stated or not _counts(pod, job, namespace, alone):
            continue
        cpu, memory = _requests(pod)
        free[place] = (max(0.0, free[place][0] - cpu), max(0, free[place][1] - memory))
    return Capacity(
        cpu=sum(cpu for cpu, _ in free.values()),
        memory=sum(memory for _, memory in free.values()),
        largest_cpu=largest[0],
        largest_memory=largest[1],
        nodes=tuple(free.values()),
    )


def _fit(free_cpu: float, free_memory: int, cpu: float, memory: int) -> int:
    by_cpu = math.floor(free_cpu / cpu + 1e-9) if cpu > 0 else None
    by_memory = free_memory // memory if memory > 0 else None
    return min(bound for bound in (by_cpu, by_memory, 100_000) if bound is not None)


def _counts(pod: Manifest, job: str, namespace: str, alone: bool) -> bool:
    metadata: dict[str, Any] = pod.get("metadata") or {}
    labels = metadata.get("labels") or {}
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return False
    role = labels.get(names.LABEL_ROLE)
    if alone and (role == names.MASTER or metadata.get("namespace") == SYSTEM_NAMESPACE):
        return False
    ours = labels.get(names.LABEL_JOB) == job and metadata.get("namespace", "default") == namespace
    return not (ours and role == names.WORKER)


def _is_cordoned(node: Manifest) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


def _allocatable(node: Manifest) -> tuple[float, int]:
    found = (node.get("status") or {}).get("allocatable") or {}
    return quantity.cores(found.get("cpu", 0)), quantity.count(found.get("memory", 0))


def _requests(pod: Manifest) -> tuple[float, int]:
    cpu, memory = 0.0, 0
    for container in (pod.get("spec") or {}).get("containers") or []:
        requests = (container.get("resources") or {}).get("requests") or {}
        cpu += quantity.cores(requests.get("cpu", 0))
        memory += quantity.count(requests.get("memory", 0))
    return cpu, memory
