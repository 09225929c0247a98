"""Configurations as people name them: what tells one from the others, and no more."""

from __future__ import annotations

import numpy as np

from convoy.brain.models.throughput.physics import Array, Configurations

_ALWAYS = ("workers", "ps")
_WHERE_NEEDED = ("nodes", "batch_size", "accumulation_steps", "accelerators", "worker_cpu", "ps_cpu")
"""In the order in which they are added until no two configurations have one name."""

_ONE = {
    "workers": "worker",
    "ps": "server",
    "nodes": "node",
    "accumulation_steps": "micro-step",
    "worker_cpu": "core a worker",
    "ps_cpu": "core a server",
}


def names_of(configurations: Configurations) -> list[str]:
    """Return a name for each configuration: ``8 workers, 4 servers, batch 32``."""
    told = {name: getattr(configurations, name) for name in (*_ALWAYS, *_WHERE_NEEDED)}
    used = list(_ALWAYS)
    for name in _WHERE_NEEDED:
        if _distinct(told, [*used, name]) > _distinct(told, used):
            used.append(name)
    rows = range(len(configurations))
    return [", ".join(filter(None, (_part(name, float(told[name][row])) for name in used))) for row in rows]


def fields_of(configurations: Configurations, row: int) -> dict[str, float]:
    """Return what is known of one configuration, for a document; without what it doesn't have."""
    told = {name: float(getattr(configurations, name)[row]) for name in (*_ALWAYS, *_WHERE_NEEDED)}
    return {name: value for name, value in told.items() if np.isfinite(value) and (name != "ps" or value > 0)}


def _distinct(told: dict[str, Array], names: list[str]) -> int:
    table = np.array([np.nan_to_num(told[name], nan=-1.0) for name in names])
    return len(np.unique(np.round(table, 6), axis=1).T)


def _part(name: str, value: float) -> str:
    if np.isnan(value) or (name == "ps" and value == 0):
        return ""
    if name == "batch_size":
        return f"batch {value:.4g}"
    if name == "accelerators":
        return f"{value:.4g} accelerators each"
    singular, *rest = _ONE[name].split(" ", 1)
    return " ".join([f"{value:.4g}", singular if value == 1 else f"{singular}s", *rest])
