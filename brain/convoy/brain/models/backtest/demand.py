"""Back-test of forecasts of demand: from rolling origins, against what came."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from convoy.brain.models.demand import DemandModel, SeasonalNaive
from convoy.brain.models.demand.model import CalibratedDemand
from convoy.brain.models.demand.series import HOUR, horizon_hours
from convoy.core.api.errors import InvalidInput

METHODS: Mapping[str, Callable[[], CalibratedDemand]] = {"demand": DemandModel, "seasonal_naive": SeasonalNaive}
COLUMNS = ("method", "horizon", "origin", "resource", "hours", "mae", "wape", "coverage", "width", "reason")


def demand_backtest(
    series: pd.DataFrame,
    horizons: Sequence[str] = ("7d", "14d"),
    level: float = 0.9,
    first: str = "28d",
    every: str = "1d",
    methods: Mapping[str, Callable[[], CalibratedDemand]] = METHODS,
) -> pd.DataFrame:
    """Return how each method's forecasts from each origin came out.

    At each origin a method learns from the hours before it alone. Origins whose horizon isn't over are left out, so a
    longer horizon has fewer.

    Args:
        series: as ``DemandModel.fit`` takes it.
        horizons: how far ahead.
        level: probability of the intervals.
        first: history at the first origin.
        every: between origins; below the horizon, results of neighbouring origins aren't independent.
        methods: by name, what makes each.

    Returns:
        One row a (method, horizon, origin, resource): ``hours`` that were scored, ``mae`` (mean absolute error, in
        the series' unit), ``wape`` (that over the mean of what came; NaN where nothing was used), ``coverage`` (share
        of hours within the interval), ``width`` (mean of upper less lower, over the mean of what came) and
        ``reason`` of the forecast. With a column ``cluster`` if the series has one. Empty where the history is too
        short for an origin.

    Raises:
        InvalidInput: as ``DemandModel``'s; a duration that can't be.
    """
    hours = {horizon: horizon_hours(horizon) for horizon in horizons}
    if not hours:
        raise InvalidInput('horizons is empty: expected durations, such as ("7d", "14d")', reason="InvalidHorizon")
    labels = [name for name in ("cluster", "resource") if name in series.columns]
    times = pd.to_datetime(series["time"]).dt.floor("h")
    begin, end = times.min(), times.max()
    rows: list[dict[str, Any]] = []
    for origin in pd.date_range(begin + horizon_hours(first) * HOUR, end, freq=horizon_hours(every) * HOUR):
        due = {horizon: number for horizon, number in hours.items() if origin + (number - 1) * HOUR <= end}
        if not due:
            break
        came = series.assign(time=times)[(times >= origin) & (times < origin + max(due.values()) * HOUR)]
        for name, make in methods.items():
            model = make().fit(series[times < origin])
            forecast = model.forecast(max(due.values()) * HOUR, level)
            both = forecast.merge(came[["time", *labels, "used"]], on=["time", *labels])
            for horizon, number in due.items():
                within = both[both["time"] < origin + number * HOUR].dropna(subset=["used", "mean"])
                for key, part in within.groupby(labels):
                    described = dict(zip(labels, key, strict=True))
                    rows.append({"method": name, "horizon": horizon, "origin": origin, **described, **_score(part)})
    names = [*COLUMNS[:3], *labels, *COLUMNS[4:]]
    return pd.DataFrame(rows, columns=names)


def _score(forecast: pd.DataFrame) -> dict[str, Any]:
    used = forecast["used"].to_numpy(dtype=np.float64)
    mean, lower, upper = (forecast[name].to_numpy(dtype=np.float64) for name in ("mean", "lower", "upper"))
    error, amount = float(np.abs(used - mean).mean()), float(used.mean())
    return {
        "hours": len(used),
        "mae": error,
        "wape": error / amount if amount > 0 else np.nan,
        "coverage": float(((lower <= used) & (used <= upper)).mean()),
        "width": float((upper - lower).mean()) / amount if amount > 0 else np.nan,
        "reason": str(forecast["reason"].iloc[0]),
    }


def demand_summary(
    scores: pd.DataFrame, baseline: str = "seasonal_naive", draws: int = 2000, seed: int = 0
) -> pd.DataFrame:
    """Return by (method, horizon) what ``demand_backtest`` found, with bootstrap intervals over weeks of origins.

    Origins of one week (or one horizon, if that is longer) are drawn together, since their forecasts overlap.

    Args:
        scores: of ``demand_backtest``, of one resource.
        baseline: the method that errors are compared with.
        draws: of the bootstrap.
        seed: of the draws.

    Returns:
        Columns ``method``, ``horizon``, ``origins``, ``blocks``, ``mae``, ``wape`` (total error over total demand),
        ``ratio`` (of ``mae`` to the baseline's) and ``coverage``, both with ``_lower`` and ``_upper`` (5 % and 95 %;
        of two or three blocks they say little), and ``width``.
    """
    rows = []
    for horizon, of_horizon in scores.groupby("horizon", sort=False):
        length = max(horizon_hours(horizon) * HOUR, pd.Timedelta(days=7))
        known = of_horizon[of_horizon["method"] == baseline].set_index("origin")["mae"]
        for method, part in of_horizon.groupby("method", sort=False):
            part = part.set_index("origin").sort_index().assign(baseline=known)
            rows.append({"method": method, "horizon": horizon, **_summary(part, length, draws, seed)})
    return pd.DataFrame(rows)


def _summary(scores: pd.DataFrame, length: pd.Timedelta, draws: int, seed: int) -> dict[str, float]:
    """Return one method's results at one horizon, from rows indexed by origin; blocks of origins are that long."""
    block = ((scores.index - scores.index[0]) // length).to_numpy()
    sums = scores[["mae", "baseline", "coverage"]].assign(origins=1.0).groupby(block).sum().to_numpy(dtype=np.float64)
    drawn = sums[np.random.default_rng(seed).integers(0, len(sums), (draws, len(sums)))].sum(axis=1)
    ratio, coverage = drawn[:, 0] / drawn[:, 1], drawn[:, 2] / drawn[:, 3]
    return {
        "origins": len(scores),
        "blocks": len(sums),
        "mae": float(scores["mae"].mean()),
        "wape": float(scores["mae"].sum() / (scores["mae"] / scores["wape"]).sum()),
        "ratio": float(scores["mae"].sum() / scores["baseline"].sum()),
        "ratio_lower": float(np.quantile(ratio, 0.05)),
        "ratio_upper": float(np.quantile(ratio, 0.95)),
        "coverage": float(scores["coverage"].mean()),
        "coverage_lower": float(np.quantile(coverage, 0.05)),
        "coverage_upper": float(np.quantile(coverage, 0.95)),
        "width": float(scores["width"].mean()),
    }
