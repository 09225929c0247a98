"""Frames of jobs as the start-up model reads them: labels, features, and the resources that turned out right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.core.api.errors import InvalidInput

Array = NDArray[np.float64]

LABELS = ("template", "image", "user", "strategy")
"""From the one that says most of a job to the one that says least."""
COUNTS = ("workers", "ps")
SIZES = ("worker_cpu", "worker_memory", "ps_cpu", "ps_memory")
TARGETS = (*COUNTS, *SIZES)
OF_SERVERS = ("ps", "ps_cpu", "ps_memory")
ALLREDUCE = "allreduce"
SERVERS = "ps"
SPELLINGS = {"allreducestrategy": ALLREDUCE, "parameterserverstrategy": SERVERS}
"""As manifests spell it."""
MOST = 1e18
AFTERWARDS = ("job", "completed_at", "status", "state", "reason")
"""No features: known only once a job has run, or told of no other job."""
USED = "_used"
"""Columns that end so tell what a job used; they aren't features either."""


@dataclass(frozen=True)
class Jobs:
    """Jobs in the order of their frame.

    Attributes:
        names: of the jobs (n,).
        labels: by column, text or "" where it isn't known (n,).
        numbers: features that are numbers, by column; NaN where not known (n,).
        words: features that are text, by column; "" where not known (n,).
        targets: by column; NaN where not known (n,).
    """

    names: NDArray[np.object_]
    labels: dict[str, NDArray[np.object_]]
    numbers: dict[str, Array]
    words: dict[str, NDArray[np.object_]]
    targets: dict[str, Array]

    def __len__(self) -> int:
        return len(self.names)

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Jobs:
        """Return some of them."""

        def some(columns: dict[str, Any]) -> dict[str, Any]:
            return {name: values[rows] for name, values in columns.items()}

        return Jobs(self.names[rows], some(self.labels), some(self.numbers), some(self.words), some(self.targets))


def jobs_of(frame: pd.DataFrame, targets: bool) -> Jobs:
    """Return the jobs of a frame, one a row.

    Args:
        frame: rows with ``LABELS``, features in any other column, and ``TARGETS`` where ``targets``.
        targets: whether what turned out right is read; else those columns are ignored.

    Raises:
        InvalidInput: a target isn't a number, is negative or infinite.
    """
    size = len(frame)
    labels = {name: _words(frame[name]) if name in frame else np.full(size, "", dtype=object) for name in LABELS}
    plain = [text.strip().lower() for text in labels["strategy"]]
    labels["strategy"] = np.array([SPELLINGS.get(text, text) for text in plain], dtype=object)
    numbers: dict[str, Array] = {}
    words: dict[str, NDArray[np.object_]] = {}
    for name in map(str, frame.columns):
        if name in (*LABELS, *TARGETS, *AFTERWARDS) or name.endswith(USED):
            continue
        values = frame[name]
        if pd.api.types.is_datetime64_any_dtype(values) or pd.api.types.is_timedelta64_dtype(values):
            continue
        number = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
        if (np.isnan(number) == pd.isna(values.to_numpy(dtype=object))).all():
            numbers[name] = np.where(np.isfinite(number) & (np.abs(number) < MOST), number, np.nan)
        else:
            words[name] = _words(values)
    found = {name: _target(frame, name) if targets else np.full(size, np.nan) for name in TARGETS}
    names = _words(frame["job"]) if "job" in frame else np.array([f"row {row}" for row in range(size)], dtype=object)
    return Jobs(names, labels, numbers, words, found)


def latest_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the last row of each job: by ``completed_at`` where given, else as they stand; sorted by job.

    The answer doesn't depend on the order of jobs then.
    """
    if "completed_at" in frame.columns:
        frame = frame.sort_values("completed_at", kind="stable", na_position="first", key=_moments)
    if "job" not in frame.columns:
        return frame
    kept = frame[~frame["job"].duplicated(keep="last") | frame["job"].isna()]
    return kept.iloc[np.argsort(_words(kept["job"]), kind="stable")]


def only(wanted: Iterable[str], strategy: NDArray[np.object_]) -> dict[str, NDArray[np.bool_]]:
    """Return for each target the jobs that can have it: one of servers none that is known to have no servers."""
    servers = strategy != ALLREDUCE
    return {name: servers if name in OF_SERVERS else np.ones(len(strategy), dtype=bool) for name in wanted}


def answered(name: str, values: Array) -> Array:
    """Return a target's values as they are recommended: counts whole, and 1 or more where they aren't 0."""
    if name not in COUNTS:
        return values
    return np.where(values > 0, np.maximum(np.round(values), 1.0), values)


def _moments(values: pd.Series[Any]) -> pd.Series[Any]:
    """Return moments, written or not, as such; numbers as they are."""
    if pd.api.types.is_numeric_dtype(values):
        return values
    return pd.to_datetime(values, utc=True, errors="coerce", format="ISO8601")


def _words(values: pd.Series[Any]) -> NDArray[np.object_]:
    texts = values.astype(object).where(values.notna(), "")
    return np.array([str(text) for text in texts], dtype=object)


def _target(frame: pd.DataFrame, name: str) -> Array:
    if name not in frame.columns:
        return np.full(len(frame), np.nan)
    values = pd.to_numeric(frame[name], errors="coerce").astype("float64")
    wrong = (values < 0) | (values.abs() >= MOST) | (values.isna() & frame[name].notna())
    if wrong.any():
        row = frame.index[wrong][0]
        raise InvalidInput(
            f"{name} is {frame[name][wrong].iloc[0]} in row {row}: expected a finite number, 0 or more; "
            "leave it empty where it isn't known",
            reason="InvalidAmount",
        )
    # No job has no workers, or workers without a core: such a zero is one that wasn't measured.
    return np.where(values > 0, values, np.nan)
