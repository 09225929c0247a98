"""What is answered about a cluster: each job's size with its reason, the bound, and what one unit more is worth."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class ClusterDecision(StrEnum):
    """What becomes of a job."""

    KEEP = "KEEP"
    CHANGE = "CHANGE"
    START = "START"
    WAIT = "WAIT"


@dataclass(frozen=True)
class Alternative:
    """One size that was weighed for a job."""

    size: int
    """Its place among the job's sizes."""
    pool: str
    workers: int
    ps: int
    accelerators: float
    goodput: float
    price_per_hour: float
    value: float
    """What the objective counts for it, restart and priority counted."""
    cost: float
    """What it takes, at the marginal prices, in the objective's unit."""
    chosen: bool
    verdict: str
    """Why it was or wasn't taken: a stable reason."""
    message: str = ""
    """The same with the numbers."""
    speed: float = math.nan
    """Samples/s that would be measured, where a sample is worth less than one: else the goodput."""
    batch: int = 0
    """Samples of a step; 0: as it is."""

    @property
    def surplus(self) -> float:
        """Return its value less what it takes: the largest one is taken where nothing is scarce in parts."""
        return self.value - self.cost


@dataclass(frozen=True)
class JobAnswer:
    """What becomes of one job."""

    name: str
    user: str
    decision: ClusterDecision
    reason: str
    message: str
    size: int | None
    """The place among its sizes; None: it waits."""
    pool: str = ""
    workers: int = 0
    ps: int = 0
    goodput: float = math.nan
    price_per_hour: float = math.nan
    goodput_before: float = math.nan
    nodes: tuple[int, ...] = ()
    """Of each of its workers' groups, then of each server: the number of the node within the pool."""
    speed: float = math.nan
    """Samples/s that is expected to be measured; the goodput where a sample is worth one."""
    batch: int = 0
    """Samples of a step; 0: as it is."""
    instead: Alternative | None = None
    """The next best of its other sizes, and why it isn't that; None: it has no other."""


@dataclass(frozen=True)
class MarginalPrice:
    """What one unit more of a resource would be worth."""

    resource: str
    """accelerators | cpu | memory | nodes (whole ones: what packing adds) | budget."""
    pool: str
    """"": all pools."""
    user: str
    """"": all users'; else it is that user's quota."""
    price: float
    """Objective per unit (accelerator, core, byte, node, unit of currency an hour); zero where it isn't scarce."""
    used: float
    available: float
    namespace: str = ""
    """"": all of them; else it is that namespace's quota."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Return what it is the price of."""
        return self.resource, self.pool, self.user, self.namespace


@dataclass(frozen=True)
class Progress:
    """The best plan so far, as told while planning goes on."""

    step: str
    value: float
    bound: float

    @property
    def gap(self) -> float:
        """Return how far the value is from the bound, relative to the bound."""
        return gap(self.value, self.bound)


Watch = Callable[[Progress], None]


@dataclass(frozen=True)
class ClusterPlan:
    """The plan. ``value`` is the objective's, ``bound`` what no plan can exceed."""

    decided: bool
    """False: nothing could be planned; every job keeps what it has."""
    method: str
    """Exact | Prices | Unchanged."""
    reason: str
    message: str
    jobs: tuple[JobAnswer, ...] = ()
    value: float = math.nan
    bound: float = math.nan
    prices: tuple[MarginalPrice, ...] = ()
    """Of all that couples the jobs. The next plan takes them as its start."""
    weighed: Callable[[str], tuple[Alternative, ...]] = field(default=lambda _: (), repr=False, compare=False)
    """Of a job, by its name, all sizes with their numbers."""

    @property
    def gap(self) -> float:
        """Return how far the value is from the bound, relative to the bound; NaN where nothing was decided."""
        return gap(self.value, self.bound)

    def document(self) -> dict[str, Any]:
        """Return what was decided for all together as JSON; what isn't known is null."""
        return {
            "decided": self.decided,
            "method": self.method,
            "reason": self.reason,
            "message": self.message,
            "value": known(self.value),
            "bound": known(self.bound),
            "gap": known(self.gap),
        }


def known(value: Any) -> Any:
    """Return a value as JSON has it: a number that isn't finite is null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def gap(value: float, bound: float) -> float:
    """Return ``(bound - value) / |bound|``, zero where they are equal."""
    if math.isnan(value) or math.isnan(bound):
        return math.nan
    return 0.0 if bound <= value else (bound - value) / max(abs(bound), 1e-12)
