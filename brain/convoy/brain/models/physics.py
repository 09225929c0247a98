"""The time of one synchronous all-reduce step, from eight coefficients in logarithms.

With w processes on n nodes, m samples a process and micro-step, and a micro-steps a step:

    compute(m)  = (overhead + sample * m) * crowding
    crowding    = max(1, w c / C) * (1 + crowd * share)     c cores a process, C cores that the job can have
    share       = min(1, w c / C) - c / C                    how much fuller the cores are than with one process
    sync(w, n)  = 0                                          w = 1
                  local + local_step * (w - 2)                 on one node
                  net   + net_step   * (w - 2)                 on several
    step        = (a - 1) compute + (compute^g + sync^g)^(1/g)      g = 1 + exp(overlap): 1 is no overlap, infinity
    full speed       = w m a / step                               samples/s

The form of compute, sync and overlap follows Pollux (Qiao et al., OSDI 2021). Crowding is ours: what processes on one
machine do to each other when they share cores, caches and memory. Batches are counted in units of the job's own
typical batch (``Configurations.relative``): how much of a step is overhead at that batch is alike among jobs, the
seconds a sample aren't.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

NAMES = ("overhead", "sample", "crowd", "local", "local_step", "net", "net_step", "overlap")
"""The coefficients, in the order of the last axis of every ``theta``; all are natural logarithms."""

SIZE = len(NAMES)

LEVEL: Array = np.array([1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0])
"""The direction in which ``theta`` moves when the same job runs on a machine slower by a constant factor."""


@dataclass(frozen=True)
class Configurations:
    """Configurations of one job, each field an array of shape (n,)."""

    workers: Array
    nodes: Array
    batch_size: Array
    accumulation_steps: Array
    worker_cpu: Array
    cluster_cpu: Array
    """Cores that the job can have in its cluster; infinity where unknown (then nothing is crowded)."""

    def __len__(self) -> int:
        return len(self.workers)

    def take(self, rows: NDArray[np.intp]) -> Configurations:
        """Return the configurations at ``rows``."""
        return Configurations(
            self.workers[rows],
            self.nodes[rows],
            self.batch_size[rows],
            self.accumulation_steps[rows],
            self.worker_cpu[rows],
            self.cluster_cpu[rows],
        )

    def relative(self, batch: float) -> Configurations:
        """Return the configurations with batches counted in units of ``batch`` samples."""
        return replace(self, batch_size=self.batch_size / batch)

    @property
    def samples_per_step(self) -> Array:
        """Samples of one step, all workers together."""
        return self.workers * self.batch_size * self.accumulation_steps

    @property
    def features(self) -> Array:
        """Coordinates (n, 3) in which nearby configurations err alike: logarithms of workers, nodes, batch."""
        return np.log(np.column_stack([self.workers, self.nodes, self.batch_size]))


def crowding(configurations: Configurations, crowd: Array) -> Array:
    """Return the factor (draws, n) on compute time of sharing cores; ``crowd`` has shape (draws, 1)."""
    c = configurations
    demand = c.workers * c.worker_cpu / c.cluster_cpu
    share = np.minimum(1.0, demand) - np.minimum(1.0, c.worker_cpu / c.cluster_cpu)
    return np.asarray(np.maximum(1.0, demand) * (1.0 + crowd * share))


def parts(theta: Array, configurations: Configurations) -> tuple[Array, Array]:
    """Return seconds of one micro-step's compute and of one step's synchronization, each (draws, n).

    ``theta`` has shape (draws, SIZE).
    """
    c = configurations
    coefficient = np.exp(theta[:, :, None])
    compute = coefficient[:, 0] + coefficient[:, 1] * c.batch_size
    if np.any(np.isfinite(c.cluster_cpu)):
        compute = compute * crowding(c, coefficient[:, 2])
    one_node = c.nodes <= 1
    alone = c.workers <= 1
    hops = np.maximum(c.workers - 2.0, 0.0)
    sync = np.zeros_like(compute)
    if one_node.any():
        sync[:, one_node] = (coefficient[:, 3] + coefficient[:, 4] * hops)[:, one_node]
    if not one_node.all():
        sync[:, ~one_node] = (coefficient[:, 5] + coefficient[:, 6] * hops)[:, ~one_node]
    sync[:, alone] = 0.0
    return compute, sync


def log_speed(theta: Array, configurations: Configurations) -> Array:
    """Return the logarithm of samples/s, shape (draws, n), for ``theta`` of shape (draws, SIZE)."""
    compute, sync = parts(theta, configurations)
    gamma = 1.0 + np.exp(theta[:, 7:8])
    log_compute = np.log(compute)
    log_sync = np.log(np.maximum(sync, 1e-300))
    # log of (compute^g + sync^g)^(1/g), the larger taken out
    step = np.log1p(np.exp(-gamma * np.abs(log_compute - log_sync))) / gamma + np.maximum(log_compute, log_sync)
    c = configurations
    if np.any(c.accumulation_steps != 1):
        step = np.log(np.exp(step) + (c.accumulation_steps - 1.0) * compute)
    return np.asarray(np.log(c.samples_per_step) - step)


def jacobian(theta: Array, configurations: Configurations, step: float = 1e-4) -> tuple[Array, Array]:
    """Return log speed (n,) at one ``theta`` (SIZE,) and its derivative (n, SIZE), by central differences."""
    moves = np.vstack([np.zeros(SIZE), step * np.eye(SIZE), -step * np.eye(SIZE)])
    values = log_speed(theta + moves, configurations)
    return values[0], (values[1 : SIZE + 1] - values[SIZE + 1 :]).T / (2 * step)
