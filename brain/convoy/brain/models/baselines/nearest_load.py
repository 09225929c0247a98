"""What nodes used at the nearest configuration."""

from __future__ import annotations

from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.models.baselines.nearest_neighbour import nearest
from convoy.brain.models.baselines.rows import job_names, rows_of

Array = NDArray[np.float64]

QUANTITIES = ("worker_cpu", "ps_cpu", "worker_memory", "ps_memory")
SPREAD = 1.5
"""The interval is the nearest reading divided and multiplied by it: a single reading shows no spread."""


class NearestLoad:
    """CPU and memory used by each worker and server, as measured at the job's nearest configuration.

    Nearest in logarithms of workers, servers, nodes and samples a step; never above what is allotted. NaN where the
    job has no reading.
    """

    def fit(self, history: pd.DataFrame) -> Self:
        """Learn nothing: the job's own readings are all that is used."""
        return self

    def predict(self, observed: pd.DataFrame, query: pd.DataFrame, level: float = 0.9) -> pd.DataFrame:
        """Return ``mean``, ``lower``, ``upper`` of each of ``QUANTITIES`` (cores, bytes), and ``reason``."""
        known, asked = job_names(observed), job_names(query, str(observed["job"].iloc[0]) if len(observed) else "")
        features, wanted = rows_of(observed).features, rows_of(query).features
        columns: dict[str, Array] = {}
        for name in QUANTITIES:
            used = _numbers(observed, f"{name}_used")
            found = np.full(len(query), np.nan)
            for job in np.unique(asked.astype(str)):
                rows = np.flatnonzero((known == job) & np.isfinite(used) & np.isfinite(features).all(axis=1))
                places = np.flatnonzero(asked == job)
                if len(rows):
                    found[places] = used[rows[nearest(features[rows], wanted[places])]]
            most = np.nan_to_num(_numbers(query, name), nan=np.inf)
            for part, factor in (("mean", 1.0), ("lower", 1.0 / SPREAD), ("upper", SPREAD)):
                columns[f"{name}_{part}"] = np.where(np.isnan(found), np.nan, np.minimum(found * factor, most))
        answer = pd.DataFrame(columns, index=query.index)
        nothing = answer[[f"{name}_mean" for name in QUANTITIES]].isna().all(axis=1)
        return answer.assign(reason=np.where(nothing, "NoReading", "Nearest"))


def _numbers(frame: pd.DataFrame, name: str) -> Array:
    if name not in frame.columns:
        return np.full(len(frame), np.nan)
    return pd.to_numeric(frame[name], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
