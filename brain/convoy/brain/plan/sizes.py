"""The sizes that a job may take: workers and parameter servers within its limits, on a grid that stays small."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from convoy.brain.plan.limits import MOST_WORKERS, Limits, Resource

MOST_SIZES = 400
"""That are weighed together; of more, those near the present one and some further away."""
MOST_SERVERS = 20
"""Numbers of servers among them."""


@dataclass(frozen=True, order=True)
class Size:
    """What a job has, or could have; zero means "as it is" for all but workers and servers."""

    workers: int
    ps: int = 0
    worker_cpu: float = 0.0
    """Cores each."""
    ps_cpu: float = 0.0
    batch: int = 0
    """Samples of a step, of all workers together."""

    def with_cores(self, role: str, cores: float) -> Size:
        """Return the size with so many cores for each pod of a role."""
        return replace(self, worker_cpu=cores) if role == "worker" else replace(self, ps_cpu=cores)


@dataclass(frozen=True)
class Caps:
    """Sizes that a job can take, in rising order, and what stopped the next one."""

    sizes: tuple[Size, ...]
    bound: str
    """What limits the largest number of workers, in words."""


def sizes_within(
    limits: Limits,
    processes: int = 1,
    *,
    served: bool = False,
    present: Size | None = None,
    at_most: int = MOST_SIZES,
) -> Caps:
    """Return the sizes within ``limits``; none where even the smallest doesn't fit.

    Args:
        limits: the job's limits.
        processes: processes that a worker runs; each needs a sample of a fixed global batch.
        served: whether the job has parameter servers: at least one.
        present: around which a range that is too long is thinned.
        at_most: sizes that are returned.
    """
    fewest = max(1, limits.min_ps) if served else 0
    servers = range(fewest, max(limits.max_ps, 0 if limits.max_ps else fewest) + 1) if served else range(1)
    most, bound = _most_workers(limits, processes, fewest)
    if not servers:
        return Caps((), f"maxReplicas {limits.max_ps} of its servers")
    workers = _workers(limits, most)
    if limits.allowed_workers and (not workers or workers[-1] < most):
        bound = f"its allowed sizes {', '.join(map(str, sorted(set(limits.allowed_workers))))}"
    here = present or Size(workers[0] if workers else 1, fewest)
    kept = thinned(servers, here.ps, min(MOST_SERVERS, max(at_most // 2, 2)))
    columns = thinned(workers, here.workers, max(at_most // len(kept), 2))
    return Caps(tuple(Size(w, p) for w in columns for p in kept if fits(limits, Size(w, p))), bound)


def fits(limits: Limits, size: Size) -> bool:
    """Return whether the job's resources at a size, allotments as they are or as the size says, are to be had."""
    cpu = {"worker": size.worker_cpu or limits.worker_cpu, "ps": size.ps_cpu or limits.ps_cpu}
    if any(0 < limits.largest_node_cpu < cpu[role] for role, count in _roles(size) if count):
        return False
    for one in limits.resources():
        each = cpu if one.name == "cores" else {"worker": one.worker, "ps": one.ps}
        asked = sum(count * each[role] for role, count in _roles(size))
        if one.available > 0 and asked > one.available * (1 + 1e-9):
            return False
    return True


def thinned(values: Sequence[int], here: int, most: int) -> list[int]:
    """Return at most ``most`` of rising values: the ends, those next to ``here``, and more and more sparse ones."""
    if len(values) <= most:
        return list(values)
    centre = int(np.argmin(np.abs(np.asarray(values) - here)))
    near = range(max(0, centre - most // 4), min(len(values), centre + most // 4 + 1))
    spread = np.unique(np.geomspace(1, len(values), max(most - len(near) - 2, 1)).round().astype(int)) - 1
    return [values[place] for place in sorted({0, len(values) - 1, *near, *(int(one) for one in spread)})]


def _roles(size: Size) -> tuple[tuple[str, int], tuple[str, int]]:
    return ("worker", size.workers), ("ps", size.ps)


def _workers(limits: Limits, most: int) -> Sequence[int]:
    unit = max(1, limits.node_unit)
    first = math.ceil(max(1, limits.min_workers) / unit) * unit
    if limits.allowed_workers:
        return [one for one in sorted(set(limits.allowed_workers)) if first <= one <= most and one % unit == 0]
    return range(first, most + 1, unit)


def _most_workers(limits: Limits, processes: int, servers: int) -> tuple[int, str]:
    """Return the largest number of workers beside so many servers, and what bounds it, in words."""
    bounds = [(max(limits.max_workers, 0), f"maxReplicas {limits.max_workers}"), *_nodes(limits, servers)]
    bounds += [
        (_count(one, servers), one.words) for one in limits.resources() if one.available > 0 and one.worker > 0
    ]
    if limits.global_batch > 0:
        bounds.append((limits.global_batch // max(1, processes), f"a global batch of {limits.global_batch}"))
    return min(bounds, key=lambda item: item[0])


def _nodes(limits: Limits, servers: int) -> list[tuple[int, str]]:
    """Return a bound of nothing where one worker or server is larger than any node."""
    largest = (limits.largest_node_cpu, limits.largest_node_memory)
    found = []
    for role, cpu, memory in (
        ("worker", limits.worker_cpu, limits.worker_memory),
        *([("server", limits.ps_cpu, limits.ps_memory)] if servers else []),
    ):
        if 0 < largest[0] < cpu:
            found.append((0, f"no node has {cpu:g} cores: the largest has {largest[0]:g}"))
        if 0 < largest[1] < memory:
            found.append((0, f"no node has the memory of one {role}"))
    return found


def _count(one: Resource, servers: int) -> int:
    left = max(one.available - servers * one.ps, 0.0)
    return math.floor(min(left / one.worker, MOST_WORKERS) + 1e-9)
