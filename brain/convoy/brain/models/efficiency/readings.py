"""Gradient statistics as jobs report them: which of them can be used, as noise scales by age and batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

Array = NDArray[np.float64]

MOST = 64
"""Readings of one job that are kept, newest and evenly over the logarithm of its age: its noise changes with that."""

MOST_BLOCKS = 512
"""Blocks that the rows of one batch are added up to, before the rest is left out."""


@dataclass(frozen=True)
class Readings:
    """What one job reported; n readings in the order of time."""

    age: Array
    """Logarithm of the job's age over its age at the first reading, (n,), 0 or more."""
    size: Array
    """Logarithm to base 2 of the global batch over the initial one, (n,)."""
    noise: Array
    """Logarithm of ``grad_var / grad_sqr`` at the initial batch's scale, (n,)."""
    initial_batch: float
    """Samples; NaN: neither told nor to be had from a row."""
    reason: str = ""
    """Why there are no readings; empty where there are."""
    began: float = 0.0
    """When the job's age was none, in seconds since the epoch; rows are counted where they have no time."""
    first: float = 1.0
    """Age at the first reading, seconds."""

    def __len__(self) -> int:
        return len(self.noise)

    def age_at(self, moment: Array) -> Array:
        """Return ages as in ``age`` at moments (seconds since the epoch); NaN is the last reading's."""
        elapsed = np.maximum(moment - self.began, self.first) / self.first
        return np.where(np.isnan(elapsed), self.age[-1] if len(self) else 0.0, np.log(elapsed))


def numbers(frame: pd.DataFrame, name: str, default: float = np.nan) -> Array:
    """Return a column as numbers; ``default`` where it is absent, NaN or no number."""
    if name not in frame.columns:
        return np.full(len(frame), default)
    values = pd.to_numeric(frame[name], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isnan(values), default, values)


def moments(frame: pd.DataFrame) -> Array:
    """Return ``observed_at`` in seconds since the epoch; NaN where unknown."""
    if "observed_at" not in frame.columns:
        return np.full(len(frame), np.nan)
    times = pd.to_datetime(frame["observed_at"], utc=True, errors="coerce")
    known = times.notna().to_numpy()
    since = (times - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1)
    return np.where(known, since.to_numpy(dtype=np.float64, na_value=np.nan), np.nan)


def global_batch(frame: pd.DataFrame) -> Array:
    """Return the samples of a step, all workers together; NaN where a part is unknown or not positive."""
    total = (
        numbers(frame, "workers") * numbers(frame, "batch_size") * numbers(frame, "accumulation_steps", default=1.0)
    )
    return np.where(np.isfinite(total) & (total > 0), total, np.nan)


def readings_of(frame: pd.DataFrame) -> Readings:
    """Return the readings of one job's rows.

    ``initial_batch`` of a row is the batch at whose scale its ``grad_var`` stands; where no row gives it, the
    smallest global batch among the rows. A negative or zero ``grad_sqr`` (an unbiased estimate of a small norm is, at
    times) isn't left out, which would make the rest look less noisy than it was: it is added up with its neighbour's.

    Reasons for none: ``NotReported``, ``BatchUnknown``, ``OnlyNoise`` (no norm of a gradient stands out).
    """
    squares, variances = numbers(frame, "grad_sqr"), numbers(frame, "grad_var")
    batch, scale = global_batch(frame), numbers(frame, "initial_batch")
    told = scale[np.isfinite(scale) & (scale > 0)]
    known = batch[~np.isnan(batch)]
    initial = float(told.min()) if len(told) else float(known.min()) if len(known) else np.nan
    variances = variances * np.where(np.isfinite(scale) & (scale > 0), scale / initial, 1.0)
    # squares of what was measured may be anything; a variance that isn't positive is no variance
    usable = np.isfinite(squares) & np.isfinite(variances) & (variances > 0)
    if not usable.any():
        return _none(initial, "NotReported")
    usable &= ~np.isnan(batch)
    if not usable.any():
        return _none(initial, "BatchUnknown")
    rows = frame.iloc[np.flatnonzero(usable)]
    age, began, first = _ages(rows)
    order = np.lexsort([age, batch[usable]])
    groups = _with_signal(squares[usable][order], batch[usable][order])
    if not len(groups):
        return _none(initial, "OnlyNoise")
    last = np.array([group[-1] for group in groups])
    # divided beforehand by the largest, so that no sum leaves the numbers' range
    most = max(float(np.abs(squares[usable]).max()), float(variances[usable].max()))
    signal = np.array([np.sum(squares[usable][order][group] / most) for group in groups])
    spread = np.array([np.sum(variances[usable][order][group] / most) for group in groups])
    with np.errstate(divide="ignore", invalid="ignore"):
        noise = np.log(spread) - np.log(signal)
    kept = np.flatnonzero(np.isfinite(noise))
    kept = kept[np.argsort(age[order][last][kept], kind="stable")]
    if not len(kept):
        return _none(initial, "OnlyNoise")
    ages, sizes = age[order][last][kept], np.log2(batch[usable][order][last][kept]) - np.log2(initial)
    chosen = _spread_over(ages)
    return Readings(ages[chosen], sizes[chosen], noise[kept][chosen], initial, began=began, first=first)


