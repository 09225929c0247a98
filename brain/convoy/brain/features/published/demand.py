"""The public trace of a training cluster's jobs, as the demand that they made: GPUs in use by the hour.

The trace is Microsoft's Philly (Jeon et al., USENIX ATC 2019): when each job was submitted, and how long it ran.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.features.published.table import read_table
from convoy.core.api.errors import InvalidInput

Array = NDArray[np.float64]

PHILLY = "philly_jobs.csv.gz"
WARM_UP = pd.Timedelta(days=7)
BUSY_SHARE = 0.1
_HOUR = pd.Timedelta(hours=1)
_DAY = pd.Timedelta(days=1)


def philly_demand(folder: Path, warm_up: pd.Timedelta = WARM_UP, by_virtual_cluster: bool = False) -> pd.DataFrame:
    """Return the mean number of GPUs in use in each hour, as ``DemandModel`` reads it.

    A job counts from when it was submitted for as long as it ran: the trace doesn't tell when it started. Both edges
    are cut. Of jobs before the trace began nothing is known, so the cluster seems to fill: the series begins
    ``warm_up`` after the first day with a tenth of the median day's submissions. It ends with the last whole hour
    before the last submission; after it jobs only end.

    Args:
        folder: with ``philly_jobs.csv.gz``.
        warm_up: how long the cluster is taken to fill.
        by_virtual_cluster: a series for each virtual cluster, in a column ``cluster``, instead of one for all.

    Returns:
        ``time`` (the trace's own clock, without a zone), ``resource`` ("accelerators"), ``used``; every hour has a
        row.

    Raises:
        InvalidInput: the file can't be read, lacks a column, or holds nothing after the warm-up.
    """
    path = folder / PHILLY
    jobs = read_table(path, labels=("submitted", "virtual_cluster"), numbers=("duration_seconds", "gpus"))
    submitted = pd.to_datetime(jobs["submitted"], format="ISO8601", errors="coerce")
    wrong = submitted.isna() | ~(jobs["duration_seconds"] >= 0) | ~(jobs["gpus"] >= 0)
    if wrong.any():
        raise InvalidInput(
            f"{path}: row {jobs.index[wrong][0]} has a moment, duration or number of GPUs that can't be read; "
            "fetch the data set again"
        )
    first = _busy_since(submitted) + warm_up
    last = submitted.max().floor("h")
    if first >= last:
        raise InvalidInput(f"{path}: no whole hour after a warm-up of {warm_up}; expected a longer trace")
    times = pd.date_range(first, last - _HOUR, freq="h")
    groups = jobs.groupby("virtual_cluster", sort=True).groups if by_virtual_cluster else {"": jobs.index}
    parts = []
    for name, rows in groups.items():
        used = hourly_use(submitted[rows], jobs["duration_seconds"][rows], jobs["gpus"][rows], times)
        parts.append(pd.DataFrame({"cluster": str(name), "time": times, "resource": "accelerators", "used": used}))
    frame = pd.concat(parts, ignore_index=True)
    return frame if by_virtual_cluster else frame.drop(columns="cluster")


def hourly_use(
    begins: pd.Series[Any], seconds: pd.Series[Any], amounts: pd.Series[Any], times: pd.DatetimeIndex
) -> Array:
    """Return the mean of what is in use in each hour (hours,), of jobs that each hold an amount for some time.

    Args:
        begins, seconds, amounts: when each job takes its amount, and for how long.
        times: beginnings of consecutive hours.
    """
    edges = np.asarray(np.arange(len(times) + 1), dtype=np.float64)
    came = np.asarray((begins - times[0]) / _HOUR, dtype=np.float64)
    held = np.asarray(amounts, dtype=np.float64)
    went = came + np.asarray(seconds, dtype=np.float64) / 3600.0
    in_use: Array = np.maximum(np.diff(_since(came, held, edges) - _since(went, held, edges)), 0.0)
    return in_use


def _since(moments: Array, amounts: Array, edges: Array) -> Array:
    """Return at each edge the sum of amounts, each times the hours since its moment if that is past."""
    order = np.argsort(moments, kind="stable")
    amount = np.concatenate([[0.0], np.cumsum(amounts[order])])
    product = np.concatenate([[0.0], np.cumsum(amounts[order] * moments[order])])
    past = np.searchsorted(moments[order], edges, side="right")
    total: Array = edges * amount[past] - product[past]
    return total


def _busy_since(submitted: pd.Series[Any]) -> pd.Timestamp:
    by_day = submitted.dt.floor("D").value_counts().sort_index()
    by_day = by_day.reindex(pd.date_range(by_day.index[0], by_day.index[-1], freq="D"), fill_value=0)
    usual = float(by_day[by_day > 0].median())
    return pd.Timestamp(by_day.index[by_day >= BUSY_SHARE * usual][0])
