"""A machine as a row of ``node``. Pure."""

from __future__ import annotations

from convoy.brain.ingest.monitor import accelerators
from convoy.brain.ingest.monitor.parts import Part, Row

_TYPES = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_READY = {"True": True, "False": False}


def row(node: Part) -> Row:
    """Return what the object says.

    The kind of its accelerators is a label's; where no label names it, it is called by its resource, such as
    ``nvidia.com/gpu``.

    Raises:
        Refused: its uid or name can't be used.
    """
    metadata, status = node["metadata"], node["status"]
    labels = metadata["labels"].labels()
    capacity, allocatable = status["capacity"], status["allocatable"]
    devices = accelerators.resources({*capacity.names(), *allocatable.names()})
    return {
        "uid": metadata["uid"].identifier(64),
        "name": metadata["name"].identifier(253),
        "node_type": _label(labels, _TYPES),
        "zone": _label(labels, _ZONES),
        "accelerator": (accelerators.kind(labels) or devices[0])[:255] if devices else "",
        "cpu_capacity": capacity["cpu"].cores(),
        "memory_capacity": capacity["memory"].count(),
        "accelerators_capacity": _devices(capacity, devices),
        "cpu_allocatable": allocatable["cpu"].cores(),
        "memory_allocatable": allocatable["memory"].count(),
        "accelerators_allocatable": _devices(allocatable, devices),
        "ready": _ready(status),
        "schedulable": not node["spec"]["unschedulable"].flag(),
        "labels": labels,
    }


def _label(labels: dict[str, str], names: tuple[str, ...]) -> str:
    return next((labels[name][:255] for name in names if labels.get(name)), "")


def _devices(held: Part, devices: list[str]) -> float | None:
    """Return how many accelerators; None where nothing is said of any resource."""
    counts = [held[name].count() for name in devices]
    return float(sum(count or 0 for count in counts)) if held else None


def _ready(status: Part) -> bool | None:
    """Return whether its kubelet says that it is; None where it is silent."""
    said = status["conditions"].first(lambda one: one["type"].text(64) == "Ready")["status"]
    return _READY.get(said.text(8))
