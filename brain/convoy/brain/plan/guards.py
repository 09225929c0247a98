"""What a plan may not do: sizes that can't be had, changes too often, gains too small for a restart."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What bounds a job's size. Zero means unknown for capacities, and no limit for ``changes_per_hour``."""

    min_workers: int = 1
    max_workers: int = 1
    node_unit: int = 1
    """Workers are a multiple of it."""
    free_cpu: float = 0.0
    """Cores that the cluster has left, the job's own included."""
    free_memory: int = 0
    """Bytes that the cluster has left, the job's own included."""
    largest_node_cpu: float = 0.0
    largest_node_memory: int = 0
    worker_cpu: float = 1.0
    """Cores that one worker is allotted."""
    worker_memory: int = 0
    """Bytes that one worker is allotted."""
    global_batch: int = 0
    """Samples a step, kept at every size; 0: each worker keeps its batch."""
    changes_per_hour: int = 12


MOST_WORKERS = 100_000
"""More than any job has; what a division by next to nothing is cut at."""


@dataclass(frozen=True)
class Caps:
    """Sizes that a job can take, and what stopped the next one."""

    sizes: tuple[int, ...]
    bound: str
    """What limits the largest size, in words."""


def allowed_sizes(limits: Limits, processes: int = 1) -> Caps:
    """Return every size (workers) within ``limits``, in rising order; none where even the smallest doesn't fit.

    Args:
        limits: the job's limits.
        processes: processes that a worker runs; each needs a sample of a fixed global batch.
    """
    unit = max(1, limits.node_unit)
    least = max(1, limits.min_workers)
    bounds: list[tuple[float, str]] = [(max(limits.max_workers, 0), f"maxReplicas {limits.max_workers}")]
    if limits.worker_cpu > 0:
        if 0 < limits.largest_node_cpu < limits.worker_cpu:
            bounds.append(
                (0, f"no node has {limits.worker_cpu:g} cores: the largest has {limits.largest_node_cpu:g}")
            )
        if limits.free_cpu > 0:
            fits = math.floor(min(limits.free_cpu / limits.worker_cpu, MOST_WORKERS) + 1e-9)
            bounds.append((fits, f"{limits.free_cpu:g} cores at {limits.worker_cpu:g} a worker"))
    if limits.worker_memory > 0:
        if 0 < limits.largest_node_memory < limits.worker_memory:
            bounds.append((0, "no node has the memory of one worker"))
        if limits.free_memory > 0:
            bounds.append((limits.free_memory // limits.worker_memory, "the memory that is free"))
    if limits.global_batch > 0:
        bounds.append((limits.global_batch // max(1, processes), f"a global batch of {limits.global_batch}"))
    most, bound = min(bounds, key=lambda item: item[0])
    first = math.ceil(least / unit) * unit
    return Caps(tuple(range(first, int(most) + 1, unit)), bound)


MIN_GAIN = 0.05
"""Hysteresis: an expected gain in speed below it isn't worth moving."""

MIN_TRIAL_VALUE = 0.01
"""What a trial must be expected to win over the horizon, as a share of the samples trained in it."""

SURE = 0.8
"""Probability of being paid back within the horizon that a change needs."""

CLOSE = 0.02
"""Among sizes whose speed is within this of the best, the smallest is taken."""

DEFAULT_RESTART_SECONDS = 30.0
"""What a change is assumed to cost, in seconds at no speed, until it has been measured for the job."""


def restart_seconds(measured: float) -> float:
    """Return the restart's cost to count with: the measured one, else the default; never negative."""
    return measured if measured > 0 and not math.isnan(measured) else DEFAULT_RESTART_SECONDS


def too_often(changes_last_hour: int, limits: Limits) -> bool:
    """Return whether one more change would be more than the job may have an hour."""
    return limits.changes_per_hour > 0 and changes_last_hour >= limits.changes_per_hour
