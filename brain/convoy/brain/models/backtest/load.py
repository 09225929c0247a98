"""How right predictions of the load of nodes are, on the cases of P1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from typing import Protocol as Interface

import numpy as np
import pandas as pd

from convoy.brain.models.backtest.data import DataSet, question
from convoy.brain.models.backtest.running import BacktestFailed, Job, prepared
from convoy.brain.models.backtest.scores import LEVEL, percentage_errors
from convoy.brain.models.backtest.splits import Case, Protocol, cases

SIZES = (1, 3, 5)


class LoadModel(Interface):
    """What is asked of a model of load."""

    def fit(self, history: pd.DataFrame) -> LoadModel:
        """Learn from a history."""
        ...

    def predict(self, observed: pd.DataFrame, query: pd.DataFrame, level: float = 0.9) -> pd.DataFrame:
        """Predict ``{worker,ps}_{cpu,memory}_{mean,lower,upper}``."""
        ...


def load_backtest(
    data: DataSet,
    methods: Mapping[str, Callable[[], LoadModel]],
    seeds: int = 30,
    others: pd.DataFrame | None = None,
    progress: Callable[[str], None] = lambda done: None,
) -> pd.DataFrame:
    """Return one row a (method, k, job, seed): errors of the CPU used at configurations that weren't seen.

    ``worker_cpu_mdape`` and ``ps_cpu_mdape`` in percent, ``worker_cpu_mae`` and ``ps_cpu_mae`` in cores,
    ``{worker,ps}_cpu_coverage``; NaN where the data have no reading or the method no answer, counted by
    ``{worker,ps}_cpu_undefined`` (share of the readings). A set without readings gives an empty frame.

    Raises:
        BacktestFailed: a method failed.
    """
    if not any(name in data.frame.columns and data.frame[name].notna().any() for name in _READINGS.values()):
        return pd.DataFrame()
    results: list[dict[str, Any]] = []
    for fold, jobs in prepared(data, others):
        history = fold.history.drop(columns="group", errors="ignore").reset_index(drop=True)
        models = {name: make().fit(history) for name, make in methods.items()}
        for job in jobs:
            for case in cases(Protocol.INTERPOLATE, job.name, job.rows, SIZES, min(seeds, data.most_seeds)):
                for name, model in models.items():
                    key = {
                        "method": name,
                        "data": data.name,
                        "protocol": str(Protocol.LOAD),
                        "k": case.k,
                        "job": job.name,
                    }
                    results.append({**key, "seed": case.seed, **_scored(name, model, job, case)})
            progress(job.name)
    return pd.DataFrame(results)


_READINGS = {"worker_cpu": "worker_cpu_used", "ps_cpu": "ps_cpu_used"}


def _scored(name: str, model: LoadModel, job: Job, case: Case) -> dict[str, float]:
    observed = job.rows.iloc[case.seen].drop(columns="group", errors="ignore")
    asked = job.rows.iloc[case.asked]
    try:
        answer = model.predict(observed, question(asked), level=LEVEL)
    except Exception as error:
        where = f"load k={case.k} job {job.name} seed {case.seed}"
        raise BacktestFailed(f"{name} failed: {where}: {type(error).__name__}: {error}") from error
    found: dict[str, float] = {}
    for quantity, column in _READINGS.items():
        truth = asked[column].to_numpy(dtype=np.float64) if column in asked.columns else np.full(len(asked), np.nan)
        mean, lower, upper = (answer[f"{quantity}_{part}"].to_numpy() for part in ("mean", "lower", "upper"))
        read = np.isfinite(truth) & (truth > 0)
        good = read & np.isfinite(mean)
        found[f"{quantity}_undefined"] = float(1.0 - good.sum() / read.sum()) if read.any() else np.nan
        some = good.any()
        wrong = percentage_errors(truth[good], mean[good])
        found[f"{quantity}_mdape"] = float(np.median(wrong)) if some else np.nan
        found[f"{quantity}_mae"] = float(np.mean(np.abs(truth[good] - mean[good]))) if some else np.nan
        held = (lower[good] <= truth[good]) & (truth[good] <= upper[good])
        found[f"{quantity}_coverage"] = float(np.mean(held)) if some else np.nan
    return found
