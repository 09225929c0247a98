"""Which configurations compete with each other when one is chosen: sets of a job's rows under one budget."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Places = NDArray[np.intp]

NODE_BUDGETS = (6.0, 10.0, 14.0, 18.0, 24.0)
"""Servers and workers together."""
GPU_BUDGETS = (8.0, 64.0)
BATCH_TOLERANCE = 0.15
"""All-reduce: configurations whose total batch is within this share of one another do the same work a step."""


def choices(rows: pd.DataFrame) -> list[Places]:
    """Return sets of places in ``rows``, one job's configurations; each set has two rows or more.

    Parameter servers: one set a budget of nodes. Otherwise one a budget of workers and, where batches are known, a
    total batch, of powers of two. Equal sets are returned once for each budget: one that binds nothing counts too.
    """
    workers = rows["workers"].to_numpy(dtype=np.float64)
    if "strategy" in rows.columns and (rows["strategy"] == "ps").all():
        nodes = workers + rows["ps"].to_numpy(dtype=np.float64)
        sets = [np.flatnonzero(nodes <= budget) for budget in NODE_BUDGETS]
    else:
        budgets = [budget for budget in GPU_BUDGETS if (workers <= budget).any()]
        sets = [batch[workers[batch] <= budget] for batch in _equal_work(rows, workers) for budget in budgets]
    return [one for one in sets if len(one) >= 2]


def _equal_work(rows: pd.DataFrame, workers: NDArray[np.float64]) -> list[Places]:
    """Return the rows of each total batch; all rows where batches aren't known."""
    if "batch_size" not in rows.columns or rows["batch_size"].isna().any():
        return [np.arange(len(rows))]
    total = workers * rows["batch_size"].to_numpy(dtype=np.float64)
    if "accumulation_steps" in rows.columns:
        total = total * rows["accumulation_steps"].fillna(1.0).to_numpy(dtype=np.float64)
    least, most = np.ceil(np.log2(total.min())), np.floor(np.log2(total.max()))
    centers = 2.0 ** np.arange(least, most + 1.0) if most >= least else np.median(total, keepdims=True)
    return [np.flatnonzero(np.abs(total / center - 1.0) <= BATCH_TOLERANCE) for center in centers]
