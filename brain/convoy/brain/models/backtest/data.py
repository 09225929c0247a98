"""What a back-test runs on: folds of a frame, each with a history that doesn't know the answers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from convoy.core.api.errors import InvalidInput

HIDDEN = ("job", "template", "model")
"""Labels that a name could be recognized by; equal names stay equal."""

LEAST_FACTOR, MOST_FACTOR = 0.1, 10.0
"""A job's speeds are multiplied by a constant between them."""

KNOWN_OF_A_QUESTION = (
    "job", "template", "model", "strategy", "mode", "cluster", "accelerator", "node_type", "workers", "ps", "nodes",
    "accelerators_per_worker", "batch_size", "accumulation_steps", "worker_cpu", "ps_cpu", "cluster_cpu",
    "worker_memory", "ps_memory", "window_seconds",
)  # fmt: skip
"""Columns of a configuration and its labels: all others were measured and aren't shown to who is asked."""

NOT_A_SIZE = ("job", "template", "model", "window_seconds")
"""Of them, those that make no configuration another."""


@dataclass(frozen=True)
class DataSet:
    """Measurements of several jobs: the models' columns, and ``group``: rows that must be left out together."""

    name: str
    frame: pd.DataFrame
    source: str = ""
    """Where the rows are from, if another set's are from there too: they don't join each other's histories."""
    published: str | None = None
    """The published method that is known to be the best on it; named before anything is run."""
    most_seeds: int = 1000
    """A set of many jobs needs fewer draws of each."""
    tunes: bool = True
    """Whether its configurations make a search (P4)."""
    by_time: bool = False
    """Histories end where a job begins (``observed_at``), beside leaving out the job."""

    @property
    def origin(self) -> str:
        """Where the rows are from: ``source``, or the set itself."""
        return self.source or self.name


@dataclass(frozen=True)
class Fold:
    """One history, and the jobs that are predicted with it."""

    history: pd.DataFrame
    jobs: Mapping[str, pd.DataFrame]
    """The usable rows of each job, by its real name."""


TIME_PARTS = 4
"""Moments at which a history in time is cut; what comes before the first is history only."""


def disguised(frame: pd.DataFrame, salt: int = 0) -> pd.DataFrame:
    """Return the frame with hashed names and, for each job, a unit of time of its own.

    Speeds are multiplied by a random constant and step times divided by it, so that no model can tell a job by its
    level. Rows keep their index.
    """
    shown = frame.copy()
    for name in HIDDEN:
        if name in frame.columns:
            known = frame[name].notna()
            shown.loc[known, name] = frame.loc[known, name].map(
                lambda text, kind=name: hashed(f"{kind} {text}", salt)
            )
    factor = frame["job"].map(lambda name: _factor(str(name), salt)).to_numpy(dtype=np.float64)
    for name in ("throughput", "throughput_sd"):
        if name in frame.columns:
            shown[name] = frame[name] * factor
    if "compute_seconds" in frame.columns:
        shown["compute_seconds"] = frame["compute_seconds"] / factor
    return shown


def hashed(text: str, salt: int) -> str:
    """Return a name that says nothing."""
    return hashlib.blake2b(f"{salt} {text}".encode(), digest_size=6).hexdigest()


def _factor(job: str, salt: int) -> float:
    digest = hashlib.blake2b(f"{salt} unit {job}".encode(), digest_size=8).digest()
    share = int.from_bytes(digest, "big") / 2**64
    return float(LEAST_FACTOR * (MOST_FACTOR / LEAST_FACTOR) ** share)


def question(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what is known of configurations before they are tried."""
    known: pd.DataFrame = rows[[name for name in KNOWN_OF_A_QUESTION if name in rows.columns]]
    return known


def usable(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that ran and measured a speed."""
    speed = pd.to_numeric(rows["throughput"], errors="coerce")
    good = (speed > 0) & np.isfinite(speed)
    if "status" in rows.columns:
        good &= rows["status"].isna() | rows["status"].isin(["ok", ""])
    chosen: pd.DataFrame = rows[good]
    return chosen


def one_row_a_configuration(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the usable rows of each job with those of equal configuration merged: the last, with the median speed.

    What was measured again isn't unseen; a back-test that asks for it would flatter.
    """
    rows = usable(frame)
    if not len(rows):
        return rows
    keys = [name for name in KNOWN_OF_A_QUESTION if name in rows.columns and name not in NOT_A_SIZE]
    grouped = rows.groupby(["job", *keys], dropna=False, sort=False)
    merged: pd.DataFrame = grouped.tail(1).assign(throughput=grouped["throughput"].transform("median"))
    return merged


def folds(data: DataSet, others: pd.DataFrame | None = None) -> Iterator[Fold]:
    """Yield histories and the jobs to predict with each: of each group, or of each stretch of time.

    Args:
        data: disguised or not.
        others: rows of other data sets that join each history, less those of a job's group.

    Raises:
        InvalidInput: a column is missing.
    """
    needed = ("job", "throughput", "workers", "observed_at" if data.by_time else "group")
    missing = [name for name in needed if name not in data.frame.columns]
    if missing:
        raise InvalidInput(f"{data.name}: no column {', '.join(missing)}; a back-test needs {', '.join(needed)}")
    yield from _by_time(data.frame) if data.by_time else _by_group(data.frame, others)


def _by_group(frame: pd.DataFrame, others: pd.DataFrame | None) -> Iterator[Fold]:
    known = frame if others is None else pd.concat([frame, others], ignore_index=True)
    for group in sorted(frame["group"].unique()):
        own = usable(frame[frame["group"] == group])
        yield Fold(known[known["group"] != group], {str(name): rows for name, rows in own.groupby("job", sort=True)})


def _by_time(frame: pd.DataFrame) -> Iterator[Fold]:
    """Yield, for each later stretch of time, what was measured before it, and the jobs that began in it.

    Rows without a time count as known from the beginning; a job of nothing else is history alone.
    """
    times = pd.to_datetime(frame["observed_at"], utc=True, errors="coerce", format="ISO8601")
    began = times.groupby(frame["job"]).min().dropna().sort_values(kind="stable")
    parts = np.array_split(np.arange(len(began)), TIME_PARTS + 1)
    for part in parts[1:]:
        if len(part):
            start, names = began.iloc[part[0]], set(began.index[part])
            own = usable(frame[frame["job"].isin(names)])
            history = frame[(times.isna() | (times < start)) & ~frame["job"].isin(names)]
            yield Fold(history, {str(name): rows for name, rows in own.groupby("job", sort=True)})
