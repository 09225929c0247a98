"""How right an answer was: errors, regret of the choice made by it, and what its interval held."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.models.backtest.choices import Places

Array = NDArray[np.float64]

LEVEL = 0.9
"""Probability of the intervals that are judged."""

SCORES = (
    "mdape", "mape", "regret", "smoothed_regret", "coverage", "width", "undefined",
    "early_regret", "final_regret", "smoothed_final", "running_loss", "moves",
    "worker_cpu_mdape", "worker_cpu_mae", "worker_cpu_coverage", "worker_cpu_undefined",
    "ps_cpu_mdape", "ps_cpu_mae", "ps_cpu_coverage", "ps_cpu_undefined",
)  # fmt: skip
"""Columns of results that are numbers to average; those of P4 and of load among them."""


def percentage_errors(truth: Array, predicted: Array) -> Array:
    """Return |predicted / truth - 1| in percent."""
    return np.asarray(100.0 * np.abs(predicted / truth - 1.0))


def errors(truth: Array, answer: pd.DataFrame, *, level_free: bool = False) -> dict[str, float]:
    """Return ``mdape`` and ``mape`` (%), ``coverage`` (share), ``width`` and ``undefined`` (share of the rows).

    Rows without an answer count in ``undefined`` alone; where none has one, all others are NaN.

    Args:
        truth: (n,) what was measured.
        answer: (n rows) ``mean``, ``lower``, ``upper``.
        level_free: errors are those left when the answer's level is right: nobody can know it (speeds are disguised).
    """
    mean = answer["mean"].to_numpy(dtype=np.float64)
    known = np.isfinite(mean)
    undefined = float(np.mean(~known))
    if not known.any():
        return {"mdape": np.nan, "mape": np.nan, "coverage": np.nan, "width": np.nan, "undefined": undefined}
    truth, mean = truth[known], mean[known]
    lower, upper = (answer[name].to_numpy(dtype=np.float64)[known] for name in ("lower", "upper"))
    scale = float(np.exp(np.median(np.log(truth / mean)))) if level_free else 1.0
    wrong = percentage_errors(truth, scale * mean)
    return {
        "mdape": float(np.median(wrong)),
        "mape": float(np.mean(wrong)),
        "coverage": float(np.mean((lower <= truth) & (truth <= upper))),
        "width": float(np.median(upper / lower)),
        "undefined": undefined,
    }


def regret(truth: Array, predicted: Array, sets: Sequence[Places]) -> float:
    """Return the mean over sets of 1 - truth of the row predicted fastest / the set's best truth, in percent.

    NaN where no set has a predicted row. Rows without a prediction can't be chosen, and can be the best.
    """
    lost = []
    for places in sets:
        known = places[np.isfinite(predicted[places])]
        if len(known):
            chosen = known[np.argmax(predicted[known])]
            lost.append(100.0 * (1.0 - truth[chosen] / np.max(truth[places])))
    return float(np.mean(lost)) if lost else float("nan")
