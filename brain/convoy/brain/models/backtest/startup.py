"""Back-test of start-up resources: what was learned from some jobs, against what turned out right for others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, Self

import numpy as np
import pandas as pd

from convoy.brain.models.startup import AsAsked, DlroverRules, StartupModel, TemplateMedian
from convoy.brain.models.startup.choice import folds
from convoy.brain.models.startup.table import TARGETS, jobs_of, latest_rows
from convoy.core.api.errors import InvalidInput

LEFT_OUT = ("job", "template")


class Startup(Protocol):
    """What recommends resources for a job that begins."""

    def fit(self, jobs: pd.DataFrame) -> Self:
        """Learn from jobs that are over."""
        ...

    def recommend(self, jobs: pd.DataFrame) -> pd.DataFrame:
        """Return ``TARGETS`` and ``reason`` for each job."""
        ...


METHODS: Mapping[str, Callable[[], Startup]] = {
    "startup": StartupModel,
    "template_median": TemplateMedian,
    "as_asked": AsAsked,
    "dlrover": DlroverRules,
}


def startup_backtest(
    jobs: pd.DataFrame,
    left_out: Literal["job", "template"] = "job",
    methods: Mapping[str, Callable[[], Startup]] = METHODS,
) -> pd.DataFrame:
    """Return how far each method's recommendation for each job was from what turned out right for it.

    Args:
        jobs: as ``StartupModel.fit`` takes them.
        left_out: what is recommended without having been seen: jobs (their templates are known), or all jobs of a
            template. A group is left out alone, or with others in ten parts where there are more than thirty.
        methods: by name, what makes each.

    Returns:
        One row a (method, job, target): ``recommended``, ``right`` (in the target's unit), ``log_error`` (logarithm
        of recommended over right, 0.69 is twice as much; NaN where a method recommends nothing) and ``reason``.
        Servers of jobs that have none aren't scored.

    Raises:
        InvalidInput: ``left_out`` is neither, or as ``StartupModel``'s.
    """
    if left_out not in LEFT_OUT:
        raise InvalidInput(
            f"left_out is {left_out!r}: expected one of {', '.join(LEFT_OUT)}", reason="InvalidProtocol"
        )
    rows = latest_rows(jobs).reset_index(drop=True)
    read = jobs_of(rows, targets=True)
    found = []
    for left in folds(read.names if left_out == "job" else read.labels["template"]) if len(rows) else ():
        seen, asked = rows[~left], rows[left]
        for name, make in methods.items():
            answer = make().fit(seen).recommend(asked.drop(columns=[*TARGETS], errors="ignore"))
            for target in TARGETS:
                right = read.targets[target][left]
                recommended = answer[target].to_numpy(dtype=np.float64)
                part = pd.DataFrame(
                    {
                        "method": name,
                        "job": read.names[left],
                        "target": target,
                        "recommended": recommended,
                        "right": right,
                        "log_error": np.log(np.where(recommended > 0, recommended, np.nan) / right),
                        "reason": answer["reason"].to_numpy(),
                    }
                )
                found.append(part[np.isfinite(right)])
    columns = ["method", "job", "target", "recommended", "right", "log_error", "reason"]
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=columns)


def startup_summary(
    scores: pd.DataFrame, baseline: str = "template_median", draws: int = 2000, seed: int = 0
) -> pd.DataFrame:
    """Return by (target, method) what ``startup_backtest`` found, with bootstrap intervals over jobs.

    Returns:
        Columns ``target``, ``method``, ``jobs`` (with a recommendation), ``error`` (mean absolute logarithm),
        ``ratio`` (of it to the baseline's, on the jobs for which both recommend), ``ratio_lower``, ``ratio_upper``
        (5 % and 95 %), ``too_little`` (share of jobs that got less than half of what was right) and ``too_much``
        (more than twice).
    """
    rows: list[dict[str, Any]] = []
    for target, of_target in scores.groupby("target", sort=False):
        errors = of_target.pivot_table(index="job", columns="method", values="log_error", sort=True)
        for method in dict.fromkeys(of_target["method"]):
            if method not in errors or baseline not in errors:
                continue
            own = errors[method].dropna()
            both = errors[[method, baseline]].dropna().abs().to_numpy()
            drawn = both[np.random.default_rng(seed).integers(0, len(both), (draws, len(both)))].mean(axis=1)
            ratio = drawn[:, 0] / drawn[:, -1]
            rows.append(
                {
                    "target": target,
                    "method": method,
                    "jobs": len(own),
                    "error": float(own.abs().mean()),
                    "ratio": float(both[:, 0].mean() / both[:, -1].mean()),
                    "ratio_lower": float(np.quantile(ratio, 0.05)),
                    "ratio_upper": float(np.quantile(ratio, 0.95)),
                    "too_little": float((own < -np.log(2)).mean()),
                    "too_much": float((own > np.log(2)).mean()),
                }
            )
    return pd.DataFrame(rows)
