"""What a job shows beside its speed, and what the physics makes of it.

    worker's cores used = sat(worker_busy * a compute / step, allotted)
    largest server's    = sat(server_busy * server_seconds / step, allotted)
    compute seconds     = compute_share * a compute, seen relative to the step that was measured

    sat(x, c) = (x^-8 + c^-8)^(-1/8): a reading near the allotment says little of what was wanted

Parts of a step relative to the step, so that a job that runs slower throughout shows the same. The factors are the
job's own (coefficients of ``physics``, learned as the others are), and each channel errs by a process of its own: how
many cores are busy isn't how long something takes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from convoy.brain.models.throughput.frame import Observations
from convoy.brain.models.throughput.physics import (
    COMPUTE_SHARE,
    SERVER_BUSY,
    WORKER_BUSY,
    Array,
    Configurations,
    Step,
    log_samples,
    namespace,
    server_seconds,
    step_of,
)

WORKER, SERVER, COMPUTE = range(3)
COUNT = 3

SHARPNESS = 8.0


def saturated(log_wanted: Array, allotted: Array) -> Array:
    """Return the logarithm of use, given that of what is wanted and the allotment in cores (NaN: unlimited)."""
    xp = namespace(log_wanted)
    over = SHARPNESS * (log_wanted - xp.log(xp.where(xp.isnan(allotted), np.inf, allotted)))
    used: Array = log_wanted - (xp.clip(over, 0.0, None) + xp.log1p(xp.exp(-xp.abs(over)))) / SHARPNESS
    return used


def log_worker(theta: Array, configurations: Configurations, step: Step) -> Array:
    """Return the logarithm of the cores that a worker uses, (draws, n)."""
    wanted = theta[..., WORKER_BUSY, None] + _log_compute(configurations, step) - step.log_step
    return saturated(wanted, configurations.worker_cpu)


def log_server(theta: Array, configurations: Configurations, step: Step) -> Array:
    """Return the logarithm of the cores that the largest server uses, (draws, n); NaN without servers."""
    xp = namespace(theta)
    wanted = theta[..., SERVER_BUSY, None] + xp.log(server_seconds(theta, configurations)) - step.log_step
    used: Array = xp.where(configurations.ps > 0, saturated(wanted, configurations.ps_cpu), np.nan)
    return used


def _log_compute(configurations: Configurations, step: Step) -> Array:
    seconds: Array = namespace(step.compute).log(step.compute * configurations.accumulation_steps)
    return seconds


def expected(theta: Array, configurations: Configurations, step: Step, channel: int) -> Array:
    """Return what ``channel`` is expected to show, (draws, n)."""
    if channel == WORKER:
        return log_worker(theta, configurations, step)
    if channel == SERVER:
        return log_server(theta, configurations, step)
    return theta[..., COMPUTE_SHARE, None] + _log_compute(configurations, step) - step.log_step


def readings(observations: Observations, samples: Array) -> tuple[Array, NDArray[np.intp], NDArray[np.intp]]:
    """Return the channels' known readings (r,), and of each its channel and its place among the observations.

    ``samples`` is the logarithm of a step's samples, (k,): the step that was measured is theirs over the speed.
    """
    with np.errstate(invalid="ignore"):
        shown = np.log(observations.shown)
    shown[COMPUTE] -= samples - observations.log_speed
    shown[SERVER, observations.configurations.ps <= 0] = np.nan
    channel, place = np.nonzero(np.isfinite(shown))
    return shown[channel, place], channel, place


def physics(
    theta: Array, configurations: Configurations, channel: NDArray[np.intp], place: NDArray[np.intp]
) -> Array:
    """Return log speeds at all configurations, then what each reading is expected to show, (draws, k + r)."""
    step = step_of(theta, configurations)
    pieces = [log_samples(theta, configurations) - step.log_step]
    for which in range(COUNT):  # readings are in the order of their channels
        rows = place[channel == which]
        if len(rows):
            pieces.append(expected(theta, configurations, step, which)[:, rows])
    return np.concatenate(pieces, axis=1)
