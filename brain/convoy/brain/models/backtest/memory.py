"""How right memory limits are: at each moment of a grid, limits from what was before against what was used after.

Containers are split into folds: a method learns from those of the other folds and is asked about those of its own,
so no container is judged by what it taught. All counts are by container, which is what is drawn again for intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.models.backtest.bootstrap import LEVEL, RESAMPLES
from convoy.brain.models.memory import (
    AutopilotLike,
    DlroverRule,
    KrrRule,
    MemoryModel,
    MemoryRule,
    TunedMargin,
    VpaRule,
)
from convoy.brain.models.memory.usage import seconds_of

Array = NDArray[np.float64]

RATES = (0.01, 0.02, 0.05)
LEAST_SEEN = 0.5
"""Share of a container's usual number of readings that a window needs to be judged."""
OURS, MARGIN = "ours", "autopilot"
"""Names of the model and of the rule that is rescaled to the model's realised rate."""
KEYS = ["method", "oom_rate"]


class Recommender(Protocol):
    """What recommends limits."""

    def fit(self, usage: pd.DataFrame) -> object:
        """Learn from other containers."""

    def recommend(
        self, usage: pd.DataFrame, oom_rate: float = ..., horizon: str | float | pd.Timedelta = ...
    ) -> pd.DataFrame:
        """Return ``container``, ``limit_bytes``, ``reason``."""


def memory_methods(seed: int = 0) -> dict[str, Recommender]:
    """Return the model and the rules that it is compared with, by name, none of them fitted."""
    return {
        OURS: MemoryModel(horizons=(), seed=seed),
        MARGIN: AutopilotLike(),
        "vpa": VpaRule(),
        "krr": KrrRule(),
        "dlrover": DlroverRule(),
        "tuned_margin": TunedMargin(),
    }


