"""Demand models are tested week by week."""

import numpy as np
import pandas as pd

from convoy.brain.models.demand import DemandModel, SeasonalNaive
from convoy.brain.models.registry.demand_trial import demand_trial


def series(weeks):
    hours = pd.date_range("2026-01-01", periods=weeks * 168, freq="h", tz="UTC")
    noise = np.random.default_rng(0).normal(0.0, 3.0, len(hours))
    used = 50.0 + 20.0 * np.sin(2 * np.pi * hours.hour / 24) + noise
    return pd.DataFrame({"time": hours, "cluster": "east", "resource": "cpu", "used": used})


def test_each_week_that_is_over_is_forecast_from_what_was_before_it():
    hours = series(8)
    ours, naive = demand_trial(DemandModel, hours, "candidate"), demand_trial(SeasonalNaive, hours, "baseline")
    assert len(ours.scores) == 4
    assert [score.rows for score in ours.scores] == [168] * 4
    assert ours.scores[0].job == "2026-01-29T00 east/cpu"
    assert ours.comparable(naive)
    assert ours.ratio(naive).upper < 1.0


def test_a_short_history_has_no_test_and_an_empty_one_none_either():
    assert demand_trial(DemandModel, series(4), "candidate").scores == ()
    assert demand_trial(DemandModel, series(4).iloc[:0], "candidate").scores == ()
