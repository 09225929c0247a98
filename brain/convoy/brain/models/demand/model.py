"""Demand for a cluster's resources, one and two weeks ahead, with intervals made of the model's own past errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.models.demand.calibration import DAY, UNTRIED, Errors, rolling_errors, unit
from convoy.brain.models.demand.paths import LEAST_HOURS, combined, seasonal_naive, since_filled
from convoy.brain.models.demand.series import HOUR, WEEK, Array, Hourly, Read, horizon_hours, read_series
from convoy.brain.models.state import State
from convoy.core.api.errors import CorruptState, InvalidInput

NUMBERS = ("mean", "lower", "upper")


@dataclass(frozen=True)
class _Learned:
    """A resource: its hours since the cluster had filled up, and how far forecasts of them went wrong."""

    hourly: Hourly
    errors: Errors


class CalibratedDemand(ABC):
    """Forecasts by some path, in intervals made of that path's own errors from earlier origins (``calibration``)."""

    first_origin: ClassVar[int]
    """Hours of history that the path needs."""

    def __init__(self) -> None:
        self.read_: Read | None = None
        self.learned_: tuple[_Learned, ...] = ()

    @abstractmethod
    def path(self, values: Array, hours: int) -> Array:
        """Return the forecast (hours,) after hourly values."""

    def fit(self, series: pd.DataFrame) -> Self:
        """Learn from hourly rows of ``time``, ``resource``, ``used``; also ``cluster`` and ``capacity`` if given.

        Rows may stand in any order. Several of one hour are averaged; hours that are missing, or whose ``used`` is
        NaN, are gaps. Times without a zone are taken as UTC. Where the frame has a ``cluster``, each cluster's
        resources are forecast apart. Of a longer history the latest half year is read.

        Raises:
            InvalidInput: a column is missing, there are no rows, a moment or a label is missing or can't be read, an
                amount is negative, infinite or no number.
        """
        self.read_ = read_series(series)
        self.learned_ = tuple(self._learn(hourly) for hourly in self.read_.series)
        return self

    def forecast(self, horizon: Any = "7d", level: float = 0.9) -> pd.DataFrame:
        """Forecast the hours after the latest one of the frame that was learned from.

        Args:
            horizon: from an hour to a year: ``"14d"``, ``"36h"``, a ``timedelta``; part of an hour counts as one.
            level: probability of the interval, in (0, 1).

        Returns:
            A frame of one row a resource and hour: ``time`` (UTC; with a zone if the times that were learned had
            one), ``resource`` (after ``cluster`` if that was given), ``mean`` (the central forecast: a median),
            ``lower``, ``upper`` and ``reason``: ``Forecast``; ``ShortHistory`` (of less than two weeks: a level, in
            an interval that is wide for want of errors); ``Constant`` (it never changed, so no error was seen: the
            interval has no width); ``NothingKnown`` (no hour was measured: NaN in all numbers). Numbers are 0 or
            more, and within the ``capacity`` that the latest day told.

        Raises:
            InvalidInput: the horizon isn't a duration, the level isn't within (0, 1), or nothing was learned from.
        """
        if not 0.0 < level < 1.0:
            raise InvalidInput(
                f"level is {level}: expected a probability between 0 and 1, such as 0.9", reason="InvalidLevel"
            )
        hours = horizon_hours(horizon)
        if self.read_ is None:
            raise InvalidInput("nothing to forecast from: call fit(series) first", reason="NoHistory")
        times = pd.date_range(
            self.read_.latest + HOUR, periods=hours, freq="h", tz="UTC" if self.read_.zoned else None
        )
        parts = []
        for learned in self.learned_:
            labels = dict(zip(self.read_.columns, learned.hourly.key, strict=True))
            numbers = self._numbers(learned, hours, level)
            part = pd.DataFrame({"time": times, **labels, **dict(zip(NUMBERS, numbers, strict=True))})
            parts.append(part.assign(reason=_reason(learned.hourly)))
        columns = [
            *(name for name in self.read_.columns if name == "cluster"),
            "time",
            "resource",
            *NUMBERS,
            "reason",
        ]
        return pd.concat(parts, ignore_index=True)[columns]

    def state(self) -> State:
        """Return what was learned."""
        if self.read_ is None:
            return State({"kind": type(self).__name__, "read": None, "series": []})
        described: list[dict[str, Any]] = []
        tensors: dict[str, NDArray[np.generic]] = {}
        for number, learned in enumerate(self.learned_):
            hourly = learned.hourly
            capacity = hourly.capacity if np.isfinite(hourly.capacity) else None
            described.append(
                {"key": list(hourly.key), "late": hourly.late, "capacity": capacity, "span": learned.errors.span}
            )
            tensors |= {
                f"{number}.values": hourly.values,
                f"{number}.known": hourly.known.astype(np.uint8),
                f"{number}.errors": learned.errors.sizes,
            }
        read = {
            "columns": list(self.read_.columns),
            "latest": self.read_.latest.isoformat(),
            "zoned": self.read_.zoned,
        }
        return State({"kind": type(self).__name__, "read": read, "series": described}, tensors)

    @classmethod
    def restored(cls, state: State) -> Self:
        """Return the model that ``state`` came from.

        Raises:
            CorruptState: it isn't the state of such a model.
        """
        model = cls()
        try:
            if state.document["kind"] != cls.__name__:
                raise ValueError(f"its kind is {state.document['kind']!r}, not {cls.__name__!r}")
            read = state.document["read"]
            if read is not None:
                learned = [_restored(each, state, number) for number, each in enumerate(state.document["series"])]
                model.learned_ = tuple(learned)
                latest = pd.Timestamp(read["latest"])
                series = tuple(each.hourly for each in learned)
                model.read_ = Read(tuple(read["columns"]), latest, bool(read["zoned"]), series)
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptState(f"this is no state of a demand model ({error}): fit it again") from error
        return model

    def _learn(self, hourly: Hourly) -> _Learned:
        begin = since_filled(hourly.values)
        values, known = hourly.values[begin:], hourly.known[begin:]
        kept = Hourly(hourly.key, values, known, hourly.late, hourly.capacity)
        # A shorter history has no errors of the method itself: those of what stands in for it are better than none.
        first = self.first_origin if len(values) >= self.first_origin + WEEK else DAY
        return _Learned(kept, rolling_errors(values, known, self.path, first))

    def _numbers(self, learned: _Learned, hours: int, level: float) -> tuple[Array, Array, Array]:
        """Return mean, lower and upper (hours,)."""
        hourly = learned.hourly
        values, ahead = hourly.values, hourly.late + hours
        if not len(values):
            unknown = np.full(hours, np.nan)
            return unknown, unknown, unknown
        path = self.path(values, ahead)
        widths = learned.errors.widths(level, ahead) * unit(values, values)
        widths = np.where(np.isnan(widths), UNTRIED * values.max(), widths)
        bounds = (path, path - widths, path + widths)
        mean, lower, upper = (np.clip(each[hourly.late :], 0.0, hourly.capacity) for each in bounds)
        return mean, lower, upper


