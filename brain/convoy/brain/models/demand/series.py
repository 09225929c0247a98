"""Demand frames as evenly spaced hours: what is read of each resource, gaps, and what a frame can't say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.core.api.errors import InvalidInput

Array = NDArray[np.float64]

HOUR = pd.Timedelta(hours=1)
WEEK = 168
"""Hours."""
KEPT_HOURS = 26 * WEEK
"""Of a longer history the latest half year is read: demand before it says little of the next two weeks."""
BRIDGED_HOURS = 6
"""A gap of so many hours is bridged by a straight line; of a longer one each hour is taken from a week before."""
MOST_HOURS = 366 * 24
"""Of a horizon."""
_DAYS = re.compile(r"\s*(-?[0-9.]+) ?d\s*")
REQUIRED = ("time", "resource", "used")


@dataclass(frozen=True)
class Hourly:
    """One resource's use by the hour.

    Attributes:
        key: what tells it from others: the resource, after the cluster where the frame has that column.
        values: of consecutive hours, the last one the latest that is known; gaps are filled.
        known: which of them were measured.
        late: hours from its latest to the frame's latest; forecasts begin after that one.
        capacity: the most that there is, by the latest hours that say it; infinite: not known.
    """

    key: tuple[str, ...]
    values: Array
    known: NDArray[np.bool_]
    late: int = 0
    capacity: float = np.inf


@dataclass(frozen=True)
class Read:
    """A frame as it was read: its resources, its latest hour (without a zone, in UTC), and whether it had a zone."""

    columns: tuple[str, ...]
    latest: pd.Timestamp
    zoned: bool
    series: tuple[Hourly, ...]


def read_series(frame: pd.DataFrame) -> Read:
    """Return the hourly series of a frame with ``time``, ``resource``, ``used``; rows of one hour are averaged.

    Raises:
        InvalidInput: a column is missing, there is no row, or a value can't be right.
    """
    absent = [name for name in REQUIRED if name not in frame.columns]
    if absent:
        raise InvalidInput(
            f"the series has no column {', '.join(absent)}: expected hourly rows of {', '.join(REQUIRED)}, "
            "as frames.cluster_hours gives them",
            reason="MissingColumn",
        )
    if not len(frame):
        raise InvalidInput(
            "the series has no rows: expected hours that were measured; give an hour of each resource at least",
            reason="NoHistory",
        )
    columns = ("cluster", "resource") if "cluster" in frame.columns else ("resource",)
    times, zoned = _hours(frame["time"])
    rows = pd.DataFrame({"time": times, "used": _amounts(frame, "used"), "capacity": _capacity(frame)})
    keys = [_label(frame[name], name) for name in columns]
    latest = pd.Timestamp(times.max())
    found = []
    for key, part in rows.groupby(keys, sort=True):
        name = key if isinstance(key, tuple) else (key,)
        found.append(_hourly(tuple(str(each) for each in name), part, latest))
    return Read(columns, latest, zoned, tuple(found))


def horizon_hours(horizon: Any) -> int:
    """Return the hours of a horizon such as ``"7d"``, ``"36h"`` or a ``timedelta``, rounded up.

    Raises:
        InvalidInput: it is no duration, or not within an hour and a year.
    """
    try:
        days = _DAYS.fullmatch(horizon) if isinstance(horizon, str) else None
        duration = pd.Timedelta(days=float(days[1])) if days else pd.Timedelta(horizon)
    except (ValueError, TypeError) as error:
        raise _horizon_error(horizon) from error
    if pd.isna(duration) or isinstance(horizon, (int, float, np.number)):
        raise _horizon_error(horizon)
    hours = int(np.ceil(duration / HOUR))
    if not 1 <= hours <= MOST_HOURS:
        raise _horizon_error(horizon)
    return hours


def _horizon_error(horizon: Any) -> InvalidInput:
    return InvalidInput(
        f'horizon is {horizon!r}: expected a duration from an hour to a year, such as "7d" or "36h"',
        reason="InvalidHorizon",
    )


def _hours(given: pd.Series[Any]) -> tuple[pd.Series[Any], bool]:
    """Return each row's hour in UTC, without a zone, and whether the times had one; those without are UTC."""
    if pd.api.types.is_numeric_dtype(given) and given.notna().any():
        raise _time_error(f"{given.dropna().iloc[0]} is a number")
    try:
        times = pd.to_datetime(given, format="ISO8601")
        zoned = getattr(times.dtype, "tz", None) is not None
        plain = pd.to_datetime(times, utc=True).dt.tz_localize(None)
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise _time_error(str(error).partition(". You might")[0]) from error
    if plain.isna().any():
        raise InvalidInput(
            f"time is missing in {int(plain.isna().sum())} rows: drop them, or give their hours", reason="InvalidTime"
        )
    return plain.dt.floor("h"), zoned


