"""The back-test by which a demand model is promoted: week by week, each forecast from the hours before it alone.

A forecast's quality is its method's: a fitted demand model knows only the hours that it was fitted to. So what is
tested is a kind of model, fitted anew at each origin.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from convoy.brain.models.backtest.demand import demand_backtest
from convoy.brain.models.demand.model import CalibratedDemand
from convoy.brain.models.registry.backtest import BackTest, JobScore
from convoy.brain.models.registry.facts import frame_digest

PROTOCOL = "one week ahead, from each of the latest weeks' beginnings, fitted to the hours before"
LEVEL = 0.9
HORIZON = "7d"
LATEST = pd.Timedelta(days=7 * 26)
"""How much of the past is read: of it, the first four weeks are history only."""


def demand_trial(kind: type[CalibratedDemand], series: pd.DataFrame, of: str) -> BackTest:
    """Return the back-test of a kind of demand model; without scores where the history is too short for one.

    Args:
        kind: of model.
        series: as ``DemandModel.fit`` takes it.
        of: whose the back-test is.
    """
    rows = series
    if len(series):
        times = pd.to_datetime(series["time"])
        rows = series[times > times.max() - LATEST]
    found = (
        demand_backtest(rows, (HORIZON,), LEVEL, every=HORIZON, methods={of: kind}) if len(rows) else pd.DataFrame()
    )
    scores = []
    for row in found.to_dict("records"):
        if np.isfinite(row["wape"]):  # nothing was used, so no error is relative to it
            week = f"{row['origin']:%Y-%m-%dT%H} {row.get('cluster', '')}/{row['resource']}"
            inside = round(float(row["coverage"]) * int(row["hours"]))
            scores.append(JobScore(week, int(row["hours"]), float(row["wape"]), inside))
    return BackTest(of, PROTOCOL, LEVEL, frame_digest(rows), tuple(scores))