class DemandModel(CalibratedDemand):
    """The use of each of a cluster's resources by the hour, forecast one and two weeks ahead.

    The forecast is the median of five methods (``convoy.brain.models.demand.paths``). Nothing is drawn at random.
    """

    first_origin = LEAST_HOURS

    def path(self, values: Array, hours: int) -> Array:
        """Return the forecast (hours,) after hourly values."""
        return combined(values, hours)


class SeasonalNaive(CalibratedDemand):
    """Last week's same hour: the baseline that ``DemandModel`` must beat."""

    first_origin = WEEK

    def path(self, values: Array, hours: int) -> Array:
        """Return the forecast (hours,) after hourly values."""
        return seasonal_naive(values, hours)


def _reason(hourly: Hourly) -> str:
    if not len(hourly.values):
        return "NothingKnown"
    if len(hourly.values) < LEAST_HOURS:
        return "ShortHistory"
    return "Constant" if np.ptp(hourly.values) == 0 else "Forecast"


def _restored(described: dict[str, Any], state: State, number: int) -> _Learned:
    def tensor(name: str) -> NDArray[np.generic]:
        return state.tensors[f"{number}.{name}"]

    capacity = np.inf if described["capacity"] is None else float(described["capacity"])
    hourly = Hourly(
        tuple(described["key"]),
        tensor("values").astype(np.float64),
        tensor("known").astype(bool),
        int(described["late"]),
        capacity,
    )
    return _Learned(hourly, Errors(tensor("errors").astype(np.float64), float(described["span"])))
