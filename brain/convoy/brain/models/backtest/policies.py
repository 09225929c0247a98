"""Published ways to choose the next configuration of a running job, to compare our own with.

None but the greedy ones knows what a restart costs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from convoy.brain.models.backtest.tuning import Policy
from convoy.brain.models.baselines.nearest_neighbour import nearest
from convoy.brain.models.baselines.rows import rows_of

Array = NDArray[np.float64]
Choice = tuple[int | None, str]


@dataclass(frozen=True)
class Round:
    """What a policy is asked; see ``tuning.Policy``."""

    model: Any
    observed: pd.DataFrame
    candidates: pd.DataFrame
    horizon_seconds: float
    restart_seconds: float
    trial_seconds: float
    seed: int

    @cached_property
    def places(self) -> NDArray[np.intp]:
        """The place among the candidates of each configuration that ran; the job is at the last one."""
        return nearest(rows_of(self.candidates).features, rows_of(self.observed).features)

    @property
    def now(self) -> int:
        """Where the job is."""
        return int(self.places[-1])

    @cached_property
    def speed(self) -> Array:
        """Measured at ``places``."""
        return self.observed["throughput"].to_numpy(dtype=np.float64)

    @property
    def best(self) -> int:
        """The fastest place that ran."""
        return int(self.places[int(np.argmax(self.speed))])

    def nearest_to(self, workers: float, ps: float) -> int:
        """Return the place of the candidate nearest to these sizes, in logarithms."""
        sizes = rows_of(self.candidates).features[:, :2]
        return int(nearest(sizes, np.log([[max(workers, 1.0), max(ps, 1.0)]]))[0])


def _policy(choose: Callable[[Round], Choice]) -> Policy:
    def policy(
        model: Any,
        observed: pd.DataFrame,
        candidates: pd.DataFrame,
        horizon_seconds: float,
        restart_seconds: float,
        trial_seconds: float,
        seed: int,
    ) -> Choice:
        return choose(Round(model, observed, candidates, horizon_seconds, restart_seconds, trial_seconds, seed))

    policy.__doc__ = choose.__doc__
    return policy


@_policy
def stay(asked: Round) -> Choice:
    """Keep the configuration, whatever is seen."""
    return None, "Kept"


def greedy(probes: int = 0) -> Policy:
    """Return the policy of going where the model is fastest, if that pays the restart within the horizon.

    What ran counts as measured.

    Args:
        probes: configurations that run first, all but the first at random, for models that fewer can't be fitted to.
    """

    @_policy
    def choose(asked: Round) -> Choice:
        if len(asked.places) < min(probes, len(asked.candidates)):
            untried = np.setdiff1d(np.arange(len(asked.candidates)), asked.places)
            return int(np.random.default_rng(asked.seed).choice(untried)), "Probe"
        speed = asked.model.predict(asked.observed, asked.candidates)["mean"].to_numpy(dtype=np.float64, copy=True)
        speed[asked.places] = asked.speed
        if not np.isfinite(speed).all():
            return None, "NothingKnown"
        place = int(np.argmax(speed))
        gained = speed[place] * (asked.horizon_seconds - asked.restart_seconds)
        if place == asked.now or gained <= speed[asked.now] * asked.horizon_seconds:
            return None, "NotPaidBack"
        return place, "Fastest"

    return choose


LEAST_IMPROVEMENT = 0.01
"""Of log speed, expected: less isn't worth a trial."""


@_policy
def expected_improvement(asked: Round) -> Choice:
    """Try what improves log speed most in expectation (Jones et al. 1998; CherryPick, NSDI 2017), then keep the best.

    A trial that nothing could follow isn't made.
    """
    answer = asked.model.predict(asked.observed, asked.candidates)
    most = float(np.log(asked.speed.max()))
    mean = np.log(answer["mean"].to_numpy(dtype=np.float64))
    sd = np.maximum(answer["latent_sd"].to_numpy(dtype=np.float64), 1e-9)
    better = (mean - most) / sd
    gain = np.nan_to_num(sd * (better * norm.cdf(better) + norm.pdf(better)), nan=0.0)
    gain[asked.places] = 0.0
    if gain.max() >= LEAST_IMPROVEMENT and asked.horizon_seconds > asked.trial_seconds:
        return int(np.argmax(gain)), "ExpectedImprovement"
    return (None, "Converged") if asked.best == asked.now else (asked.best, "BackToBest")


DOUBLING_GAIN = 1.1


@_policy
def doubling(asked: Round) -> Choice:
    """Double the workers while each doubling brings a tenth, servers as they are; else return to the best seen."""
    if asked.best != asked.now:
        return asked.best, "BackToBest"
    if len(asked.speed) > 1 and asked.speed[-1] < DOUBLING_GAIN * asked.speed[:-1].max():
        return None, "GainTooSmall"
    workers, ps = _sizes(asked)
    place = asked.nearest_to(2.0 * workers, ps)
    more = float(asked.candidates["workers"].iloc[place]) > workers
    return (place, "Doubled") if more and place not in asked.places else (None, "NoMoreWorkers")


OVERLOADED, EXHAUSTED, SLOWED = 0.8, 0.95, 0.9
TARGET_WORKERS, MOST_SERVERS, STEP = 20.0, 15.0, 4.0


@_policy
def dlrover_rules(asked: Round) -> Choice:
    """The rules of DLRover's Brain for parameter servers, as its source has them, at a fixed CPU for each server.

    First the servers (its init adjustment): as many as carry the CPU that servers would use with 20 workers, or with
    as many workers as 15 servers could carry. Then the workers: 4 fewer where a server's CPU is used to 95 %; where
    none is over 80 % and the last change didn't slow the job by a tenth, as many as bring them to 80 %, but at most
    4 more.
    Nothing is changed where the servers' CPU isn't known (``ps_cpu_used``, ``ps_cpu_used_max``, ``ps_cpu``).
    """
    row = asked.observed.iloc[-1]
    used, busiest, allotted = (float(row.get(name, np.nan)) for name in ("ps_cpu_used", "ps_cpu_used_max", "ps_cpu"))
    if not (used > 0 and busiest > 0 and allotted > 0):
        return None, "NoLoad"
    workers, ps = _sizes(asked)
    if len(asked.speed) == 1:
        room = allotted * MOST_SERVERS / (busiest * ps)
        target = min(TARGET_WORKERS, float(np.ceil(room * workers)))
        ps = min(float(np.ceil(target / workers * used * ps / allotted)), MOST_SERVERS)
        reason = "InitAdjust"
    else:
        workers, reason = _dlrover_workers(asked, workers, busiest / allotted)
    place = asked.nearest_to(workers, ps)
    return (None, reason) if place == asked.now else (place, reason)


def _dlrover_workers(asked: Round, workers: float, utilization: float) -> tuple[float, str]:
    if utilization > EXHAUSTED:
        return max(workers - STEP, 1.0), "ServersExhausted"
    if utilization >= OVERLOADED:
        return workers, "ServersLoaded"
    if asked.speed[-1] < SLOWED * asked.speed[-2]:
        return workers, "Decelerated"
    return min(float(np.ceil(OVERLOADED / utilization * workers)), workers + STEP), "ServersIdle"


def _sizes(asked: Round) -> tuple[float, float]:
    row = asked.observed.iloc[-1]
    ps = float(row.get("ps", 1.0))
    return float(row["workers"]), ps if np.isfinite(ps) else 1.0