def _time_error(why: str) -> InvalidInput:
    return InvalidInput(
        f"time can't be read ({why}): expected moments, all with a time zone or all without (UTC)",
        reason="InvalidTime",
    )


def _amounts(frame: pd.DataFrame, name: str) -> pd.Series[Any]:
    values = pd.to_numeric(frame[name], errors="coerce").astype("float64")
    wrong = np.isinf(values) | (values < 0) | (values.isna() & frame[name].notna())
    if wrong.any():
        first = frame[name][wrong].iloc[0]
        raise InvalidInput(
            f"{name} is {first} in row {frame.index[wrong][0]}: expected a finite number, 0 or more; "
            "leave it empty where it isn't known",
            reason="InvalidAmount",
        )
    return values


def _capacity(frame: pd.DataFrame) -> pd.Series[Any]:
    if "capacity" not in frame.columns:
        return pd.Series(np.nan, index=frame.index)
    return _amounts(frame, "capacity")


def _label(values: pd.Series[Any], name: str) -> pd.Series[Any]:
    if values.isna().any() and name == "resource":
        raise InvalidInput(
            f"resource is missing in row {values.index[values.isna()][0]}: expected its name, such as cpu",
            reason="InvalidLabel",
        )
    return values.astype(object).where(values.notna(), "").astype(str)


def _hourly(key: tuple[str, ...], rows: pd.DataFrame, latest: pd.Timestamp) -> Hourly:
    by_hour = rows.groupby("time")["used"].mean().dropna()
    if not len(by_hour):
        return Hourly(key, np.empty(0), np.empty(0, dtype=bool))
    end = pd.Timestamp(by_hour.index[-1])
    by_hour = by_hour[by_hour.index > end - KEPT_HOURS * HOUR]
    begin = pd.Timestamp(by_hour.index[0])
    hours = by_hour.reindex(pd.date_range(begin, end, freq="h"))
    values = hours.to_numpy(dtype=np.float64)
    capacities = rows.groupby("time")["capacity"].mean().dropna()
    capacity = float(capacities.iloc[-24:].max()) if len(capacities) else np.inf
    if capacity < values[np.isfinite(values)][-24:].max():
        capacity = np.inf  # it isn't the capacity of what is counted
    return Hourly(key, filled(values), np.isfinite(values), int((latest - end) / HOUR), capacity)


def filled(values: Array) -> Array:
    """Return hourly values with their gaps filled: short ones by a line, others by the same hour a week before.

    The first and the last value are known.
    """
    result = values.copy()
    places = np.arange(len(values))
    line = np.interp(places, places[np.isfinite(values)], values[np.isfinite(values)])
    for begin, end in _gaps(values):
        for place in range(begin, end):
            earlier = place - WEEK
            short = end - begin <= BRIDGED_HOURS or earlier < 0
            result[place] = line[place] if short else result[earlier]
    return result


def _gaps(values: Array) -> Iterator[tuple[int, int]]:
    """Yield the bounds [begin, end) of each run of hours that aren't known."""
    missing = np.concatenate([[False], np.isnan(values), [False]])
    edges = np.flatnonzero(missing[1:] != missing[:-1])
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
