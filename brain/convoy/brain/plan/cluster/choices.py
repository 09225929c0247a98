"""The sizes of all jobs as one table of arrays: a row a size, and a row to wait for who may wait. Pure.

Objects are walked once, to gather; what follows is a few array operations however many jobs there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from convoy.brain.plan.cluster.capacity import Capacity
from convoy.brain.plan.cluster.jobs import Array, ClusterJob, Ints, Sizes

Bools = NDArray[np.bool_]

RESOURCES = ("accelerators", "cpu", "memory")
WORKERS, SERVERS = 0, 1
EPSILON = 1e-9
"""Relative: what numbers may miss by and still be the same."""


class Barred(IntEnum):
    """Why a size can't be taken; 0: it can."""

    NO = 0
    SPEED_UNKNOWN = 1
    POOL_UNKNOWN = 2
    NO_SUCH_NODE = 3
    TOO_LARGE = 4
    OVER_QUOTA = 5
    PRICE_UNKNOWN = 6
    HELD = 7
    REFUSED = 8


@dataclass(frozen=True)
class Choices:
    """Rows (n,) in the order of their jobs; a job's rows are ``first[job]`` up to ``first[job + 1]``."""

    job: Ints
    size: Ints
    """Place among the job's sizes; -1: to wait."""
    pool: Ints
    """-1: none, or not known."""
    workers: Ints
    ps: Ints
    groups: Ints
    """(n, 2): what is put onto nodes, of workers and of servers."""
    share: Array
    """(n, 2, 3): accelerators, cores and bytes that one of them takes of its node."""
    goodput: Array
    price: Array
    present: Bools
    """Whether it is what the job has now: it runs at it, or waits."""
    barred: Ints
    first: Ints
    """(jobs + 1,)"""

    def __len__(self) -> int:
        return len(self.job)

    @property
    def demand(self) -> Array:
        """Return accelerators, cores and bytes of the whole job, (n, 3)."""
        return np.asarray(np.einsum("nr,nrk->nk", self.groups.astype(np.float64), self.share))

    def demand_of(self, row: int) -> Array:
        """Return accelerators, cores and bytes of one choice."""
        return np.asarray(self.groups[row].astype(np.float64) @ self.share[row])

    def take(self, kept: Bools) -> Choices:
        """Return those rows."""
        counts = np.bincount(self.job[kept], minlength=len(self.first) - 1)
        first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        rows = {one.name: getattr(self, one.name)[kept] for one in fields(self) if one.name != "first"}
        return Choices(**rows, first=first)


