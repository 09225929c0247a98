"""How right a model was about plans that were carried out: in use, not in a back-test.

Who chooses by predictions meets those that were too high more often (a winner's curse), so that an error in use is
larger than a back-test's; a bias below zero is expected, and its size is what is to be watched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from convoy.brain.models.registry.backtest import LEVEL, Interval

MIN_JOBS = 5
"""Jobs below which nothing is said: plans of one job aren't independent, and so few have no bootstrap."""
RESAMPLES = 1000


@dataclass(frozen=True)
class ModelError:
    """Errors of predicted speeds; intervals are bootstraps over jobs (``LEVEL``). None: undefined."""

    plans: int
    """That were carried out, measured, and predicted."""
    jobs: int
    taken_back: int
    bias: Interval | None
    """Mean of log(realized / predicted): below zero where less came than was predicted."""
    median_error: Interval | None
    """Median of abs(realized / predicted - 1)."""
    coverage: Interval | None
    """Share within the 90 % intervals."""
    load_below: Interval | None
    """Share of plans whose workers used no more cores than the upper end (95 %) that was predicted."""
    cost_error: Interval | None
    """Median of abs(realized / predicted - 1) of the price of a million samples."""
    reason: str = ""
    """``NoPlans``, ``TooFewJobs``; "" where errors of speed are defined."""

    def document(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return asdict(self)


def model_error(outcomes: pd.DataFrame) -> ModelError:
    """Return the errors of one model.

    Args:
        outcomes: the rows of ``plan_outcomes`` that it predicted, with ``predicted_per_million`` and
            ``realized_per_million``.
    """
    told = outcomes[(outcomes["predicted"] > 0) & (outcomes["realized"] > 0)]
    jobs = int(told["job"].nunique())
    ratio = told["realized"] / told["predicted"]
    bounded = told[told["within"].notna()]
    cores = told[(told["worker_cpu_upper"] > 0) & (told["worker_cpu_used"] > 0)]
    costs = told[(told["predicted_per_million"] > 0) & (told["realized_per_million"] > 0)]
    cost_ratio = costs["realized_per_million"] / costs["predicted_per_million"]
    return ModelError(
        plans=len(told),
        jobs=jobs,
        taken_back=int(told["rolled_back"].fillna(False).sum()),
        bias=_interval(told["job"], pd.Series(np.log(ratio)), np.mean),
        median_error=_interval(told["job"], (ratio - 1.0).abs(), np.median),
        coverage=_interval(bounded["job"], bounded["within"].astype("float64"), np.mean),
        load_below=_interval(
            cores["job"], (cores["worker_cpu_used"] <= cores["worker_cpu_upper"]).astype("float64"), np.mean
        ),
        cost_error=_interval(costs["job"], (cost_ratio - 1.0).abs(), np.median),
        reason="" if jobs >= MIN_JOBS else "TooFewJobs" if jobs else "NoPlans",
    )


def _interval(job: pd.Series[Any], values: pd.Series[float], statistic: Callable[[Any], Any]) -> Interval | None:
    """Return a statistic over plans and its interval, jobs drawn with all of their plans; None of too few jobs."""
    codes, names = pd.factorize(job)
    if len(names) < MIN_JOBS:
        return None
    numbers = values.to_numpy(dtype=np.float64)
    by_job = [numbers[codes == code] for code in range(len(names))]
    drawn = np.random.default_rng(0).integers(0, len(by_job), (RESAMPLES, len(by_job)))
    found = [float(statistic(np.concatenate([by_job[place] for place in row]))) for row in drawn]
    lower, upper = np.quantile(found, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
    return Interval(float(statistic(numbers)), float(lower), float(upper))
