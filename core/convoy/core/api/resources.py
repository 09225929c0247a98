"""CPU and memory: what pods ask for and what nodes have, by one rule for placing, planning and admission. Pure.

A pod asks for what its containers request together; a limit without a request counts as one, as in Kubernetes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from convoy.core.api import names, quantity
from convoy.core.api.errors import InvalidQuantity

Manifest = dict[str, Any]

MANY = 100_000
"""More pods than anything holds: what fits where nothing is asked for."""


@dataclass(frozen=True, slots=True)
class Room:
    """CPU cores and bytes of memory."""

    cores: float = 0.0
    memory: int = 0

    def plus(self, other: Room) -> Room:
        """Return both together."""
        return Room(self.cores + other.cores, self.memory + other.memory)

    def minus(self, other: Room) -> Room:
        """Return what is left; below zero where too much was taken."""
        return Room(self.cores - other.cores, self.memory - other.memory)

    def fits(self, one: Room) -> int:
        """Return how many of that size fit in; ``MANY`` where nothing is asked for."""
        most = MANY
        if one.cores > 0:
            most = min(most, math.floor(max(0.0, self.cores) / one.cores + 1e-9))
        if one.memory > 0:
            most = min(most, max(0, self.memory) // one.memory)
        return most


@dataclass(frozen=True, slots=True)
class Capacity:
    """What nodes have for pods, of the largest node (by each resource) and of all together."""

    largest: Room
    total: Room

    @classmethod
    def from_nodes(cls, nodes: Iterable[Manifest]) -> Capacity | None:
        """Add up the nodes' allocatable resources; None where no node says anything."""
        rooms = [room for node in nodes if (room := allocatable(node)) is not None]
        if not rooms:
            return None
        largest = Room(max(one.cores for one in rooms), max(one.memory for one in rooms))
        return cls(largest, Room(sum(one.cores for one in rooms), sum(one.memory for one in rooms)))


def allocatable(node: Manifest) -> Room | None:
    """Return what a Node has for pods (its capacity where it names no allocatable); None where it doesn't say."""
    status: dict[str, Any] = node.get("status") or {}
    held = {**(status.get("capacity") or {}), **(status.get("allocatable") or {})}
    try:
        return Room(quantity.cores(held["cpu"]), quantity.count(held["memory"]))
    except (KeyError, InvalidQuantity):
        return None


def asked(resources: Mapping[str, Any], resource: str) -> tuple[str, Any]:
    """Return where a container asks for a resource (``requests``, else ``limits``) and how much (None: nothing)."""
    requests: Mapping[str, Any] = resources.get("requests") or {}
    if resource in requests:
        return "requests", requests[resource]
    return "limits", (resources.get("limits") or {}).get(resource)


def requested(spec: Manifest) -> Room:
    """Return what the containers of a pod's spec ask for together.

    Raises:
        InvalidQuantity: a request can't be read.
    """
    room = Room()
    for container in spec.get("containers") or []:
        resources = container.get("resources") or {}
        _, cpu = asked(resources, "cpu")
        _, memory = asked(resources, "memory")
        room = room.plus(Room(quantity.cores(cpu or 0), quantity.count(memory or 0)))
    return room


def held(pod: Manifest) -> Room:
    """Return what a pod takes from its node: what it asks for.

    A pod that yields the CPU (``convoy/nice``: masters, the Brain) runs in what others leave, so it takes no cores.

    Raises:
        InvalidQuantity: a request can't be read.
    """
    room = requested(pod.get("spec") or {})
    yields = names.ANNOTATION_NICE in ((pod.get("metadata") or {}).get("annotations") or {})
    return Room(0.0, room.memory) if yields else room
