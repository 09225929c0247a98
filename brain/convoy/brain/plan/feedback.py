"""Plans that were carried out, beside what was predicted of them: speed, load and cost. Pure."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from convoy.brain.plan import explain
from convoy.brain.plan.prices import Prices

Row = dict[Hashable, Any]
_GIB = 1024.0**3


def priced(outcomes: pd.DataFrame, prices: Prices) -> pd.DataFrame:
    """Return outcomes with what they came to cost.

    Args:
        outcomes: rows of the frame ``plan_outcomes``.
        prices: of what the pods were allotted.

    Returns:
        The frame with ``realized_per_hour``, of the pods that there were, ``predicted_per_million`` and
        ``realized_per_million`` samples, at the speed that was predicted and the one that was had; NaN where unknown.
    """
    allotted = outcomes[["workers_after", "worker_cpu", "worker_memory"]].to_numpy(dtype=np.float64)
    # an allotment that isn't known is no free one
    per_hour = [
        prices.per_hour(int(workers), cpu, memory) if np.isfinite([workers, cpu, memory]).all() else math.nan
        for workers, cpu, memory in allotted
    ]

    def per_million(price: object, speed: str) -> list[float]:
        pairs = zip(np.asarray(price, dtype=np.float64), outcomes[speed].to_numpy(dtype=np.float64), strict=True)
        return [prices.per_million_samples(one, rate) for one, rate in pairs]

    return outcomes.assign(
        realized_per_hour=per_hour,
        predicted_per_million=per_million(outcomes["price_per_hour"], "predicted"),
        realized_per_million=per_million(per_hour, "realized"),
    )


@dataclass(frozen=True)
class Told:
    """A plan's outcome in words. Empty: nothing came of it yet."""

    plan: str
    sentence: str


def in_words(outcomes: pd.DataFrame, currency: str) -> list[Told]:
    """Return a sentence a plan, in the order of ``outcomes`` (of ``priced``)."""
    rows = outcomes.assign(rolled_back=outcomes["rolled_back"].fillna(False).astype(bool)).to_dict("records")
    return [Told(str(row["plan"]), _sentence(row, currency)) for row in rows]


def _sentence(row: Row, currency: str) -> str:
    realized = _number(row, "realized")
    if not realized > 0:
        return "not measured yet" if pd.notna(row["carried_out_at"]) else "not carried out"
    parts = [_speed(row, realized), *_load(row), *_cost(row, currency)]
    restart = _number(row, "restart_seconds")
    if restart > 0:
        parts.append(f"restart of {explain.duration(restart)}")
    if row["rolled_back"]:
        parts.append("taken back: it made things worse")
    return "; ".join(parts)


def _speed(row: Row, realized: float) -> str:
    predicted = _number(row, "predicted")
    if not predicted > 0:
        return f"realized {explain.speed(realized)} samples/s, nothing was predicted"
    lower, upper = _number(row, "predicted_lower"), _number(row, "predicted_upper")
    text = f"realized {explain.speed(realized)} samples/s, {realized / predicted - 1:+.0%} against the predicted one"
    if math.isnan(lower) or math.isnan(upper):
        return text
    where = "within" if lower <= realized <= upper else "below" if realized < lower else "above"
    return f"{text} ({where} {explain.speed(lower)} to {explain.speed(upper)})"


def _load(row: Row) -> list[str]:
    parts = []
    for name, unit, scale in (("cpu", "cores", 1.0), ("memory", "GiB", _GIB)):
        used, most = _number(row, f"worker_{name}_used") / scale, _number(row, f"worker_{name}_upper") / scale
        if used > 0:
            expected = f" of at most {most:.3g} predicted" if most > 0 else ""
            parts.append(f"{used:.3g} {unit} a worker{expected}")
    return parts


def _cost(row: Row, currency: str) -> list[str]:
    realized, predicted = _number(row, "realized_per_million"), _number(row, "predicted_per_million")
    if not realized > 0:
        return []
    against = f", {predicted:.3g} predicted" if predicted > 0 else ""
    return [f"{realized:.3g} {currency} a million samples{against}"]


def _number(row: Row, name: str) -> float:
    value = row[name]
    return float(value) if isinstance(value, (int, float)) else math.nan
