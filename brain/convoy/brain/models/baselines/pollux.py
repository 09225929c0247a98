"""Pollux's step time of all-reduce jobs, fitted to one job's rows (Qiao et al., OSDI 2021)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from convoy.brain.models.baselines.base import Baseline, Fitted
from convoy.brain.models.baselines.rows import FOREIGN, PS, Array, Rows

MOST_GAMMA = 10.0
GAMMA_PULL, RETROGRESSION_PULL = 0.03, 0.01
"""How many log-seconds of error a unit of gamma over 1, and of beta over alpha, weigh as much as."""
TINY = 1e-8
BEYOND_NODE = 1.1
"""Synchronizing between nodes, where only one was seen: so many times the time within it."""


class Pollux(Baseline):
    """T_grad = a_c + b_c m; T_sync = 0 for one worker, a_l + b_l (K - 2) on one node, a_n + b_n (K - 2) on several.

    A step takes (T_grad^g + T_sync^g)^(1/g), 1 <= g <= 10, after ``accumulation_steps`` - 1 further T_grad; m samples
    a worker, K workers. The seven parameters are fitted to the logarithms of step times, and of the compute part
    where ``compute_seconds`` says it. As in the paper, what wasn't seen is taken for free: synchronization costs
    nothing until it was measured, and the growth with K nothing until more than two workers were.
    """

    learns = False

    def _covers(self, rows: Rows) -> NDArray[np.bool_]:
        return np.asarray((rows.strategy != FOREIGN) & (rows.strategy != PS))

    def _fit_job(self, name: str, own: Rows, asked: Rows) -> Fitted:
        unit = float(np.exp(np.mean(np.log(own.step_seconds))))
        parameters, free = _fit(own, unit)

        def log_speed(rows: Rows) -> Array:
            return np.asarray(np.log(rows.samples / (unit * step_and_compute(parameters, rows)[0])))

        return Fitted(log_speed(asked), own.log_speed - log_speed(own), free)


def step_and_compute(parameters: Array, rows: Rows) -> tuple[Array, Array]:
    """Return the times of a step and of the compute part of a micro-step.

    Args:
        parameters: a_c, b_c, a_l, b_l, a_n, b_n (times, in any one unit) and gamma.
        rows: configurations.
    """
    a_c, b_c, a_l, b_l, a_n, b_n, gamma = parameters
    batch = np.where(np.isfinite(rows.batch), rows.batch, 1.0 / rows.workers)
    compute = a_c + b_c * batch
    more = np.maximum(rows.workers - 2.0, 0.0)
    sync = np.where(rows.nodes > 1, a_n + b_n * more, a_l + b_l * more) * (rows.workers > 1)
    last = np.exp(np.logaddexp(gamma * np.log(compute), gamma * np.log(np.maximum(sync, 1e-30))) / gamma)
    return (rows.accumulation - 1.0) * compute + last, compute


def _fit(own: Rows, unit: float) -> tuple[Array, int]:
    """Return the seven parameters, times in ``unit`` seconds, and how many of them were free."""
    batch = np.where(np.isfinite(own.batch), own.batch, 1.0 / own.workers)
    typical = float(np.mean(batch))
    free = np.array([len(np.unique(batch)) > 1, True, *_seen(own), True])
    values = np.array([0.5, 0.5 / typical, 0.1, 0.01, 0.1, 0.01, 1.5])
    values[2:6][~free[2:6]] = TINY
    known = np.isfinite(own.compute)
    if not free[0]:  # one batch can't tell a fixed part from a growing one: half and half, as Pollux has it
        compute = own.compute[known] / unit if known.any() else own.step_seconds / unit / own.accumulation
        values[0] = float(np.mean(compute)) / 2
    log_steps = np.log(own.step_seconds / unit)
    log_compute = np.log(np.where(known, own.compute, unit) / unit)
    weight = 1.0 / np.sqrt(len(own))

    def full(logs: Array) -> Array:
        parameters = values.copy()
        parameters[free] = np.exp(logs)
        return parameters

    def residuals(logs: Array) -> Array:
        parameters = full(logs)
        step, compute = step_and_compute(parameters, own)
        split = np.where(known, np.log(compute) - log_compute, 0.0)
        growth = parameters[[3, 5]] / parameters[[2, 4]]
        pulls = [GAMMA_PULL * (parameters[6] - 1.0), *(RETROGRESSION_PULL * growth)]
        return np.concatenate([weight * (np.log(step) - log_steps), weight * split, pulls])

    low = np.log(np.array([TINY, TINY / typical, *[TINY] * 4, 1.0]))[free]
    high = np.log(np.array([1e4, 1e4 / typical, *[1e4] * 4, MOST_GAMMA]))[free]
    start = np.clip(np.log(values[free]), low + 1e-6, high - 1e-6)
    found = full(least_squares(residuals, start, bounds=(low, high), max_nfev=100).x)
    if not (own.nodes > 1).any():
        found[4:6] = np.maximum(found[4:6], BEYOND_NODE * found[2:4])
    return found, int(np.count_nonzero(free))


def _seen(own: Rows) -> list[bool]:
    """Return whether the rows say something of a_l, b_l, a_n and b_n."""
    within = (own.nodes <= 1) & (own.workers > 1)
    between = own.nodes > 1
    many = own.workers > 2
    return [bool(within.any()), bool((within & many).any()), bool(between.any()), bool((between & many).any())]
