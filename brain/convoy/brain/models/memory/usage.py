"""Rows of memory use as containers: columns checked, rows that say nothing dropped, readings in order of time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.core.api.errors import InvalidInput

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

REQUIRED = ("container", "time", "used_bytes")
LABELS = ("template", "role", "rank")
_DAYS = re.compile(r"(?<=\d)d\b")
NOTHING = -np.inf
"""Logarithm of a use of zero: the container ran and used nothing."""


@dataclass(frozen=True)
class Container:
    """What is known of one container."""

    name: str
    labels: tuple[str | None, str | None, str | None]
    """Template, role, rank; None where unknown."""
    times: Array
    """Seconds, rising (readings,)."""
    used: Array
    """Logarithm of bytes (readings,); ``NOTHING`` for zero."""
    killed: Flags
    """Which readings are kills: at least that much was wanted (readings,)."""

    @property
    def has_history(self) -> bool:
        """Whether any reading tells more than that nothing was used."""
        return bool(np.isfinite(self.used).any())


def containers_of(usage: pd.DataFrame) -> list[Container]:
    """Return the containers of a frame of usage, by name; those without a usable reading have none.

    Left out are rows whose use is NaN, negative or infinite, or whose time is unknown. A kill (``oom``) counts as a
    reading of its limit, or of its use where that is more; without either it says nothing. Of several rows of one
    moment the largest counts.

    Raises:
        InvalidInput: a required column is missing, a row names no container, or a column isn't of its kind.
    """
    missing = [name for name in REQUIRED if name not in usage.columns]
    if missing and (len(usage) or len(usage.columns)):
        raise InvalidInput(
            f"usage: no column {', '.join(missing)}; expected one row a reading with {', '.join(REQUIRED)} and, "
            "where known, template, role, rank, limit_bytes and oom"
        )
    if not len(usage):
        return []
    if usage["container"].isna().any():
        where = int(np.flatnonzero(usage["container"].isna())[0])
        raise InvalidInput(f"usage: row {where} names no container; give each row the name of its container")
    names = usage["container"].astype(str).to_numpy(dtype=object)
    codes, ordered = pd.factorize(names, sort=True)
    times, values, killed = _seconds(usage["time"]), _numbers(usage, "used_bytes"), _flags(usage)
    limits = _numbers(usage, "limit_bytes")
    known = np.where(np.isfinite(values) & (values >= 0), values, np.nan)
    bound = np.where(np.isfinite(limits) & (limits > 0), limits, np.nan)
    values = np.where(killed, np.fmax(known, bound), known)
    usable = np.isfinite(values) & np.isfinite(times) & ~(killed & (values <= 0))
    order = np.lexsort((killed, values, times, codes))
    order = order[usable[order]]
    starts = np.searchsorted(codes[order], np.arange(len(ordered) + 1))
    labels = list(zip(*(_labels(usage, name, codes, len(ordered)) for name in LABELS), strict=True))
    with np.errstate(divide="ignore"):
        logs = np.log(values[order])
    return [
        _container(str(name), labels[code], times[order][own], logs[own], killed[order][own])
        for code, name in enumerate(ordered)
        for own in [slice(starts[code], starts[code + 1])]
    ]


def seconds_of(horizon: object) -> float:
    """Return a span of time ("1d", a Timedelta, seconds) in seconds.

    Raises:
        InvalidInput: it isn't a span, or isn't longer than zero.
    """
    try:
        # numpy's numbers would be nanoseconds to pandas
        if isinstance(horizon, int | float | np.integer | np.floating) and not isinstance(horizon, bool):
            seconds = float(horizon)
        else:
            # pandas is about to drop its small letter for days, which Kubernetes and Prometheus write
            span = _DAYS.sub("D", horizon) if isinstance(horizon, str) else horizon
            seconds = float(pd.Timedelta(span).total_seconds())  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        seconds = float("nan")
    if not (np.isfinite(seconds) and seconds > 0):
        raise InvalidInput(f'horizon is {horizon!r}: expected a span longer than zero such as "1d", "1h" or seconds')
    return seconds


def _container(
    name: str, labels: tuple[str | None, str | None, str | None], times: Array, used: Array, killed: Flags
) -> Container:
    last = np.append(times[1:] != times[:-1], True) if len(times) else np.zeros(0, dtype=np.bool_)
    return Container(name, labels, times[last], used[last], killed[last])


def _seconds(column: pd.Series[float]) -> Array:
    if pd.api.types.is_numeric_dtype(column):
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    try:
        stamps = pd.to_datetime(column, utc=True, errors="raise", format="ISO8601")
    except (TypeError, ValueError, OverflowError) as error:
        why = str(error).partition(". You might")[0]
        raise InvalidInput(f"usage: time can't be read: {why}; expected moments (UTC) or seconds") from error
    # in microseconds no year that can be written is out of bounds
    moments = stamps.dt.tz_localize(None).to_numpy().astype("datetime64[us]")
    return np.where(np.isnat(moments), np.nan, moments.astype(np.int64) / 1e6)


def _numbers(usage: pd.DataFrame, name: str) -> Array:
    if name not in usage.columns:
        return np.full(len(usage), np.nan)
    try:
        return pd.to_numeric(usage[name], errors="raise").to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"usage: {name} can't be read as numbers: {error}; expected bytes") from error


def _flags(usage: pd.DataFrame) -> Flags:
    if "oom" not in usage.columns:
        return np.zeros(len(usage), dtype=np.bool_)
    given = usage["oom"]
    values = given.where(given.notna(), False)
    if not values.isin([True, False]).all():
        wrong = values[~values.isin([True, False])].iloc[0]
        raise InvalidInput(f"usage: oom is {wrong!r}: expected true or false")
    return values.astype(bool).to_numpy(dtype=np.bool_)


def _labels(usage: pd.DataFrame, name: str, codes: NDArray[np.intp], count: int) -> list[str | None]:
    """Return the last given value of a label of each container; ranks 1 and 1.0 are one rank."""
    found: list[str | None] = [None] * count
    if name in usage.columns:
        given = usage[name]
        rows = np.flatnonzero(given.notna().to_numpy())
        for code, value in zip(codes[rows], given.iloc[rows], strict=True):
            text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()
            found[code] = text or found[code]
    return found


def thinned(containers: Iterable[Container], most: int) -> list[Container]:
    """Return the containers with at most ``most`` readings each: the largest of every few that follow each other."""
    result = []
    for one in containers:
        every = -(-len(one.times) // most)
        if every > 1:
            starts = np.arange(0, len(one.times), every)
            ends = np.append(starts[1:], len(one.times)) - 1
            largest = np.maximum.reduceat(one.used, starts)
            group = np.repeat(np.arange(len(starts)), ends - starts + 1)
            at_top = one.killed & (one.used >= largest[group])
            killed = np.logical_or.reduceat(at_top, starts)
            one = Container(one.name, one.labels, one.times[ends], largest, killed)
        result.append(one)
    return result
