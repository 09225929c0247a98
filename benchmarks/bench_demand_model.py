"""How right forecasts of demand are, beside last week's same hour, on a public trace of a training cluster.

    python benchmarks/bench_demand_model.py --data DIR          # DIR/workloads/philly_jobs.csv.gz; else $CONVOY_DATA
    python benchmarks/bench_demand_model.py --data DIR --each   # each large virtual cluster apart, too

From an origin a day, one and two weeks ahead; four weeks of history at the first. Printed by method: mean absolute
error (GPUs), that over demand (wape), its ratio to the baseline's and the coverage of 90 % intervals, both with
bootstrap intervals over blocks of origins as long as the horizon, the intervals' width over demand; and the same by
week, since neighbouring origins see the same weeks. In the end, how long a fit and a forecast take.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the Brain's process does, before numpy is imported

import pandas as pd

from convoy.brain.features.published.demand import PHILLY, philly_demand
from convoy.brain.models.backtest.demand import demand_backtest, demand_summary
from convoy.brain.models.demand import DemandModel

LARGE = 9


def by_week(scores: pd.DataFrame) -> pd.DataFrame:
    """Return error and coverage by the week in which origins lie."""
    weeks = scores.assign(week=scores["origin"].dt.to_period("W").dt.start_time.dt.date)
    return weeks.pivot_table(index=["horizon", "week"], columns="method", values=["mae", "coverage"])


def of_each(folder: Path) -> pd.DataFrame:
    """Return error and coverage of each large virtual cluster, from every other day."""
    apart = philly_demand(folder, by_virtual_cluster=True)
    large = apart.groupby("cluster")["used"].sum().nlargest(LARGE).index
    scores = demand_backtest(apart[apart["cluster"].isin(large)], every="2d")
    found = scores.pivot_table(index=["horizon", "cluster"], columns="method", values=["mae", "coverage"])
    found["ratio", ""] = found["mae", "demand"] / found["mae", "seasonal_naive"]
    return found


def main() -> None:
    """Print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("CONVOY_DATA", ".")))
    parser.add_argument("--each", action="store_true", help="each large virtual cluster apart, too")
    given = parser.parse_args()
    folder = given.data / "workloads"
    if not (folder / PHILLY).exists():
        sys.exit(f"{folder / PHILLY} isn't there: name the folder of data sets by --data")
    series = philly_demand(folder)
    scores = demand_backtest(series)
    print(demand_summary(scores).round(3).to_string(index=False))
    print(by_week(scores).round(2).to_string())
    if given.each:
        print(of_each(folder).round(2).to_string())
    begun = time.perf_counter()
    model = DemandModel().fit(series)
    fitted = time.perf_counter()
    model.forecast("14d")
    print(f"fit to {len(series)} hours: {fitted - begun:.2f} s; forecast: {time.perf_counter() - fitted:.3f} s")


if __name__ == "__main__":
    main()