def memory_windows(
    usage: pd.DataFrame,
    horizon: str | float = "1d",
    rates: Sequence[float] = RATES,
    folds: int = 2,
    least_history: float = 1.0,
    refit_every: int | None = None,
    methods: Mapping[str, Recommender] | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Return each limit beside what was used in its horizon.

    Args:
        usage: ``container``, ``time``, ``used_bytes`` and what else methods read.
        horizon: of the limits; the grid's moments are that far apart and end at the last reading.
        rates: asked for.
        folds: parts of the containers, by turns asked about; 2 or more.
        least_history: horizons that a container must have been seen for.
        refit_every: moments after which methods learn anew, from what was before alone (rolling origin); None: they
            learn once, from all times of the other containers.
        methods: by name; None: ``memory_methods``.
        seed: of the split.

    Returns:
        ``method``, ``oom_rate``, ``fold``, ``container``, ``time`` (of the moment, seconds), ``limit_bytes`` (NaN
        where a method has none), ``needed_bytes``.
    """
    span = seconds_of(horizon)
    rows = usage.assign(__at__=_seconds(usage["time"])).sort_values("__at__", kind="stable")
    moments = _moments(rows["__at__"].to_numpy(dtype=np.float64), span)
    parts: list[pd.DataFrame] = []
    for fold, names in enumerate(_split(usage["container"], folds, seed)):
        own = rows["container"].isin(names)
        asked, taught = rows[own], rows[~own]
        found = methods if methods is not None else memory_methods(seed)
        for number, moment in enumerate(moments):
            if refit_every is None and number == 0:
                _fit(found, taught)
            elif refit_every is not None and number % refit_every == 0:
                _fit(found, taught[taught["__at__"] < moment])
            needed = _needed(asked, moment, span, least_history)
            before = asked[(asked["__at__"] < moment) & asked["container"].isin(needed.index)]
            if len(needed):
                parts.extend(_answers(found, before, needed, rates, span, (fold, moment)))
    columns = ["method", "oom_rate", "fold", "container", "time", "limit_bytes", "needed_bytes"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def memory_backtest(usage: pd.DataFrame, horizon: str | float = "1d", seed: int = 0) -> pd.DataFrame:
    """Return one row a (method, oom_rate, container) of ``memory_windows``: see ``by_container``."""
    return by_container(memory_windows(usage, horizon, seed=seed))


def by_container(windows: pd.DataFrame) -> pd.DataFrame:
    """Return one row a (method, oom_rate, container).

    Columns ``windows`` (judged), ``exceeded`` (share of them over their limit), ``log_slack`` (mean logarithm of
    limit / needed, where anything was needed), ``limit_bytes``, ``needed_bytes`` (means), ``undefined`` (share
    without a limit).
    """
    known = windows["limit_bytes"].notna()
    ratio = (windows["limit_bytes"] / windows["needed_bytes"].where(windows["needed_bytes"] > 0)).where(known)
    over = (windows["needed_bytes"] > windows["limit_bytes"]).astype(float).where(known)
    table = windows.assign(exceeded=over, log_slack=np.log(ratio), undefined=(~known).astype(float))
    grouped = table.groupby([*KEYS, "container"], sort=False)
    means = grouped[["exceeded", "log_slack", "limit_bytes", "needed_bytes", "undefined"]].mean()
    return means.assign(windows=grouped.size()).reset_index()


def memory_summary(containers: pd.DataFrame, level: float = LEVEL, seed: int = 0) -> pd.DataFrame:
    """Return one row a (method, oom_rate) of ``by_container``: realised rate, slack and bytes.

    Columns ``rate``, ``rate_lower``, ``rate_upper`` (over windows; interval by drawing containers again), ``slack``
    (geometric mean of limit / needed), ``bytes_ratio`` (limits / needed, summed), ``containers``, ``windows``.
    """
    rows = []
    for keys, part in containers.groupby(KEYS, sort=False):
        part = part.dropna(subset=["exceeded"])
        count = part["windows"].to_numpy(dtype=np.float64)
        over = part["exceeded"].to_numpy(dtype=np.float64) * count
        drawn = _drawn(len(part), seed)
        rates = over[drawn].sum(axis=1) / count[drawn].sum(axis=1)
        tail = (1.0 - level) / 2.0
        slack = part.dropna(subset=["log_slack"])
        rows.append(
            {
                **dict(zip(KEYS, keys, strict=True)),
                "rate": over.sum() / count.sum(),
                "rate_lower": np.quantile(rates, tail),
                "rate_upper": np.quantile(rates, 1.0 - tail),
                "slack": float(np.exp(np.average(slack["log_slack"], weights=slack["windows"]))),
                "bytes_ratio": (part["limit_bytes"] * count).sum() / (part["needed_bytes"] * count).sum(),
                "containers": len(part),
                "windows": int(count.sum()),
            }
        )
    return pd.DataFrame(rows)


def against_margin(
    windows: pd.DataFrame, ours: str = OURS, margin: str = MARGIN, level: float = LEVEL, seed: int = 0
) -> pd.DataFrame:
    """Return one row a rate: ours against a fixed margin that is tuned, on the very answer, to our realised rate.

    Columns ``margin`` (that rule's factor on its own limits), ``slack_ours``, ``slack_margin``, ``slack_ratio`` with
    ``slack_lower``, ``slack_upper`` (containers drawn again, the margin tuned to each draw), ``bytes_ratio`` (ours /
    theirs) with ``bytes_lower``, ``bytes_upper``.
    """
    rows = []
    for rate, part in windows.groupby("oom_rate", sort=False):
        table = part[part["method"].isin([ours, margin])].pivot_table(
            index=["container", "time", "needed_bytes"], columns="method", values="limit_bytes"
        )
        table = table.dropna().reset_index()
        names = pd.factorize(table["container"])[0]
        limits = {name: table[name].to_numpy(dtype=np.float64) for name in (ours, margin)}
        needed = table["needed_bytes"].to_numpy(dtype=np.float64)
        weights = np.ones((1, names.max() + 1))
        drawn = _drawn(names.max() + 1, seed)
        counts = np.apply_along_axis(np.bincount, 1, drawn, None, names.max() + 1)
        found = np.array(
            [_matched(limits[ours], limits[margin], needed, each[names]) for each in np.vstack([weights, counts])]
        )
        tail = (1.0 - level) / 2.0
        slack, total = found[1:, 1] / found[1:, 2], found[1:, 3]
        rows.append(
            {
                "oom_rate": rate,
                "margin": found[0, 0],
                "slack_ours": found[0, 1],
                "slack_margin": found[0, 2],
                "slack_ratio": found[0, 1] / found[0, 2],
                "slack_lower": np.quantile(slack, tail),
                "slack_upper": np.quantile(slack, 1.0 - tail),
                "bytes_ratio": found[0, 3],
                "bytes_lower": np.quantile(total, tail),
                "bytes_upper": np.quantile(total, 1.0 - tail),
            }
        )
    return pd.DataFrame(rows)


def _matched(ours: Array, theirs: Array, needed: Array, weights: Array) -> tuple[float, float, float, float]:
    """Return the factor on ``theirs`` at which it is exceeded as often as ours, both slacks, our bytes / theirs."""
    over = float(weights[needed > ours].sum())
    ratio = needed / theirs
    order = np.argsort(-ratio, kind="stable")
    passed = np.cumsum(weights[order])
    factor = float(ratio[order][min(int(np.searchsorted(passed, over, side="right")), len(order) - 1)])
    used = needed > 0
    slacks = [
        float(np.exp(np.average(np.log(limit[used] / needed[used]), weights=weights[used])))
        for limit in (ours, theirs * factor)
    ]
    return factor, slacks[0], slacks[1], float((ours @ weights) / (theirs @ weights * factor))


def _answers(
    methods: Mapping[str, Recommender],
    before: pd.DataFrame,
    needed: pd.Series[float],
    rates: Sequence[float],
    span: float,
    place: tuple[int, float],
) -> Iterator[pd.DataFrame]:
    before = before.drop(columns="__at__")
    for name, method in methods.items():
        found = None
        for rate in rates:
            if found is None or not isinstance(method, MemoryRule) or method.takes_rate:
                found = method.recommend(before, oom_rate=rate, horizon=span).set_index("container")
            limits = found["limit_bytes"].reindex(needed.index.astype(str))
            yield pd.DataFrame(
                {
                    "method": name,
                    "oom_rate": rate,
                    "fold": place[0],
                    "container": needed.index.astype(str),
                    "time": place[1],
                    "limit_bytes": limits.to_numpy(dtype=np.float64),
                    "needed_bytes": needed.to_numpy(dtype=np.float64),
                }
            )


def _needed(rows: pd.DataFrame, moment: float, span: float, least_history: float) -> pd.Series[float]:
    """Return the most used within a horizon after ``moment``, of the containers that ran before and after it."""
    at = rows["__at__"]
    window = rows[(at >= moment) & (at < moment + span)].groupby("container")["used_bytes"]
    seen = window.count()
    first = rows.groupby("container")["__at__"].min().reindex(seen.index)
    last = rows[at < moment].groupby("container")["__at__"].max().reindex(seen.index)
    usual = _usual_readings(rows, span).reindex(seen.index)
    judged = (first <= moment - least_history * span) & (last >= moment - span) & (seen >= LEAST_SEEN * usual)
    return window.max()[judged & (seen > 0)]


def _usual_readings(rows: pd.DataFrame, span: float) -> pd.Series[float]:
    grouped = rows.groupby("container")["__at__"]
    gap = grouped.agg(lambda times: np.median(np.diff(times)) if len(times) > 1 else np.inf)
    return (span / gap).clip(upper=span)


def _moments(times: Array, span: float) -> list[float]:
    """Return moments a horizon apart, the last of them a horizon before the end of the last reading."""
    if not len(times):
        return []
    gap = float(np.median(np.diff(np.unique(times)))) if len(np.unique(times)) > 1 else 0.0
    end = float(times.max()) + gap
    count = int(np.floor((end - float(times.min())) / span + 1e-9))
    return [end - number * span for number in range(count, 0, -1)]


def _split(containers: pd.Series[str], folds: int, seed: int) -> list[NDArray[np.object_]]:
    names = np.sort(containers.astype(str).unique())
    return list(np.array_split(np.random.default_rng(seed).permutation(names), folds))


def _fit(methods: Mapping[str, Recommender], taught: pd.DataFrame) -> None:
    for method in methods.values():
        method.fit(taught.drop(columns="__at__"))


def _seconds(times: pd.Series[float]) -> Array:
    if pd.api.types.is_numeric_dtype(times):
        return np.asarray(times.to_numpy(dtype=np.float64))
    since = pd.to_datetime(times, utc=True) - pd.Timestamp(0, tz="UTC")
    return np.asarray(since.dt.total_seconds().to_numpy(dtype=np.float64))


def _drawn(count: int, seed: int) -> NDArray[np.intp]:
    return np.random.default_rng(seed).integers(0, count, (RESAMPLES, count))
