"""Run protocols P1 to P3: every method on every case, on the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from typing import Protocol as Interface

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.models.backtest.choices import choices
from convoy.brain.models.backtest.data import DataSet, Fold, disguised, folds, hashed, question
from convoy.brain.models.backtest.scores import LEVEL, errors, regret
from convoy.brain.models.backtest.smooth import smoothed
from convoy.brain.models.backtest.splits import Case, Protocol, cases
from convoy.core.api.errors import ConvoyError

Array = NDArray[np.float64]

SIZES: Mapping[Protocol, tuple[int, ...]] = {
    Protocol.INTERPOLATE: (1, 2, 3, 5, 8),
    Protocol.EXTRAPOLATE: (3, 5),
    Protocol.COLD: (0,),
}
"""Numbers of rows seen."""


class SpeedModel(Interface):
    """What a protocol asks of a model."""

    def fit(self, history: pd.DataFrame) -> SpeedModel:
        """Learn from a history."""
        ...

    def predict(self, observed: pd.DataFrame, query: pd.DataFrame, level: float = 0.9) -> pd.DataFrame:
        """Predict ``mean``, ``lower``, ``upper``, ``reason`` of each row of ``query``."""
        ...


Methods = Mapping[str, Callable[[], SpeedModel]]


class BacktestFailed(ConvoyError):
    """A method raised, or answered what can't be right; the message says in which case. A run has no gaps."""

    reason = "BacktestFailed"


@dataclass(frozen=True)
class Job:
    """A job that is predicted, and what all of its cases share."""

    name: str
    """Its real name, in results; models see it disguised."""
    rows: pd.DataFrame
    truth: Array

    @classmethod
    def of(cls, name: str, rows: pd.DataFrame) -> Job:
        """Return the job of its usable rows."""
        rows = rows.reset_index(drop=True)
        return cls(name, rows, rows["throughput"].to_numpy(dtype=np.float64))

    @cached_property
    def smooth(self) -> Array:
        """The speed at each row without its noise, as far as a fit to all rows can tell."""
        return smoothed(self.rows)


def backtest(
    data: DataSet,
    methods: Methods,
    protocols: tuple[Protocol, ...],
    seeds: int = 30,
    others: pd.DataFrame | None = None,
    progress: Callable[[str], None] = lambda done: None,
    sizes: Mapping[Protocol, tuple[int, ...]] = SIZES,
) -> pd.DataFrame:
    """Return one row a (method, protocol, k, job, seed) with its scores.

    Args:
        data: what is measured.
        methods: by name; a fresh one is made and fitted for each history.
        protocols: P1, P2, P3.
        seeds: draws of rows at k <= 2; a third of them above.
        others: rows of other data sets, which join each history.
        progress: is told each job that is done.
        sizes: numbers of rows seen, by protocol.

    Raises:
        BacktestFailed: a method failed.
        InvalidInput: the data lack a column.
    """
    results: list[dict[str, Any]] = []
    for fold, jobs in prepared(data, others):
        models = {name: fitted(name, make, fold.history, data.name) for name, make in methods.items()}
        for job in jobs:
            for case in _cases_of(job, protocols, min(seeds, data.most_seeds), sizes):
                for name, model in models.items():
                    results.append(_scored(name, model, data.name, job, case))
            progress(job.name)
    return pd.DataFrame(results)


def prepared(data: DataSet, others: pd.DataFrame | None = None) -> Iterator[tuple[Fold, list[Job]]]:
    """Yield disguised histories with the jobs to predict by each."""
    hidden = replace(data, frame=disguised(data.frame))
    real = {hashed(f"job {name}", 0): str(name) for name in data.frame["job"].unique()}
    for fold in folds(hidden, None if others is None else disguised(others)):
        yield fold, [Job.of(real[name], rows) for name, rows in fold.jobs.items()]


def fitted(name: str, make: Callable[[], SpeedModel], history: pd.DataFrame, data: str) -> SpeedModel:
    """Return a method that has learned from a history, without the column that says what was left out.

    Raises:
        BacktestFailed: it failed.
    """
    model = make()
    try:
        return model.fit(history.drop(columns="group", errors="ignore").reset_index(drop=True))
    except Exception as error:
        raise BacktestFailed(
            f"{name} can't learn from a history of {data}: {type(error).__name__}: {error}"
        ) from error


def _cases_of(
    job: Job, protocols: tuple[Protocol, ...], seeds: int, sizes: Mapping[Protocol, tuple[int, ...]]
) -> Iterator[Case]:
    for protocol in protocols:
        if protocol in sizes:
            yield from cases(protocol, job.name, job.rows, sizes[protocol], seeds)


def _scored(name: str, model: SpeedModel, data: str, job: Job, case: Case) -> dict[str, Any]:
    observed = job.rows.iloc[case.seen].drop(columns="group", errors="ignore")
    # a choice is made among all that the protocol scores, and in P1 and P3 those that were seen as well
    chosen_from = np.arange(len(job.rows)) if case.protocol is not Protocol.EXTRAPOLATE else case.asked
    answer = answered(name, model, observed, job.rows.iloc[chosen_from], f"{data} {case.protocol} k={case.k} "
                      f"job {job.name} seed {case.seed}")  # fmt: skip
    scored = answer[np.isin(chosen_from, case.asked)]
    found = errors(job.truth[case.asked], scored, level_free=case.k == 0)
    candidates = job.rows.iloc[chosen_from]
    sets = choices(candidates)
    predicted = answer["mean"].to_numpy(dtype=np.float64)
    return {
        "method": name,
        "data": data,
        "protocol": str(case.protocol),
        "k": case.k,
        "job": job.name,
        "seed": case.seed,
        **found,
        "regret": regret(job.truth[chosen_from], predicted, sets),
        "smoothed_regret": regret(job.smooth[chosen_from], predicted, sets),
    }


def answered(name: str, model: SpeedModel, observed: pd.DataFrame, asked: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return a method's answer about the configurations of ``asked``, of which it sees no measurement.

    Raises:
        BacktestFailed: it failed, or its answer can't be right.
    """
    query = question(asked)
    try:
        answer = model.predict(observed, query, level=LEVEL)
    except Exception as error:
        raise BacktestFailed(f"{name} failed: {where}: {type(error).__name__}: {error}") from error
    if not answer.index.equals(query.index):
        raise BacktestFailed(f"{name}: {where}: its answer has another index than the question")
    mean, lower, upper = (answer[column].to_numpy(dtype=np.float64) for column in ("mean", "lower", "upper"))
    known = np.isfinite(mean)
    slack = 1.0 + 1e-9
    right = (lower[known] > 0) & (lower[known] <= slack * mean[known]) & (mean[known] <= slack * upper[known])
    if not right.all() or (answer["reason"][~known] == "").any():
        raise BacktestFailed(f"{name}: {where}: expected 0 < lower <= mean <= upper, or NaN with a reason")
    return answer
