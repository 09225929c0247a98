"""The step time of one data-parallel job, fitted to its measurements: Pollux's model (Qiao et al., OSDI 2021).

compute = a_c + b_c m for m samples a replica; network = 0 for one replica, a_r + b_r (K - 2) for K on one node,
a_n + b_n (K - 2) for K on several; step = (compute^g + network^g)^(1/g), 1 <= g <= 10.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from convoy.brain.simulate.policy import Measurement

Array = NDArray[np.float64]

TINY = 1e-8
GAMMA_PULL, GROWTH_PULL = 1e-3, 1e-2
"""Weights of (g - 1)^2 and of (b / a)^2 beside the two root mean squares of log errors: the paper's optimism."""
BEYOND_NODE = 1.1
"""Between nodes, where only one was seen, the network takes at least so many times what it takes within one."""


@dataclass(frozen=True, slots=True)
class StepModel:
    """Fitted times in seconds: compute a_c, b_c; between nodes a_n, b_n; within a node a_r, b_r; overlap g."""

    a_c: float
    b_c: float
    a_n: float
    b_n: float
    a_r: float
    b_r: float
    g: float

    def compute(self, local: Array) -> Array:
        """Return the seconds of a micro-batch without synchronization, in the shape of ``local``."""
        return np.asarray(self.a_c + self.b_c * local)

    def network(self, nodes: Array, replicas: Array) -> Array:
        """Return the seconds of synchronization alone, in the common shape of the arguments."""
        more = np.maximum(replicas - 2.0, 0.0)
        between, within = self.a_n + self.b_n * more, self.a_r + self.b_r * more
        return np.where(nodes > 1, between, np.where(replicas > 1, within, TINY))

    def step(self, nodes: Array, replicas: Array, local: Array) -> Array:
        """Return the seconds of a micro-step with synchronization."""
        both = np.logaddexp(
            self.g * np.log(self.compute(local)), self.g * np.log(np.maximum(self.network(nodes, replicas), TINY))
        )
        return np.asarray(np.exp(both / self.g))


def fit(measurements: Sequence[Measurement]) -> StepModel:
    """Fit a job's measurements.

    What was never seen costs nothing: the network until there were several replicas, its growth until there were more
    than two.

    Args:
        measurements: at least one.
    """
    nodes, replicas, local, step, sync = (
        np.array([getattr(one, name) for one in measurements], dtype=np.float64)
        for name in ("nodes", "replicas", "local", "step_seconds", "sync_seconds")
    )
    compute = np.maximum(step - sync, TINY)
    values, free = _start(nodes, replicas, local, compute, sync)
    problem = _Problem(nodes, replicas, local, np.log(step), np.log(compute), values, free)
    low = np.where(free, np.log(TINY), values)
    bounds = [(float(one), 12.0) for one in low[:6]] + [(1.0, 10.0)]
    places = np.flatnonzero(free)
    found = minimize(
        problem.loss,
        values[places],
        jac=True,
        method="L-BFGS-B",
        bounds=[bounds[i] for i in places],
        options={"maxiter": 60, "ftol": 1e-6},
    )
    values[places] = found.x
    a_c, b_c, a_n, b_n, a_r, b_r = np.exp(values[:6]).tolist()
    if not (nodes > 1).any():
        a_n, b_n = max(a_n, BEYOND_NODE * a_r), max(b_n, BEYOND_NODE * b_r)
    return StepModel(a_c, b_c, a_n, b_n, a_r, b_r, float(values[6]))


def _start(
    nodes: Array, replicas: Array, local: Array, compute: Array, sync: Array
) -> tuple[Array, NDArray[np.bool_]]:
    """Return first values (logarithms of the six times, then g), and which of them are to be found."""
    between, within, many = nodes > 1, (nodes == 1) & (replicas > 1), replicas > 2
    half = float(np.mean(compute)) / 2.0
    network = max(float(np.mean(sync)), TINY * 10)
    free = np.array(
        [
            len(np.unique(local)) > 1,
            True,
            between.any(),
            many.any() and between.any(),
            within.any(),
            many.any() and within.any(),
            True,
        ]
    )
    first = np.array([half, half / float(np.mean(local)), network, network / 10, network, network / 10])
    logs = np.log(np.where(free[:6] | (np.arange(6) == 0), first, TINY))
    return np.append(logs, 1.001), free


@dataclass(frozen=True, slots=True)
class _Problem:
    """The loss over the free values, with its gradient."""

    nodes: Array
    replicas: Array
    local: Array
    log_step: Array
    log_compute: Array
    values: Array
    free: NDArray[np.bool_]

    def loss(self, point: Array) -> tuple[float, Array]:
        values = self.values.copy()
        values[self.free] = point
        a_c, b_c, a_n, b_n, a_r, b_r = np.exp(values[:6])
        g = values[6]
        more = np.maximum(self.replicas - 2.0, 0.0)
        between, within = self.nodes > 1, (self.nodes <= 1) & (self.replicas > 1)
        compute = a_c + b_c * self.local
        network = np.where(between, a_n + b_n * more, np.where(within, a_r + b_r * more, TINY))
        log_c, log_n = np.log(compute), np.log(network)
        log_t = np.logaddexp(g * log_c, g * log_n) / g
        share = np.exp(g * (log_c - log_t))  # of the compute part in step^g
        of_c = np.stack([a_c / compute, b_c * self.local / compute])
        of_n = np.stack(
            [
                between * a_n / network,
                between * b_n * more / network,
                within * a_r / network,
                within * b_r * more / network,
            ]
        )
        of_g = (share * log_c + (1.0 - share) * log_n - log_t) / g
        slopes_t = np.concatenate([share * of_c, (1.0 - share) * of_n, of_g[None]])
        slopes_c = np.concatenate([of_c, np.zeros((5, len(compute)))])
        first, down_first = _root_mean_square(log_c - self.log_compute, slopes_c)
        second, down_second = _root_mean_square(log_t - self.log_step, slopes_t)
        growth_n, growth_r = (b_n / a_n) ** 2, (b_r / a_r) ** 2
        down = down_first + down_second
        down[6] += 2.0 * GAMMA_PULL * (g - 1.0)
        down[2:6] += 2.0 * GROWTH_PULL * np.array([-growth_n, growth_n, -growth_r, growth_r])
        value = first + second + GAMMA_PULL * (g - 1.0) ** 2 + GROWTH_PULL * (growth_n + growth_r)
        return float(value), down[self.free]


def _root_mean_square(errors: Array, slopes: Array) -> tuple[float, Array]:
    """Return the root mean square of errors, smooth at 0, and its gradient."""
    size = float(np.sqrt(np.mean(errors**2) + 1e-10))
    return size, slopes @ errors / (len(errors) * size)
