"""What is learned from history: how fast a job would run at sizes that it hasn't seen, what it needs to begin with,
how much memory a container may ask for, how much a cluster will be asked for. Pure: no I/O, no clock.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from convoy.brain.models.throughput import ThroughputModel

if TYPE_CHECKING:
    from convoy.brain.models.demand import DemandModel
    from convoy.brain.models.load import LoadModel
    from convoy.brain.models.memory import MemoryModel
    from convoy.brain.models.startup import StartupModel

__all__ = ["DemandModel", "LoadModel", "MemoryModel", "StartupModel", "ThroughputModel"]

_LATER = {
    "DemandModel": "convoy.brain.models.demand",
    "LoadModel": "convoy.brain.models.load",
    "MemoryModel": "convoy.brain.models.memory",
    "StartupModel": "convoy.brain.models.startup",
}
"""Imported once they are asked for: their libraries take a second, and a recommendation doesn't need them."""


def __getattr__(name: str) -> Any:
    """Return a model of ``_LATER``."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