def _none(initial: float, reason: str) -> Readings:
    nothing = np.zeros(0)
    return Readings(nothing, nothing, nothing, initial, reason)


def _ages(rows: pd.DataFrame) -> tuple[Array, float, float]:
    """Return the rows' logarithm of age over that at the first, the moment of none, and the first age in seconds."""
    ended = moments(rows)
    if np.isnan(ended).any():  # without all times their order has to do
        return np.log(np.arange(1.0, len(rows) + 1.0)), 0.0, 1.0
    window = numbers(rows, "window_seconds", 300.0)[int(np.argmin(ended))]
    first = float(window) if np.isfinite(window) and window > 0 else 300.0
    began = float(ended.min()) - first
    return np.log(np.maximum(ended - began, first) / first), began, first


def _with_signal(squares: Array, batch: Array) -> list[NDArray[np.intp]]:
    """Return the readings of each batch in groups of neighbours whose sum of ``squares`` is positive."""
    groups: list[NDArray[np.intp]] = []
    for size in np.unique(batch):
        places = np.flatnonzero(batch == size)
        width = max(_width(float(np.mean(squares[places] <= 0))), -(-len(places) // MOST_BLOCKS))
        waiting = places[:0]
        mine: list[NDArray[np.intp]] = []
        for block in np.array_split(places, -(-len(places) // min(width, len(places)))):
            waiting = np.concatenate([waiting, block])
            if np.sum(squares[waiting]) > 0:
                mine.append(waiting)
                waiting = places[:0]
        while len(waiting) and mine and np.sum(squares[waiting]) <= 0:  # what is left at the end joins those before
            waiting = np.concatenate([mine.pop(), waiting])
        if len(waiting) and np.sum(squares[waiting]) > 0:
            mine.append(waiting)
        groups += mine
    return groups


def _width(share: float) -> int:
    """Return how many readings are to be added up where ``share`` of them aren't positive.

    Of normal errors about a positive norm, that share tells the norm over their deviation; with the width, a sum is
    two deviations from zero. To stop wherever a sum turns positive would choose the sums that are too large.
    """
    if share <= 0.0:
        return 1
    distance = -float(ndtri(min(share, 0.5 - 1e-6)))
    return int(np.ceil(4.0 / distance**2))


def _spread_over(age: Array) -> NDArray[np.intp]:
    """Return the places of at most ``MOST`` readings: the newest quarter of them, the rest evenly over ``age``."""
    if len(age) <= MOST:
        return np.arange(len(age))
    older = len(age) - MOST // 4
    _, group, count = np.unique(age[:older], return_inverse=True, return_counts=True)
    # a reading stands for the stretch since the age before, which it shares with others of its age (other batches)
    stretch = np.diff(age[:older], prepend=age[0])
    shared = np.bincount(group, weights=stretch) / count + 1e-9
    passed = np.cumsum(shared[group])
    wanted = (np.arange(MOST - MOST // 4) + 0.5) / (MOST - MOST // 4) * passed[-1]
    return np.union1d(np.searchsorted(passed, wanted), np.arange(older, len(age))).astype(np.intp)
