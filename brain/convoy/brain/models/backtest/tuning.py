"""Protocol P4: rounds, each of which runs a job at one configuration, measures it, and chooses the next.

A policy is called after each round but the last. It may keep the configuration; a change costs a restart at no speed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from typing import Protocol as Interface

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.models.backtest.choices import choices
from convoy.brain.models.backtest.data import DataSet, question
from convoy.brain.models.backtest.running import BacktestFailed, SpeedModel, fitted, prepared
from convoy.brain.models.backtest.splits import Protocol

ROUNDS = 8
ROUND_SECONDS = 1800.0
RESTART_SECONDS = 90.0
EARLY = 4
"""Rounds after which the best configuration so far is judged first."""


class Policy(Interface):
    """Chooses what to run next.

    ``convoy.brain.plan.next_configuration`` is one. ``observed`` has a row a configuration that ran, in the order in
    which they ran last: the job is at the last one. ``candidates`` has the index 0, 1, ...; the answer is one of it,
    or None to stay, with a reason.
    """

    def __call__(
        self,
        model: Any,
        observed: pd.DataFrame,
        candidates: pd.DataFrame,
        horizon_seconds: float,
        restart_seconds: float,
        trial_seconds: float,
        seed: int,
    ) -> tuple[int | None, str]:
        """Return the place of the next configuration, and why."""
        ...


@dataclass(frozen=True)
class Tuner:
    """A model and the policy that uses it."""

    model: Callable[[], SpeedModel]
    policy: Policy


class Start(StrEnum):
    """Where the rounds begin."""

    SMALLEST = "smallest"
    """The fewest workers and servers: one and one where the job ran so."""
    HISTORY = "history"
    """What was fastest for the history's jobs."""


def tuning_backtest(
    data: DataSet,
    tuners: Mapping[str, Tuner],
    seeds: int = 10,
    others: pd.DataFrame | None = None,
    progress: Callable[[str], None] = lambda done: None,
) -> pd.DataFrame:
    """Return one row a (method, start, job, seed).

    Columns, in percent: ``early_regret`` and ``regret`` (1 - speed of the best configuration so far over the best of
    all, after 4 and after 8 rounds), ``final_regret`` (the same of the configuration that the job is left at),
    ``running_loss`` (samples that weren't made, restarts included, over those of the best configuration from the
    first moment on); ``smoothed_regret`` and ``smoothed_final``: of the same places, by speeds without the noise of
    measuring them. ``moves``, and ``undefined``: the share of rounds in which the policy had nothing to say.

    Raises:
        BacktestFailed: a model or a policy failed, or a policy chose what isn't there.
    """
    results: list[dict[str, Any]] = []
    for fold, jobs in prepared(data, others):
        makers = {tuner.model: name for name, tuner in tuners.items()}  # a model of several policies is fitted once
        models = {make: fitted(name, make, fold.history, data.name) for make, name in makers.items()}
        for job in jobs:
            places = comparable(job.rows)
            rows, smooth = job.rows.iloc[places].reset_index(drop=True), job.smooth[places]
            for start in Start if len(rows) >= 2 else ():
                first = smallest(rows) if start is Start.SMALLEST else history_best(fold.history, rows)
                for name, tuner in tuners.items():
                    for seed in range(min(seeds, data.most_seeds)):
                        key = {"method": name, "data": data.name, "protocol": str(Protocol.TUNE), "k": str(start)}
                        where = f"{name}: {data.name} {Protocol.TUNE} from {start} job {job.name} seed {seed}"
                        path, silent = run_rounds(tuner.policy, models[tuner.model], rows, first, seed, where)
                        scores = {"undefined": silent, **path_scores(path, rows, smooth)}
                        results.append({**key, "job": job.name, "seed": seed, **scores})
            progress(job.name)
    return pd.DataFrame(results)


def comparable(rows: pd.DataFrame) -> NDArray[np.intp]:
    """Return the places of configurations that do the same work a step, so that their speeds can be compared.

    Parameter servers: all. Otherwise those of one total batch, of as many different sizes as any.
    """
    if "strategy" in rows.columns and (rows["strategy"] == "ps").all():
        return np.arange(len(rows))
    sets = choices(rows)
    if not sets:
        return np.arange(0)
    widest = max(sets, key=lambda places: (rows["workers"].iloc[places].nunique(), len(places)))
    return np.asarray(widest, dtype=np.intp)


