"""Whether servers or workers are short of cores: their use near what they are allotted, at the last measurement.

A hot server is busy while the others are not: one that holds a parameter that all workers want. More servers don't
help it if that parameter stays in one piece; more cores do. Where all are busy, either does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from convoy.brain.plan.answer import JobRequest
from convoy.brain.plan.sizes import Size, fits

FULL = 0.9
"""Share of the allotment from which on a pod is short of cores."""
UNEVEN = 1.5
"""Times the mean server's use from which on the busiest one is hot by itself."""
FACTORS = (1.5, 2.0)
"""More cores that are weighed."""
STEP = 0.5
"""Cores are allotted in multiples of it."""


@dataclass(frozen=True)
class Heat:
    """A role that is short of cores."""

    role: str
    reason: str
    """``HotServer``, ``ServersOverloaded``, ``WorkersShortOfCores``."""
    used: float
    """Cores, of the busiest server or the mean worker's pod."""
    allotted: float

    @property
    def words(self) -> str:
        """The finding, in words."""
        who = {
            "HotServer": "the busiest server uses",
            "ServersOverloaded": "servers use",
            "WorkersShortOfCores": "workers use",
        }
        return f"{who[self.reason]} {self.used:.3g} of {self.allotted:g} cores"

    def more(self, most: float) -> list[float]:
        """Return larger allotments to weigh, of a node of ``most`` cores (0: not known)."""
        wanted = (rounded(self.allotted * factor) for factor in FACTORS)
        return sorted({min(cores, most) if most > 0 else cores for cores in wanted} - {self.allotted})


def heat_of(own: pd.DataFrame, request: JobRequest) -> tuple[Heat, ...]:
    """Return the roles that are short of cores at the present size, by its last measurement."""
    found = []
    row = last_at(own, request)
    if row is None:
        return ()
    if request.served:
        mean, busiest = number(row, "ps_cpu_used"), number(row, "ps_cpu_used_max")
        busiest = mean if math.isnan(busiest) else busiest
        allotted = request.limits.ps_cpu or number(row, "ps_cpu")
        if busiest >= FULL * allotted > 0:
            alone = request.current_ps > 1 and busiest >= UNEVEN * mean
            found.append(Heat("ps", "HotServer" if alone else "ServersOverloaded", busiest, allotted))
    pod = request.limits.worker_cpu
    used = number(row, "worker_cpu_used") * request.processes_per_worker
    if used >= FULL * pod > 0:
        found.append(Heat("worker", "WorkersShortOfCores", used, pod))
    return tuple(found)


def with_more_cores(heat: tuple[Heat, ...], request: JobRequest) -> list[Size]:
    """Return the present size with more cores for the roles that are short of them, as far as they are to be had."""
    if "resources" not in request.adjustable:
        return []
    here = request.current
    sizes = [
        here.with_cores(one.role, cores)
        for one in heat
        for cores in one.more(request.limits.largest_node_cpu)
        if cores > one.allotted
    ]
    return [size for size in sizes if fits(request.limits, size)]


def last_at(own: pd.DataFrame, request: JobRequest) -> pd.Series | None:
    """Return the last measurement of the job at its present size; None: there is none."""
    if "workers" not in own.columns:
        return None
    here = own["workers"].eq(request.current_workers * request.processes_per_worker)
    if request.served and "ps" in own.columns:
        here &= own["ps"].eq(request.current_ps)
    rows = own[here]
    return rows.iloc[-1] if len(rows) else None


def number(row: pd.Series, name: str) -> float:
    """Return a number of a row; NaN where it isn't known."""
    value = row.get(name)
    return math.nan if value is None or pd.isna(value) else float(value)


def rounded(cores: float) -> float:
    """Return cores, rounded up to what is allotted."""
    return max(STEP, math.ceil(cores / STEP - 1e-9) * STEP)
