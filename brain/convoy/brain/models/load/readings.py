"""A job's readings as points of a line: the size that each goes with, and what was wanted behind what was used."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.models.load.line import Default, Readings
from convoy.brain.models.throughput.frame import configurations_of
from convoy.brain.models.throughput.physics import Array

LINES = {
    "ps_cpu": Default((0.3, 0.0, -0.6, 0.0), 0.5, 0.3),
    "worker_memory": Default((0.4,), 0.3, 0.15),
    "ps_memory": Default((-0.6,), 0.3, 0.15),
}
"""Quantities that are a line: ``ps_cpu`` over the logarithms of workers, nodes, servers and batch, a worker's memory
over that of its batch, a server's over that of servers. Slopes of memory begin between no effect and proportion: a
worker's activations grow with its batch, its parameters don't; a server's share of them shrinks with more servers."""

LEAST, MOST = 1e-6, 1e18
"""Outside of them a reading is none (zero, negative and NaN among them)."""

FULL = 1.05
"""Times the allotment of cores, where use would be full: what is wanted stays finite at a reading of all of it."""


def read_points(quantity: str, rows: pd.DataFrame) -> tuple[Readings, Array]:
    """Return a job's readings, the median at each size, and its usual size (d,): the mean; NaN without readings."""
    configurations, why = configurations_of(rows)
    used = used_of(quantity, rows)
    good = (why == "") & (used > LEAST) & (used < MOST) & ran(rows)
    if quantity.startswith("ps_"):
        good &= configurations.ps > 0
    size = sizes(quantity, rows)[good]
    columns = [f"size{place}" for place in range(size.shape[1])]
    table = pd.DataFrame(np.round(size, 9), columns=columns)
    table["used"] = wanted(quantity, used[good], numbers(rows, quantity)[good])
    medians = table.groupby(columns, as_index=False)["used"].median()
    points = np.ascontiguousarray(medians[columns].to_numpy(dtype=np.float64))
    usual = points.mean(axis=0) if len(points) else np.full(len(columns), np.nan)
    return Readings(points - usual, medians["used"].to_numpy(dtype=np.float64)), usual


def sizes(quantity: str, rows: pd.DataFrame) -> Array:
    """Return coordinates (n, d) of rows, one for each slope of the quantity's line; 0 where unknown."""
    features = configurations_of(rows)[0].features
    if quantity == "ps_cpu":
        return features
    return features[:, 3:] if quantity == "worker_memory" else features[:, 2:3]


def wanted(quantity: str, used: Array, allotted: Array) -> Array:
    """Return the line's ``y``: the logarithm of bytes; of cores, what would be used if nothing were short.

    used = wanted / (1 + wanted / (FULL * allotted))
    """
    if quantity != "ps_cpu":
        return np.log(used)
    full = FULL * np.where(allotted > 0, allotted, np.inf)
    return np.asarray(np.log(used) - np.log1p(-np.minimum(used / full, 1.0 / FULL)))


def used_at(quantity: str, y: Array, allotted: Array) -> Array:
    """Return cores or bytes used, the inverse of ``wanted``; never above the allotment where there is one."""
    amount = np.exp(np.clip(y, -60.0, 60.0))
    limit = np.where(allotted > 0, allotted, np.inf)
    if quantity == "ps_cpu":
        amount = amount / (1.0 + amount / (FULL * limit))
    return np.minimum(amount, limit)


def used_of(quantity: str, rows: pd.DataFrame) -> Array:
    """Return the readings; where only the busiest server's cores were read, those stand for the mean server's."""
    used = numbers(rows, f"{quantity}_used")
    return np.where(np.isnan(used), numbers(rows, "ps_cpu_used_max"), used) if quantity == "ps_cpu" else used


def ran(frame: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which rows are of a run that went well."""
    if "status" not in frame.columns:
        return np.ones(len(frame), dtype=bool)
    return np.asarray(frame["status"].isna() | frame["status"].isin(["ok", ""]), dtype=bool)


def numbers(frame: pd.DataFrame, name: str) -> Array:
    """Return a column, NaN where it says nothing."""
    if name not in frame.columns:
        return np.full(len(frame), np.nan)
    return pd.to_numeric(frame[name], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)


def by_job(frame: pd.DataFrame, alone: str = "") -> list[tuple[str, pd.DataFrame]]:
    """Return the rows of each job with their places in ``__row__``; rows that name none are of job ``alone``."""
    if not len(frame):
        return []
    numbered = frame.assign(__row__=np.arange(len(frame)))
    if "job" not in frame.columns:
        return [(alone, numbered)]
    names = frame["job"].astype(object).where(frame["job"].notna(), alone).astype(str)
    return [(str(name), rows) for name, rows in numbered.groupby(names.to_numpy(), sort=False)]