def _sizes(rows: pd.DataFrame) -> pd.DataFrame:
    names = [name for name in ("workers", "ps", "nodes") if name in rows.columns]
    return rows[names].fillna(1.0)


def smallest(rows: pd.DataFrame) -> int:
    """Return the place of the fewest workers and servers together."""
    return int(np.argmin(_sizes(rows).sum(axis=1).to_numpy()))


def history_best(history: pd.DataFrame, rows: pd.DataFrame) -> int:
    """Return the place of the sizes at which the history's jobs came nearest to their own fastest.

    Sizes that most jobs (at least half as many as any sizes) were measured at; without a history, the smallest.
    """
    speed = pd.to_numeric(history["throughput"], errors="coerce") if len(history) else pd.Series(dtype=float)
    known = history[speed > 0]
    if "strategy" in rows.columns and len(known):
        known = known[known["strategy"] == rows["strategy"].iloc[0]]
    if not len(known):
        return smallest(rows)
    sizes = _sizes(rows)
    relative = known["throughput"] / known.groupby("job")["throughput"].transform("max")
    names = list(sizes.columns)
    measured = known.reindex(columns=names).fillna(1.0).assign(job=known["job"], relative=np.log(relative))
    best_of_job = measured.groupby([*names, "job"])["relative"].max()
    across = best_of_job.groupby(level=names).agg(["mean", "size"])
    across = across[across["size"] >= across["size"].max() / 2]
    found = sizes.join(across["mean"], on=names)["mean"].to_numpy()
    return int(np.nanargmax(found)) if np.isfinite(found).any() else smallest(rows)


NOTHING_TO_SAY = ("NothingKnown", "NoLoad")
"""Reasons of a policy whose model has no form for the job."""


def run_rounds(
    policy: Policy, model: SpeedModel, rows: pd.DataFrame, first: int, seed: int, where: str
) -> tuple[list[int], float]:
    """Return the places in ``rows`` that the job ran at, one a round, and how often the policy had nothing to say.

    Raises:
        BacktestFailed: the policy failed, or chose a place that isn't there.
    """
    candidates = question(rows)
    path, silent = [first], 0
    while len(path) < ROUNDS:
        order = list(dict.fromkeys(reversed(path)))[::-1]  # each once, in the order in which they ran last
        observed = rows.iloc[order].drop(columns="group", errors="ignore")
        left = (ROUNDS - len(path)) * ROUND_SECONDS
        try:
            chosen, reason = policy(
                model, observed, candidates, left, RESTART_SECONDS, ROUND_SECONDS, seed * ROUNDS + len(path)
            )
        except Exception as error:
            raise BacktestFailed(f"{where}: round {len(path)}: {type(error).__name__}: {error}") from error
        if chosen is not None and not 0 <= chosen < len(rows):
            raise BacktestFailed(f"{where}: chose place {chosen} ({reason}) of {len(rows)} candidates")
        path.append(path[-1] if chosen is None else int(chosen))
        silent += reason in NOTHING_TO_SAY
    return path, silent / (ROUNDS - 1)


def path_scores(path: list[int], rows: pd.DataFrame, smooth: NDArray[np.float64]) -> dict[str, float]:
    """Return the scores of the places that a job ran at; see ``tuning_backtest``."""
    speed = rows["throughput"].to_numpy(dtype=np.float64)
    ran, best = speed[path], float(speed.max())
    quiet, quiet_best = smooth[path], float(smooth.max())
    moved = np.diff(path, prepend=path[0]) != 0
    seconds = ROUND_SECONDS - RESTART_SECONDS * moved
    return {
        "early_regret": 100.0 * (1.0 - float(ran[:EARLY].max()) / best),
        "regret": 100.0 * (1.0 - float(ran.max()) / best),
        "final_regret": 100.0 * (1.0 - float(ran[-1]) / best),
        "smoothed_regret": 100.0 * (1.0 - float(quiet.max()) / quiet_best),
        "smoothed_final": 100.0 * (1.0 - float(quiet[-1]) / quiet_best),
        "running_loss": 100.0 * (1.0 - float(ran @ seconds) / (best * ROUND_SECONDS * len(path))),
        "moves": float(np.count_nonzero(moved)),
    }
