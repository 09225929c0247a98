"""What the cluster has left for a job: nodes' allocatable resources minus what other pods hold of them. Pure.

Pods are counted by the rule by which they are placed (``convoy.core.api.resources``), pods of others that wait for a
place included where there is one node alone: they come to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from convoy.core.api import names
from convoy.core.api.meta import Manifest
from convoy.core.api.resources import Room, allocatable, held


@dataclass(frozen=True, slots=True)
class Left:
    """What is free to this job, what it has now included; no nodes where none is known.

    Attributes:
        nodes: what is free of each node.
        largest: the largest node, by each resource.
    """

    nodes: tuple[Room, ...] = ()
    largest: Room = field(default_factory=Room)

    @property
    def total(self) -> Room:
        """Cores and bytes that are free on all nodes together."""
        return Room(sum(one.cores for one in self.nodes), sum(one.memory for one in self.nodes))

    def fits(self, worker: Room) -> int:
        """Return how many workers of that size fit, node by node; 0 where no node is known or none fits."""
        return sum(one.fits(worker) for one in self.nodes)


def measure(nodes: Sequence[Manifest], pods: Iterable[Manifest], job: str, namespace: str, *, stated: bool) -> Left:
    """Return what is left. ``stated``: the job's workers state their cores; else others' requests don't bind it."""
    free = {
        node["metadata"]["name"]: room
        for node in nodes
        if not _is_cordoned(node) and (room := allocatable(node)) is not None
    }
    largest = Room(
        max((one.cores for one in free.values()), default=0.0), max((one.memory for one in free.values()), default=0)
    )
    alone = len(free) == 1
    for pod in pods if stated else ():
        place = next(iter(free)) if alone else (pod.get("spec") or {}).get("nodeName", "")
        if place in free and _counts(pod, job, namespace):
            left = free[place].minus(held(pod))
            free[place] = Room(max(0.0, left.cores), max(0, left.memory))
    return Left(tuple(free.values()), largest)


def _counts(pod: Manifest, job: str, namespace: str) -> bool:
    metadata: dict[str, Any] = pod.get("metadata") or {}
    labels = metadata.get("labels") or {}
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return False
    ours = labels.get(names.LABEL_JOB) == job and metadata.get("namespace", "default") == namespace
    return not (ours and labels.get(names.LABEL_ROLE) == names.WORKER)


def _is_cordoned(node: Manifest) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))
