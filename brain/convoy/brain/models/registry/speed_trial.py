"""The back-test by which a throughput model is promoted: some sizes of each job are shown, the others asked.

Model and rivals are fitted, and see the same rows. What a history tells of a job itself counts for nothing when that
job is observed (``ThroughputModel``), so a job can be asked about that the model was fitted to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any
from typing import Protocol as Interface

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.models.backtest.data import one_row_a_configuration, question
from convoy.brain.models.backtest.splits import Case, Protocol, cases
from convoy.brain.models.registry.backtest import BackTest, JobScore
from convoy.brain.models.registry.facts import frame_digest

Array = NDArray[np.float64]

PROTOCOL = "three sizes of each job shown (one, where it has fewer than six), its other sizes asked"
LEVEL = 0.9
SHOWN = 3
LEAST_SIZES, MANY_SIZES = 3, 6
DRAWS = 6
"""Of a job of which one size is shown; a third of them where three are."""
MOST_JOBS = 60
"""Jobs that are asked about; of more, those whose hashed names come first."""
UNDEFINED = 1.0
"""The error of a row that a model has no answer for."""


class SpeedModel(Interface):
    """What is asked of a model."""

    def predict(self, observed: pd.DataFrame, query: pd.DataFrame, level: float = 0.9) -> pd.DataFrame:
        """Predict ``mean``, ``lower``, ``upper`` of each row of ``query``."""
        ...


def asked_rows(history: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the jobs that are asked about, one a configuration; of three or more in each job."""
    rows = one_row_a_configuration(history)
    if not len(rows):
        return rows
    sizes = rows.groupby("job")["job"].transform("size")
    enough = rows[sizes >= LEAST_SIZES]
    names = sorted(enough["job"].unique(), key=lambda name: hashlib.sha256(str(name).encode()).digest())
    return enough[enough["job"].isin(names[:MOST_JOBS])].reset_index(drop=True)


def speed_trial(
    model: SpeedModel, rows: pd.DataFrame, of: str, tell: Callable[[str], None] = lambda step: None
) -> BackTest:
    """Return the back-test of a fitted model.

    Args:
        model: fitted.
        rows: of ``asked_rows``.
        of: whose the back-test is.
        tell: is told each step: a model that learns anew what a job left out takes seconds for each.
    """
    jobs = list(_by_job(rows))
    scores = []
    for place, (name, own) in enumerate(jobs, 1):
        tell(f"job {place} of {len(jobs)}")
        scores.append(_score(model, str(name), own.reset_index(drop=True)))
    return BackTest(of, PROTOCOL, LEVEL, frame_digest(rows), tuple(scores))


def _by_job(rows: pd.DataFrame) -> Iterator[tuple[Any, pd.DataFrame]]:
    if len(rows):
        yield from rows.groupby("job", sort=True)


def _score(model: SpeedModel, name: str, rows: pd.DataFrame) -> JobScore:
    errors, inside, widths = [], 0, []
    for case in _cases(name, rows):
        answer = model.predict(rows.iloc[case.seen], question(rows.iloc[case.asked]), level=LEVEL)
        truth = rows["throughput"].to_numpy(dtype=np.float64)[case.asked]
        mean, lower, upper = (answer[column].to_numpy(dtype=np.float64) for column in ("mean", "lower", "upper"))
        known = np.isfinite(mean)
        errors.append(np.where(known, np.abs(np.where(known, mean, 0.0) / truth - 1.0), UNDEFINED))
        inside += int(np.count_nonzero(known & (lower <= truth) & (truth <= upper)))
        widths.append(np.log(upper[known] / lower[known]))
    every, spans = np.concatenate(errors), np.concatenate(widths)
    width = float(np.mean(spans)) if len(spans) else None
    return JobScore(name, len(every), float(np.median(every)), inside, width)


def _cases(name: str, rows: pd.DataFrame) -> Iterator[Case]:
    shown = SHOWN if len(rows) >= MANY_SIZES else 1
    return cases(Protocol.INTERPOLATE, name, rows, (shown,), DRAWS)
