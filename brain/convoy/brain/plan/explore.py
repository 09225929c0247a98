"""What a running job tries next: the value of a trial on joint draws of the speeds, and the choice by it. Pure.

A trial costs a restart at no speed and, if it disappoints, a slower stretch and a second restart for the way back.
What it teaches about third configurations isn't counted: on simulated truth neither a knowledge gradient nor
roll-outs of later trials lost measurably less than this value, which asks the model once.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.plan import guards
from convoy.core.api.errors import InvalidInput

Array = NDArray[np.float64]

DRAWS = 512
MOST_SECONDS = 1e9
"""A longer horizon decides nothing else."""

CONFIGURATION = (
    "workers", "ps", "nodes", "accelerators_per_worker", "batch_size", "accumulation_steps", "worker_cpu", "ps_cpu",
    "worker_memory", "ps_memory",
)  # fmt: skip
"""Columns that make a configuration another. Unknown in either row, one tells nothing apart."""
SAME = 1e-6
"""Relative difference up to which numbers are the same."""


class DrawsSpeeds(Protocol):
    """What a choice asks of a throughput model."""

    def sample(self, observed: pd.DataFrame, query: pd.DataFrame, draws: int, seed: int) -> Array:
        """Return joint draws (draws, rows of ``query``) of the latent speeds; NaN where undefined."""
        ...


def move_values(speeds: Array, current: int, horizon_seconds: float, restart_seconds: float) -> Array:
    """Return what going to each configuration for good wins over staying, in expected samples, (n,).

    Args:
        speeds: joint draws (draws, n) of the latent speeds, samples/s.
        current: the place of the present configuration.
        horizon_seconds: what is left of the job; finite.
        restart_seconds: at no speed, for each change.
    """
    mean = speeds.mean(axis=0)
    return np.asarray(max(horizon_seconds - restart_seconds, 0.0) * mean - horizon_seconds * mean[current])


def trial_values(
    speeds: Array, current: int, horizon_seconds: float, restart_seconds: float, trial_seconds: float
) -> Array:
    """Return what a trial of each configuration wins over staying, in expected samples, (n,); arguments as above.

    With horizon H, restart R, trial M, present speed c and L = H - R - M seconds left after the trial, trying x is
    worth M E[x] + E[max(L x, (L - R) c)] - H E[c]: after the trial the job stays, or returns where that pays a second
    restart. Where nothing is left after the trial (L <= 0), it is the value of going for good.
    """
    left = horizon_seconds - restart_seconds - trial_seconds
    if left <= 0.0:
        return move_values(speeds, current, horizon_seconds, restart_seconds)
    now = speeds[:, [current]]
    after = np.maximum(left * speeds, max(left - restart_seconds, 0.0) * now).mean(axis=0)
    return np.asarray(trial_seconds * speeds.mean(axis=0) + after - horizon_seconds * float(now.mean()))


def next_configuration(
    model: DrawsSpeeds,
    observed: pd.DataFrame,
    candidates: pd.DataFrame,
    horizon_seconds: float,
    restart_seconds: float,
    trial_seconds: float,
    seed: int,
) -> tuple[int | None, str]:
    """Return the place in ``candidates`` that a job goes to next, or None to stay, and why.

    Args:
        model: a fitted throughput model.
        observed: the job's measurements, in the order in which they were made: the job is at the last one.
        candidates: configurations that it may take; the present one needn't be among them.
        horizon_seconds: what is left of the job.
        restart_seconds: at no speed, for each change; infinite: never change.
        trial_seconds: until a configuration's speed is known.
        seed: of the draws.

    Returns:
        The reason is ``WorthTrying`` or ``BetterKnown`` (go; the latter ran before) or, to stay, ``NoCandidates``,
        ``NoObservations``, ``HorizonTooShort`` (no longer than a restart), ``NothingKnown`` (of the present speed, or
        of any other), ``OnlyCandidate`` or ``NotWorthARestart``.

    Raises:
        InvalidInput: seconds are negative or NaN, or a frame has no column ``workers``.
    """
    for name, seconds in (("horizon", horizon_seconds), ("restart", restart_seconds), ("trial", trial_seconds)):
        if not seconds >= 0.0:
            raise InvalidInput(f"{name}_seconds is {seconds}: expected zero or more")
    if not len(candidates):
        return None, "NoCandidates"
    if not len(observed):
        return None, "NoObservations"
    for name, frame in (("observed", observed), ("candidates", candidates)):
        if "workers" not in frame.columns:
            raise InvalidInput(f"{name} has no column workers: a configuration has the number of its workers")
    if restart_seconds >= horizon_seconds:
        return None, "HorizonTooShort"
    here = _same(candidates, observed.iloc[-1])
    if here.all():
        return None, "OnlyCandidate"
    values, now, ran = _valued(
        model, observed, candidates, here, min(horizon_seconds, MOST_SECONDS), restart_seconds, trial_seconds, seed
    )
    if not (np.isfinite(now) and np.isfinite(values).any()):
        return None, "NothingKnown"
    place = int(np.nanargmax(values))
    if values[place] <= guards.MIN_TRIAL_VALUE * min(horizon_seconds, MOST_SECONDS) * now:
        return None, "NotWorthARestart"
    return place, "BetterKnown" if ran[place] else "WorthTrying"


def _valued(
    model: DrawsSpeeds,
    observed: pd.DataFrame,
    candidates: pd.DataFrame,
    here: NDArray[np.bool_],
    horizon: float,
    restart: float,
    trial: float,
    seed: int,
) -> tuple[Array, float, NDArray[np.bool_]]:
    """Return each candidate's value (NaN: the present one, or undefined), the present speed, and which ones ran."""
    present = pd.DataFrame([observed.iloc[-1].reindex(candidates.columns)]).infer_objects()
    query = candidates if here.any() else pd.concat([candidates.astype(object), present.astype(object)])
    query = query.infer_objects().reset_index(drop=True)
    current = int(np.argmax(here)) if here.any() else len(candidates)
    speeds = model.sample(observed, query, DRAWS, seed)
    distinct = observed.drop_duplicates(subset=[name for name in CONFIGURATION if name in observed.columns])
    ran = np.any([_same(candidates, row) for _, row in distinct.iterrows()], axis=0)
    now = float(speeds[:, current].mean())
    values = np.full(len(candidates), np.nan)
    if np.isfinite(now):
        # what ran is no news: it is gone to for good, or not at all; NaN stays NaN
        going = move_values(speeds, current, horizon, restart)[: len(candidates)]
        trying = trial_values(speeds, current, horizon, restart, trial)[: len(candidates)]
        values = np.where(here, np.nan, np.where(ran, going, trying))
    return values, now, ran


def _same(candidates: pd.DataFrame, row: pd.Series) -> NDArray[np.bool_]:
    """Return which candidates are the configuration of ``row``."""
    same = np.ones(len(candidates), dtype=np.bool_)
    for name in CONFIGURATION:
        if name in candidates.columns and name in row.index:
            theirs = pd.to_numeric(candidates[name], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
            own = float(pd.to_numeric(pd.Series([row[name]]), errors="coerce").iloc[0])
            unknown = np.isnan(theirs) | np.isnan(own)
            equal = np.abs(theirs - own) <= SAME * np.maximum(np.abs(theirs), abs(own))
            same &= equal | (unknown if name != "workers" else False)
    return same
