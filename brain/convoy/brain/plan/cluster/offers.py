"""From one job's limits and the model of speeds to the sizes that the cluster's plan chooses from. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from convoy.brain.plan.answer import JobRequest
from convoy.brain.plan.cluster.capacity import Pool
from convoy.brain.plan.cluster.jobs import Sizes
from convoy.brain.plan.cluster.valued import Currency, Valued, valued
from convoy.brain.plan.limits import Limits
from convoy.brain.plan.options import SpeedModel, price_of
from convoy.brain.plan.prices import Prices
from convoy.brain.plan.sizes import Size, sizes_within, thinned

FAILED, NO_SIZES = Currency("nothing", "ModelFailed"), Currency("nothing", "NoSizes")
MOST = 24
"""Sizes of one job in one pool; of more, all near the present one and fewer further away."""


@dataclass(frozen=True)
class Offer:
    """The sizes of one job, and which of them it has."""

    sizes: Sizes
    current: int | None
    requested: int | None = None
    currency: Currency = NO_SIZES


def offered(
    model: SpeedModel,
    observed: pd.DataFrame,
    request: JobRequest,
    prices: Prices,
    pools: Sequence[Pool],
    at: str,
) -> Offer:
    """Return what a job may be, with expected speeds and prices.

    What is free, and the size of the largest node, don't bound it: that is the plan's to say, for all jobs together.

    Args:
        model: of goodput (``GoodputModel``), or of speeds alone.
        observed: the job's measurements.
        request: the job, where it stands, and its own limits.
        prices: of resources.
        pools: that it may be in.
        at: the pool that it is in; "": it waits, or it isn't known.
    """
    sizes, here = _sizes(request)
    if not sizes:
        return Offer(_joined([]), None)
    places, asked = list(pools), [sizes] * len(pools)
    if here is not None and at not in {pool.name for pool in pools}:  # what it has it may keep, in a pool of its own
        places, asked = [*places, Pool(at or "elsewhere", 0)], [*asked, [here]]
    parts = [_in_pool(model, observed, request, of, pool, here) for of, pool in zip(asked, places, strict=True)]
    tables = [_table(request.limits, part, pool.name, prices) for part, pool in zip(parts, places, strict=True)]
    current: int | None = None
    if here is not None:
        mine = next(place for place, pool in enumerate(places) if pool.name == (at or "elsewhere"))
        current = sum(len(table) for table in tables[:mine]) + parts[mine].sizes.index(here)
    return Offer(_joined(tables), current, 0, parts[0].currency if parts else NO_SIZES)


def unweighed(request: JobRequest, at: str) -> Offer:
    """Return what a running job has, of no known speed: it is kept. One that waits is offered nothing."""
    if request.current_workers <= 0:
        return Offer(_joined([]), None, currency=FAILED)
    unknown = np.full(1, np.nan)
    table = _table(request.limits, Valued((request.current,), unknown, unknown, FAILED), at or "elsewhere", Prices())
    return Offer(table, 0, currency=FAILED)


def _sizes(request: JobRequest) -> tuple[list[Size], Size | None]:
    """Return the sizes that the job's own limits allow, what it has among them, and what it has."""
    limits = replace(
        request.limits,
        free_cpu=0.0,
        free_memory=0,
        free_accelerators=0.0,
        largest_node_cpu=0.0,
        largest_node_memory=0,
    )
    here = request.current if request.current_workers > 0 else None
    found = list(sizes_within(limits, request.processes_per_worker, served=request.served, present=here).sizes)
    if len(found) > MOST:
        near = found.index(here) if here in found else 0
        found = [found[place] for place in thinned(range(len(found)), near, MOST)]
    if here is not None and here not in found:
        found = sorted([*found, here])
    return found, here


def _in_pool(
    model: SpeedModel,
    observed: pd.DataFrame,
    request: JobRequest,
    sizes: Sequence[Size],
    pool: Pool,
    here: Size | None,
) -> Valued:
    """Return sizes in one pool with what the model expects of them there."""
    labels = {**request.labels, **({"accelerator": pool.accelerator} if pool.accelerator else {})}
    if pool.nodes:
        labels["node_type"] = pool.name
    cores = pool.nodes * pool.cpu_per_node  # that the job could have there; what others leave is for the plan to say
    limits = replace(request.limits, free_cpu=cores if 0.0 < cores < math.inf else 0.0)
    there = replace(request, labels=labels, limits=limits)
    return valued(model, observed, there, sizes, here)


def _table(limits: Limits, found: Valued, pool: str, prices: Prices) -> Sizes:
    sizes, n = found.sizes, len(found.sizes)
    return Sizes(
        pool=(pool,) * n,
        workers=np.array([size.workers for size in sizes], dtype=np.int64),
        goodput=found.goodput,
        accelerators=np.full(n, float(limits.worker_accelerators)),
        cpu=np.full(n, float(limits.worker_cpu)),
        memory=np.full(n, float(limits.worker_memory)),
        together=np.ones(n, dtype=np.int64),
        ps=np.array([size.ps for size in sizes], dtype=np.int64),
        ps_cpu=np.full(n, float(limits.ps_cpu)),
        ps_memory=np.full(n, float(limits.ps_memory)),
        price_per_hour=np.array([price_of(size, limits, prices) for size in sizes], dtype=np.float64),
        speed=found.speed,
        batch=found.batch,
    )


def _joined(parts: Sequence[Sizes]) -> Sizes:
    def column(name: str, kind: type = np.float64) -> np.ndarray:
        return np.concatenate([np.zeros(0, dtype=kind), *(getattr(part, name) for part in parts)])

    return Sizes(
        pool=tuple(name for part in parts for name in part.pool),
        workers=column("workers", np.int64),
        goodput=column("goodput"),
        accelerators=column("accelerators"),
        cpu=column("cpu"),
        memory=column("memory"),
        together=column("together", np.int64),
        ps=column("ps", np.int64),
        ps_cpu=column("ps_cpu"),
        ps_memory=column("ps_memory"),
        price_per_hour=column("price_per_hour"),
        speed=column("speed"),
        batch=column("batch", np.int64),
    )
