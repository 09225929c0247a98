"""How sure a mean over jobs is: jobs are drawn again, since rows and seeds of one job aren't independent."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.models.backtest.scores import SCORES

Array = NDArray[np.float64]

RESAMPLES = 2000
LEVEL = 0.95

KEYS = ["data", "protocol", "k", "method"]


def mean_interval(values: Array, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = 0) -> Array:
    """Return mean, lower, upper (3,) of ``values``, one a job, by the bootstrap's percentiles; NaN values left out.

    With one job nothing is known of the spread: lower and upper are NaN.
    """
    known = values[np.isfinite(values)]
    if not len(known):
        return np.full(3, np.nan)
    if len(known) == 1:
        return np.array([known[0], np.nan, np.nan])
    drawn = np.random.default_rng(seed).integers(0, len(known), (resamples, len(known)))
    means = known[drawn].mean(axis=1)
    tail = (1.0 - level) / 2.0
    return np.array([known.mean(), *np.quantile(means, [tail, 1.0 - tail])])


def ratio_interval(
    ours: Array, theirs: Array, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = 0
) -> Array:
    """Return the ratio of the means of two scores of the same jobs (3,), with its interval; jobs drawn together.

    Jobs that one of the two lacks are left out of both.
    """
    known = np.isfinite(ours) & np.isfinite(theirs)
    ours, theirs = ours[known], theirs[known]
    if len(ours) < 2:
        return np.array([float(ours[0] / theirs[0]) if len(ours) else np.nan, np.nan, np.nan])
    drawn = np.random.default_rng(seed).integers(0, len(ours), (resamples, len(ours)))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = ours[drawn].mean(axis=1) / theirs[drawn].mean(axis=1)
    tail = (1.0 - level) / 2.0
    return np.array([ours.mean() / theirs.mean(), *np.quantile(ratios, [tail, 1.0 - tail])])


def by_job(results: pd.DataFrame) -> pd.DataFrame:
    """Return the scores of each (data, protocol, k, method, job): means over seeds, and ``seeds``."""
    scores = [name for name in SCORES if name in results.columns]
    grouped = results.groupby([*KEYS, "job"], sort=False)
    return grouped[scores].mean().assign(seeds=grouped.size()).reset_index()


def summary(results: pd.DataFrame, level: float = LEVEL) -> pd.DataFrame:
    """Return one row a (data, protocol, k, method, score): ``mean`` over jobs, ``lower``, ``upper``, jobs, seeds.

    ``worst`` is the score of the job that is worst in it: for coverage the least, otherwise the most.
    """
    rows = []
    for keys, jobs in by_job(results).groupby(KEYS, sort=False):
        for score in SCORES:
            if score not in jobs.columns:
                continue
            values = jobs[score].to_numpy(dtype=np.float64)
            mean, lower, upper = mean_interval(values, level)
            known = values[np.isfinite(values)]
            worst = (known.min() if score == "coverage" else known.max()) if len(known) else np.nan
            rows.append(
                {
                    **dict(zip(KEYS, keys, strict=True)),
                    "score": score,
                    "mean": mean,
                    "lower": lower,
                    "upper": upper,
                    "worst": worst,
                    "jobs": len(known),
                    "seeds": int(jobs["seeds"].max()),
                }
            )
    return pd.DataFrame(rows)


def unanswered(rows: pd.DataFrame) -> list[str]:
    """Return the methods that answered nothing in these rows of a summary: they have no form for such jobs."""
    shares = rows[rows["score"].isin(["undefined", "worker_cpu_undefined", "ps_cpu_undefined"])]
    least = shares.groupby("method", sort=False)["mean"].min()
    return [str(method) for method in least.index[least >= 1.0]]


def compared(results: pd.DataFrame, ours: str, theirs: str, score: str, level: float = LEVEL) -> pd.DataFrame:
    """Return one row a (data, protocol, k): our mean of a score over theirs, on the jobs that both have.

    Columns ``ours``, ``theirs`` (means over those jobs), ``ratio``, ``lower``, ``upper``, ``jobs``.
    """
    rows = []
    for keys, jobs in by_job(results).groupby(KEYS[:3], sort=False):
        table = jobs.pivot_table(index="job", columns="method", values=score, dropna=False)
        if ours in table.columns and theirs in table.columns:
            both = table[[ours, theirs]].dropna()
            if len(both):
                a, b = (both[name].to_numpy(dtype=np.float64) for name in (ours, theirs))
                ratio, lower, upper = ratio_interval(a, b, level)
                found = {"ours": a.mean(), "theirs": b.mean(), "ratio": ratio, "lower": lower, "upper": upper}
                rows.append({**dict(zip(KEYS[:3], keys, strict=True)), **found, "jobs": len(both)})
    columns = [*KEYS[:3], "ours", "theirs", "ratio", "lower", "upper", "jobs"]
    return pd.DataFrame(rows, columns=columns)


def compared_with_published(
    results: pd.DataFrame, ours: str, published: Mapping[str, str], score: str
) -> pd.DataFrame:
    """Return ``compared`` for each data set with the method that is named for it, which stands in ``method``."""
    parts = [
        compared(results[results["data"] == data], ours, theirs, score).assign(method=theirs)
        for data, theirs in published.items()
    ]
    found = [part for part in parts if len(part)]
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()
