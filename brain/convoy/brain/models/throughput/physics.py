"""The time of one training step, with all-reduce or parameter servers, from coefficients in logarithms.

With w processes of A accelerators each on n nodes, m samples a process and micro-step, a micro-steps a step, and p
servers:

    compute      = (overhead + sample * m / A) * crowding * stretch(need / c)
    crowding     = max(1, w c / C) * (1 + crowd * share)      c cores a process, C cores that the job can have
    share        = min(1, w c / C) - c / C                     how much fuller the cores are than with one process
    stretch(r)   = (1 + r^4)^(1/4)                             fewer cores than a process needs make it slower
    exchange     = 0                                           all-reduce, one accelerator
                   local + local_step * (w A - 2)                on one node
                   net * (w / n)^sharing + net_step * (w A - 2)  on several
                   (push * w + apply) * stretch(server_need / c_p) / p + connect * w + shard * p     servers
    step         = (a - 1) compute + (compute^g + exchange^g)^(1/g)      g = 1 + exp(overlap): 1 is no overlap
    speed        = w m a / step                                samples/s

With asynchronous servers a step is one worker's own cycle, and the same form holds: with many workers the capacity
of the servers, p / push, bounds the speed. Where a job's batch is unknown, m = w^-split, split from 0 (each worker
has its own batch) to 1 (all share one).

Sources: compute, all-reduce and overlap after Pollux (Qiao et al., OSDI 2021); the servers' terms after Optimus
(Peng et al., EuroSys 2018), and ``apply``, without which few servers look faster than they are with one worker.
Crowding and stretch are ours. What nodes show beside speed is in ``channels``.

Batches are counted in units of the job's own (``Configurations.relative``): how much of a step is overhead at that
batch is alike among jobs, the seconds a sample aren't.

Written once for numpy (one job) and torch (many at once, ``batched``): by functions of one name in both.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

NAMES = (
    "overhead",
    "sample",
    "crowd",
    "local",
    "local_step",
    "net",
    "net_step",
    "sharing",
    "overlap",
    "push",
    "apply",
    "connect",
    "shard",
    "need",
    "server_need",
    "split",
    "worker_busy",
    "server_busy",
    "compute_share",
)
"""The coefficients, in the order of the last axis of every ``theta``; natural logarithms, but
for ``sharing`` (itself: how much slower a node's link is by the workers sharing it) and ``split`` (a logit). The last
three belong to ``channels``."""

SIZE = len(NAMES)
(
    OVERHEAD,
    SAMPLE,
    CROWD,
    LOCAL,
    LOCAL_STEP,
    NET,
    NET_STEP,
    SHARING,
    OVERLAP,
    PUSH,
    APPLY,
    CONNECT,
    SHARD,
    NEED,
    SERVER_NEED,
    SPLIT,
    WORKER_BUSY,
    SERVER_BUSY,
    COMPUTE_SHARE,
) = range(SIZE)

LEVEL: Array = np.zeros(SIZE)
"""The direction in which ``theta`` moves when the same job runs slower by a constant factor: speed falls by as much,
and what its nodes show relative to the time of a step stays as it is."""
LEVEL[[OVERHEAD, SAMPLE, LOCAL, LOCAL_STEP, NET, NET_STEP, PUSH, APPLY, CONNECT, SHARD]] = 1.0


BLOCK = 1 << 14
"""Speeds that are worked out together: what a processor's cache holds."""


@dataclass(frozen=True)
class Form:
    """Which coefficients act in one kind of job; arrays over them have them in this order."""

    active: tuple[int, ...] = tuple(range(SIZE))

    def __len__(self) -> int:
        return len(self.active)

    @property
    def level(self) -> Array:
        """``LEVEL``, of the active ones."""
        return np.asarray(LEVEL[list(self.active)])

    def full(self, theta: Array) -> Array:
        """Return all coefficients (draws, SIZE) given the active ones (draws, len); the others are nothing's."""
        everything = np.zeros((len(theta), SIZE))
        everything[:, self.active] = theta
        return everything


_ALWAYS = (OVERHEAD, SAMPLE, CROWD, OVERLAP, NEED, WORKER_BUSY, COMPUTE_SHARE)
ALL_REDUCE = Form((*_ALWAYS, LOCAL, LOCAL_STEP, NET, NET_STEP, SHARING))
SERVED = Form((*_ALWAYS, PUSH, APPLY, CONNECT, SHARD, SERVER_NEED, SERVER_BUSY))


def with_unknown_batch(form: Form) -> Form:
    """Return the form of jobs whose batch nobody told."""
    return Form((*form.active, SPLIT))


@dataclass(frozen=True)
class Configurations:
    """Configurations of one job, each field an array of shape (n,)."""

    workers: Array
    nodes: Array
    ps: Array
    """Parameter servers; 0 with all-reduce."""
    asynchronous: Array
    """1 with asynchronous parameter servers, else 0."""
    batch_size: Array
    """NaN where unknown."""
    accumulation_steps: Array
    accelerators: Array
    """Accelerators of one worker."""
    worker_cpu: Array
    """Cores of one worker; NaN where unknown (then they suffice)."""
    ps_cpu: Array
    """Cores of one server; NaN where unknown."""
    cluster_cpu: Array
    """Cores that the job can have in its cluster; infinity where unknown (then nothing is crowded)."""

    def __len__(self) -> int:
        return len(self.workers)

    def take(self, rows: NDArray[np.intp]) -> Configurations:
        """Return the configurations at ``rows``."""
        return Configurations(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def followed_by(self, others: Configurations) -> Configurations:
        """Return these configurations, then the others."""
        both = {one.name: [getattr(self, one.name), getattr(others, one.name)] for one in fields(self)}
        return Configurations(**{name: np.concatenate(values) for name, values in both.items()})

    def relative(self, batch: float) -> Configurations:
        """Return the configurations with batches counted in units of ``batch`` samples."""
        return replace(self, batch_size=self.batch_size / batch)

    @property
    def unit(self) -> Array:
        """What is alike among a job's configurations: a worker's batch; with synchronous servers all workers'."""
        batch = np.where(np.isnan(self.batch_size), 1.0, self.batch_size)
        shared = (self.ps > 0) & (self.asynchronous == 0)
        return np.asarray(
            np.where(shared & ~np.isnan(self.batch_size), batch * self.workers * self.accumulation_steps, batch)
        )

    @property
    def features(self) -> Array:
        """Coordinates (n, 4) in which nearby configurations err alike: log of workers, nodes, servers and batch."""
        batch = np.where(np.isnan(self.batch_size), 1.0, self.batch_size)
        return np.asarray(np.log(np.column_stack([self.workers, self.nodes, np.maximum(self.ps, 1.0), batch])))

    def same(self, others: Configurations) -> NDArray[np.bool_]:
        """Return which of these are which of the others, (n, others); an allotment that one doesn't tell is alike.

        What a cluster has left for the job changes by the minute, and makes no other configuration of it.
        """
        apart = np.abs(self.features[:, None, :] - others.features[None, :, :])
        near: NDArray[np.bool_] = np.max(apart, axis=2) < 1e-6
        for name in ("accumulation_steps", "accelerators", "worker_cpu", "ps_cpu"):
            one, other = getattr(self, name)[:, None], getattr(others, name)[None, :]
            near &= np.isclose(one, other, rtol=1e-6) | ~np.isfinite(one) | ~np.isfinite(other)
        return near


def namespace(values: Array) -> Any:
    """Return the module whose functions work on ``values``: numpy, or torch for its tensors."""
    return np if isinstance(values, np.ndarray) else sys.modules["torch"]


def _stretch(need: Array, allotted: Array) -> Array:
    """Return by how much work stretches that needs ``need`` cores and has ``allotted``; 1 where that is unknown."""
    xp = namespace(need)
    ratio = (need / xp.where(xp.isnan(allotted), np.inf, allotted)) ** 2
    stretch: Array = xp.sqrt(xp.sqrt(1.0 + ratio * ratio))
    return stretch


def _crowding(configurations: Configurations, crowd: Array) -> Array:
    """Return the factor (draws, n) on compute time of sharing cores; ``crowd`` has shape (draws, 1)."""
    c, xp = configurations, namespace(crowd)
    cores = xp.where(xp.isnan(c.worker_cpu), 1.0, c.worker_cpu)
    demand = c.workers * cores / c.cluster_cpu
    share = xp.clip(demand, None, 1.0) - xp.clip(cores / c.cluster_cpu, None, 1.0)
    crowding: Array = xp.clip(demand, 1.0, None) * (1.0 + crowd * share)
    return crowding


def batches(theta: Array, configurations: Configurations) -> Array:
    """Return samples a process and micro-step, (n,), or (draws, n) where some are unknown."""
    xp = namespace(theta)
    known = configurations.batch_size
    missing = xp.isnan(known)
    if not missing.any():
        return known
    split = 1.0 / (1.0 + xp.exp(-theta[..., SPLIT, None]))
    found: Array = xp.where(missing, xp.exp(-split * xp.log(configurations.workers)), known)
    return found


@dataclass(frozen=True)
class Step:
    """One step of each draw at each configuration; seconds, each (draws, n)."""

    compute: Array
    """Of one micro-step."""
    exchange: Array
    """Of gradients and parameters, before any of it is hidden behind compute."""
    log_step: Array
    """Logarithm of the whole step."""


def step_of(theta: Array, configurations: Configurations) -> Step:
    """Return the step's parts for ``theta`` of shape (draws, SIZE).

    Of many jobs at once ``theta`` has shape (jobs, draws, SIZE), and the configurations' fields (jobs, 1, n).
    """
    c, xp = configurations, namespace(theta)
    compute = _compute(theta, c)
    exchange = _exchange(theta, c)
    gamma = 1.0 + xp.exp(theta[..., OVERLAP, None])
    log_compute = xp.log(compute)
    apart = xp.log(xp.clip(exchange, 1e-300, None)) - log_compute
    # log of (compute^g + exchange^g)^(1/g), the larger taken out
    log_step = xp.log1p(xp.exp(-gamma * xp.abs(apart))) / gamma + xp.clip(apart, 0.0, None) + log_compute
    if (c.accumulation_steps != 1).any():
        log_step = xp.log(xp.exp(log_step) + (c.accumulation_steps - 1.0) * compute)
    return Step(compute, exchange, log_step)


def log_samples(theta: Array, configurations: Configurations) -> Array:
    """Return the logarithm of a step's samples, (n,), or (draws, n) where some batches are unknown."""
    c = configurations
    samples: Array = namespace(theta).log(c.workers * batches(theta, c) * c.accumulation_steps)
    return samples


def log_speed(theta: Array, configurations: Configurations) -> Array:
    """Return the logarithm of samples/s, shape (draws, n), for ``theta`` of shape (draws, SIZE)."""
    block = max(1, BLOCK // max(1, len(configurations)))
    if len(theta) <= block:
        return log_samples(theta, configurations) - step_of(theta, configurations).log_step
    parts = [theta[at : at + block] for at in range(0, len(theta), block)]
    return np.vstack([log_samples(part, configurations) - step_of(part, configurations).log_step for part in parts])


def _compute(theta: Array, configurations: Configurations) -> Array:
    c, xp = configurations, namespace(theta)
    sample = xp.exp(theta[..., SAMPLE, None]) * (batches(theta, c) / c.accelerators)
    compute: Array = xp.exp(theta[..., OVERHEAD, None]) + sample
    if xp.isfinite(c.cluster_cpu).any():
        compute = compute * _crowding(c, xp.exp(theta[..., CROWD, None]))
    if not xp.isnan(c.worker_cpu).all():
        compute = compute * _stretch(xp.exp(theta[..., NEED, None]), c.worker_cpu)
    return compute


def _exchange(theta: Array, configurations: Configurations) -> Array:
    c, xp = configurations, namespace(theta)
    served = c.ps > 0
    if served.all():
        return _served(theta, c)
    devices = c.workers * c.accelerators
    hops = xp.clip(devices - 2.0, 0.0, None)
    exchange: Array = xp.exp(theta[..., LOCAL, None]) + xp.exp(theta[..., LOCAL_STEP, None]) * hops
    far = c.nodes > 1
    if far.any():
        link = xp.exp(theta[..., NET, None] + theta[..., SHARING, None] * xp.log(c.workers / c.nodes))
        exchange = xp.where(far, link + xp.exp(theta[..., NET_STEP, None]) * hops, exchange)
    exchange = xp.where(devices <= 1, 0.0, exchange)
    if served.any():
        exchange = xp.where(served, _served(theta, c), exchange)
    return exchange


def _served(theta: Array, configurations: Configurations) -> Array:
    shards: Array = namespace(theta).exp(theta[..., SHARD, None]) * configurations.ps
    return server_seconds(theta, configurations) + shards


def server_seconds(theta: Array, configurations: Configurations) -> Array:
    """Return seconds of one step in which one server is at work, (draws, n); rows without servers mean nothing."""
    c, xp = configurations, namespace(theta)
    push = (xp.exp(theta[..., PUSH, None]) * c.workers + xp.exp(theta[..., APPLY, None])) / xp.clip(c.ps, 1.0, None)
    if not xp.isnan(c.ps_cpu).all():
        push = push * _stretch(xp.exp(theta[..., SERVER_NEED, None]), c.ps_cpu)
    seconds: Array = push + xp.exp(theta[..., CONNECT, None]) * c.workers
    return seconds
