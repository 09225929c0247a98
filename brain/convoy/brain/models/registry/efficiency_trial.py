"""The back-test by which an efficiency model is promoted: each past job's later noise, from its first half.

As with demand, a kind of model is tested, fitted anew to the jobs that aren't asked about.
"""

from __future__ import annotations

import math
import zlib

import numpy as np
import pandas as pd

from convoy.brain.models.efficiency import EfficiencyModel, gain
from convoy.brain.models.efficiency.readings import global_batch
from convoy.brain.models.registry.backtest import BackTest, JobScore
from convoy.brain.models.registry.facts import frame_digest

PROTOCOL = "the first half of each past job's readings shown, what they say later of eight times its batch asked"
LEVEL = 0.9
SCALE = 8.0
LEAST = 6
"""Readings of a job that is asked about."""
FOLDS = 5


def asked_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the readings of jobs with enough of them whose signal stands out, each job's in the order of time."""
    readable = rows[(rows["grad_sqr"] > 0) & (rows["grad_var"] > 0) & np.isfinite(global_batch(rows))]
    enough = readable[readable.groupby("job")["job"].transform("size") >= LEAST]
    return enough.sort_values(["job", "observed_at"], kind="stable").reset_index(drop=True)


def efficiency_trial(kind: type[EfficiencyModel], rows: pd.DataFrame, of: str, *, learns: bool = True) -> BackTest:
    """Return the back-test of a kind of efficiency model.

    Args:
        kind: of model.
        rows: of ``asked_rows``.
        of: whose the back-test is.
        learns: whether it is fitted to the other jobs; without that it is the model without history.
    """
    fold = np.array([zlib.crc32(str(name).encode()) % FOLDS for name in rows["job"]], dtype=np.int64)
    scores = []
    for number in np.unique(fold):
        model = kind().fit(rows[fold != number] if learns else rows.iloc[:0])
        scores += [_score(model, str(name), own) for name, own in rows[fold == number].groupby("job")]
    return BackTest(of, PROTOCOL, LEVEL, frame_digest(rows), tuple(scores))


def _score(model: EfficiencyModel, name: str, own: pd.DataFrame) -> JobScore:
    half = len(own) // 2
    batch = global_batch(own)
    initial = float(batch.min())
    seen, later = own.iloc[:half], own.iloc[half:]
    asked = later.assign(batch_size=SCALE * initial / (later["workers"] * later["accumulation_steps"].fillna(1.0)))
    answer = model.predict(seen.assign(initial_batch=initial), asked, level=LEVEL)
    truth = gain(SCALE, later["grad_sqr"], later["grad_var"]) / SCALE
    mean, lower, upper = (answer[column].to_numpy(dtype=np.float64) for column in ("mean", "lower", "upper"))
    inside = int(np.count_nonzero((lower <= truth) & (truth <= upper)))
    width = float(np.mean(np.log(upper / lower)))
    error = float(np.median(np.abs(mean / truth - 1.0)))
    return JobScore(name, len(later), error, inside, width if math.isfinite(width) else None)