def choices_of(jobs: Sequence[ClusterJob], capacity: Capacity) -> Choices:
    """Return every size of every job, and why it can't be taken.

    What a running job has can always be kept. A job that runs at nothing known is barred from all else: what its
    present size is worth can't be compared. A job of no known speed may start at what was asked for, or at its first
    size.
    """
    places = {pool.name: place for place, pool in enumerate(capacity.pools)}
    sound = _sound(jobs)
    parts = [job.sizes if good else _EMPTY for job, good in zip(jobs, sound, strict=True)]
    waits = np.array([job.current is None or job.preemptible for job in jobs], dtype=np.bool_)
    waits |= ~np.array(sound, dtype=np.bool_)
    lengths = np.array([len(part) for part in parts], dtype=np.int64)
    first = np.concatenate([[0], np.cumsum(lengths + waits)]).astype(np.int64)
    n = int(first[-1])
    job = np.repeat(np.arange(len(jobs)), lengths + waits)
    size = np.arange(n) - first[job]
    real = size < lengths[job]
    size[~real] = -1

    def gathered(name: str, missing: float, kind: type = np.float64) -> NDArray[np.generic]:
        """Return a column over all rows; what it is where left out, and where a job waits, is ``missing``."""
        column: NDArray[np.generic] = np.full(n, missing, dtype=kind)
        arrays = [getattr(part, name) for part in parts]
        column[real] = np.concatenate(
            [
                values if len(values) == length else np.full(length, missing, dtype=kind)
                for values, length in zip(arrays, lengths.tolist(), strict=True)
            ]
            or [np.zeros(0)]
        )
        return column

    pool = np.full(n, -1, dtype=np.int64)
    pool[real] = [places.get(name, -1) for part in parts for name in part.pool]
    workers = gathered("workers", 0, np.int64).astype(np.int64)
    together = np.maximum(gathered("together", 1, np.int64).astype(np.int64), 1)
    ps = gathered("ps", 0, np.int64).astype(np.int64)
    share = np.zeros((n, 2, 3))
    for place, name in enumerate(RESOURCES):
        share[:, WORKERS, place] = gathered(name, 0.0).astype(np.float64) * np.minimum(
            together, np.maximum(workers, 1)
        )
    share[:, SERVERS, 1] = gathered("ps_cpu", 0.0)
    share[:, SERVERS, 2] = gathered("ps_memory", 0.0)
    current = np.array(
        [-1 if one.current is None or not good else one.current for one, good in zip(jobs, sound, strict=True)]
    )
    found = Choices(
        job=job,
        size=size,
        pool=pool,
        workers=workers,
        ps=ps,
        groups=np.stack([-(-workers // together), ps], axis=1),
        share=share,
        goodput=np.where(real, gathered("goodput", np.nan).astype(np.float64), 0.0),
        price=np.where(real, gathered("price_per_hour", np.nan).astype(np.float64), 0.0),
        present=size == current[job],
        barred=np.zeros(n, dtype=np.int64),
        first=first,
    )
    return replace(found, barred=_barred(found, jobs, np.array(sound, dtype=np.bool_), capacity))


_EMPTY = Sizes((), *(np.zeros(0, dtype=kind) for kind in (np.int64, float, float, float, float)))


_AMOUNTS = ("accelerators", "cpu", "memory", "ps_cpu", "ps_memory")


def _sound(jobs: Sequence[ClusterJob]) -> list[bool]:
    """Return of each job whether its sizes are a table of amounts at all, its present one in it."""
    sound = [_whole(job.sizes) and (job.current is None or 0 <= job.current < len(job.sizes)) for job in jobs]
    parts = [job.sizes for job, good in zip(jobs, sound, strict=True) if good]
    lengths = np.array([len(part) for part in parts], dtype=np.int64)
    wrong = np.concatenate([np.zeros(0), *(part.workers for part in parts)]) < 1
    owner = np.repeat(np.arange(len(parts)), lengths)
    bad = np.bincount(owner[wrong], minlength=len(parts)) > 0
    for name in (*_AMOUNTS, "ps"):
        values = [getattr(part, name) for part in parts]
        given = np.array([len(one) for one in values], dtype=np.int64)
        all_ = np.concatenate([np.zeros(0), *values])
        wrong = ~(np.isfinite(all_) & (all_ >= 0.0))
        bad |= np.bincount(np.repeat(np.arange(len(parts)), given)[wrong], minlength=len(parts)) > 0
    checked = iter(bad.tolist())
    return [good and not next(checked) for good in sound]


def _whole(sizes: Sizes) -> bool:
    n = len(sizes.workers)
    needed = (sizes.pool, sizes.goodput, sizes.accelerators, sizes.cpu, sizes.memory)
    optional = (
        sizes.together,
        sizes.ps,
        sizes.ps_cpu,
        sizes.ps_memory,
        sizes.price_per_hour,
        sizes.speed,
        sizes.batch,
    )
    return all(len(one) == n for one in needed) and all(len(one) in (0, n) for one in optional)


def _barred(c: Choices, jobs: Sequence[ClusterJob], sound: Bools, capacity: Capacity) -> Ints:
    """Return of each row why it can't be taken."""
    waits = c.size < 0
    barred = np.zeros(len(c), dtype=np.int64)

    def bar(which: Bools, why: Barred) -> None:
        barred[which & (barred == Barred.NO) & ~waits & ~c.present] = why

    bar(_refused(c, jobs), Barred.REFUSED)
    bar(~_known(c, jobs), Barred.SPEED_UNKNOWN)
    bar(c.pool < 0, Barred.POOL_UNKNOWN)
    fitting = _fitting(c, capacity)
    bar(np.any(fitting == 0, axis=1), Barred.NO_SUCH_NODE)
    bar(np.any(fitting < c.groups, axis=1), Barred.TOO_LARGE)
    bar(_over_quota(c, jobs, capacity), Barred.OVER_QUOTA)
    if np.isfinite(capacity.budget_per_hour):
        bar(~(c.price >= 0.0), Barred.PRICE_UNKNOWN)
    held = np.array([job.hold is not None for job in jobs], dtype=np.bool_)
    stuck = np.zeros(len(jobs), dtype=np.bool_)  # runs at a speed that isn't known
    stuck[c.job[c.present & ~waits & ~(c.goodput > 0.0)]] = True
    bar(held[c.job], Barred.HELD)
    bar(stuck[c.job], Barred.SPEED_UNKNOWN)
    runs = np.array([job.current is not None for job in jobs], dtype=np.bool_)
    barred[waits & ((held | stuck) & runs & sound)[c.job]] = Barred.HELD
    return barred


def _refused(c: Choices, jobs: Sequence[ClusterJob]) -> Bools:
    """Return which rows a person refused."""
    refused = np.zeros(len(c), dtype=np.bool_)
    for place, job in enumerate(jobs):
        for size in job.refused:
            refused[c.first[place] : c.first[place + 1]] |= c.size[c.first[place] : c.first[place + 1]] == size
    return refused


def _known(c: Choices, jobs: Sequence[ClusterJob]) -> Bools:
    """Return which rows have a speed, or are where a job of unknown speed would start."""
    known = np.isfinite(c.goodput) & (c.goodput > 0.0)
    any_known = np.bincount(c.job[known], minlength=len(jobs)) > 0
    for place in np.flatnonzero(~any_known).tolist():
        asked = jobs[place].requested
        rows = np.arange(c.first[place], c.first[place + 1])
        start = rows[c.size[rows] == (0 if asked is None else asked)]
        known[start] = jobs[place].current is None
    return np.asarray(known)


def _fitting(c: Choices, capacity: Capacity) -> Ints:
    """Return how many of its groups of workers, and of its servers, the empty pool would hold, (n, 2)."""
    nodes = np.array([max(pool.nodes, 0) for pool in capacity.pools] + [0], dtype=np.int64)
    room = np.vstack([node_of(capacity), np.zeros((1, 3))])
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(c.share > 0, room[c.pool][:, None, :] * (1 + EPSILON) / c.share, np.inf).min(axis=2)
    whole = np.floor(np.minimum(each, 1e6)).astype(np.int64)
    return np.where(c.groups > 0, whole * nodes[c.pool][:, None], 1 << 40)


def node_of(capacity: Capacity) -> Array:
    """Return what one node of each pool has, (pools, 3); what isn't a number counts as nothing."""
    rows = [(p.accelerators_per_node, p.cpu_per_node, p.memory_per_node) for p in capacity.pools]
    room = np.array(rows, dtype=np.float64).reshape(-1, 3)
    return np.where(np.isnan(room), 0.0, np.maximum(room, 0.0))


def _over_quota(c: Choices, jobs: Sequence[ClusterJob], capacity: Capacity) -> Bools:
    """Return which rows alone are more than their user's quota."""
    over = np.zeros(len(c), dtype=np.bool_)
    if capacity.quotas:
        demand = c.demand
        for quota in capacity.quotas:
            most = np.array([quota.accelerators, quota.cpu, quota.memory])
            covers = np.array([quota.covers(job.user, job.namespace) for job in jobs], dtype=np.bool_)
            theirs = covers[c.job] & _in_pool(c, capacity, quota.pool)
            over |= theirs & (demand > most * (1 + EPSILON)).any(axis=1)
    return over


def _in_pool(c: Choices, capacity: Capacity, name: str) -> Bools:
    if not name:
        return np.ones(len(c), dtype=np.bool_)
    return np.asarray(c.pool == next((at for at, pool in enumerate(capacity.pools) if pool.name == name), -2))
