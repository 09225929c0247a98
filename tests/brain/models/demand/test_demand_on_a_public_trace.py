"""What was promised of forecasts of demand, on a public trace of a training cluster."""

import os
from pathlib import Path

import pytest

from convoy.brain.features.published.demand import PHILLY, philly_demand
from convoy.brain.models.backtest.demand import demand_backtest, demand_summary

ROOT = Path(__file__).resolve().parents[4]
DATA = Path(os.environ.get("CONVOY_DATA") or ROOT.parent / "shared" / "data")

pytestmark = pytest.mark.skipif(
    not (DATA / "workloads" / PHILLY).exists(), reason="no folder of data sets: CONVOY_DATA=DIR make test"
)


def test_demand_beats_last_week_and_its_intervals_hold_one_and_two_weeks_ahead():
    scores = demand_backtest(philly_demand(DATA / "workloads"), first="28d", every="2d")
    summary = demand_summary(scores).set_index(["method", "horizon"]).loc["demand"]
    assert summary["ratio"].max() < 1.0
    assert summary["coverage"].between(0.85, 0.95).all()
    assert summary["origins"].min() >= 10


@pytest.mark.long
def test_so_it_does_in_each_large_virtual_cluster_together():
    apart = philly_demand(DATA / "workloads", by_virtual_cluster=True)
    large = apart.groupby("cluster")["used"].sum().nlargest(6).index
    scores = demand_backtest(apart[apart["cluster"].isin(large)], first="28d", every="6d")
    found = scores.groupby(["horizon", "method"])[["mae", "coverage"]].mean().unstack()
    assert (found["mae", "demand"] < 0.9 * found["mae", "seasonal_naive"]).all()
    assert found["coverage", "demand"].between(0.85, 0.97).all()  # of few origins
