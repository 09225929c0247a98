"""How right and how quick explanations of predicted speeds are: on made-up jobs, on measured compute times.

    python benchmarks/bench_explanations.py                # made-up jobs
    python benchmarks/bench_explanations.py --data DIR     # and sia_allreduce, dl2_ps in DIR, models left out

MADE-UP jobs: tests/support/limited_jobs.py; four past ones of each limit, new ones asked at eight workers after k
random observations below. Columns: share of jobs whose limit is named; mean probability given to it; share named
without a doubt ("sure"), and of those, right; how often the 90 % interval of the share of compute holds the part of a
step in which a worker computes, and its width. Measured: error of that part, its correlation with what was measured,
and whether the larger measured part is named. Speed: processor time of an explanation after a prediction of the same
240 configurations, from 20 observations, beside that of the prediction.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the Brain's process does, before numpy is imported
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
import pandas as pd

from convoy.brain.features.published.throughput import read_dl2_ps, read_sia_allreduce
from convoy.brain.models import ThroughputModel
from convoy.brain.models.throughput import Explanation
from convoy.brain.models.throughput.wording import SURE
from support.limited_jobs import ALL_REDUCE, SERVED, jobs

TRUTH = ["limit", "computing"]
"""Columns of made-up jobs that no model sees."""


def made_up(seeds: int) -> pd.DataFrame:
    """Return one row an explanation of a job whose limit is known."""
    rows = []
    for kinds in (ALL_REDUCE, SERVED):
        for seed in range(seeds):
            model = ThroughputModel(seed).fit(jobs(kinds, 4, seed + 20))
            generator = np.random.default_rng(seed)
            for _, own in jobs(kinds, 4, 300 + seed, "new").groupby("job"):
                asked = own[own["workers"] == 8].iloc[:1].drop(columns="throughput")
                small = own[own["workers"] < 8]
                for k in (1, 2, 3, 5):
                    seen = small.iloc[generator.choice(len(small), k, replace=False)].drop(columns=TRUTH)
                    told = model.explain(seen, asked)
                    first = told.limits[0]
                    right = first.name == own["limit"].iloc[0]
                    held = interval(told, float(own.loc[asked.index[0], "computing"]))
                    rows.append(("servers" if kinds is SERVED else "all-reduce", k, right, first.largest, *held))
    return pd.DataFrame(rows, columns=["jobs", "k", "right", "probability", *INTERVAL])


INTERVAL = ["held", "width"]


def interval(told: Explanation, truth: float) -> tuple[bool, float]:
    """Return whether the interval of the share of compute holds ``truth``, and how wide it is."""
    share = next((one for one in told.limits if one.name == "compute"), None)
    lower, upper = (share.lower, share.upper) if share else (0.0, 0.0)
    return lower <= truth <= upper, upper - lower


def measured(folder: Path, seeds: int) -> pd.DataFrame:
    """Return one row an explanation of a job whose seconds of compute were measured where it is asked about."""
    table = read_sia_allreduce(folder / "sia_allreduce")
    table["part"] = table["compute_seconds"] * table["throughput"] / table["workers"] / table["batch_size"]
    rows = []
    for group in sorted(table["group"].unique()):
        model = ThroughputModel().fit(table[table["group"] != group].drop(columns="part"))
        for name, own in table[table["group"] == group].groupby("job"):
            for k in (1, 3, 8):
                for seed in range(seeds):
                    generator = np.random.default_rng(seed)
                    seen = own.iloc[generator.choice(len(own), k, replace=False)]
                    rest = own.drop(seen.index)
                    rest = rest[rest["workers"] > 1]
                    for place in generator.choice(len(rest), 2, replace=False):
                        row = rest.iloc[[place]]
                        asked = row.drop(columns=["throughput", "compute_seconds", "part"])
                        told = model.explain(seen.drop(columns="part"), asked)
                        part, truth = told.compute_seconds / told.step_seconds, float(row["part"].iloc[0])
                        first = told.limits[0]
                        right = (first.name == "compute") == (truth > 0.5)
                        rows.append((name, k, right, first.largest, *interval(told, truth), part, truth))
    return pd.DataFrame(rows, columns=["jobs", "k", "right", "probability", *INTERVAL, "part", "truth"])


def milliseconds(folder: Path, repeats: int = 7) -> pd.DataFrame:
    """Return processor time of predictions and explanations, their model left out, one row a job of dl2_ps."""
    table = read_dl2_ps(folder / "dl2_ps")
    rows = []
    for group in sorted(table["group"].unique()):
        own = table[(table["group"] == group) & (table["status"] == "ok")]
        seen = own.sample(20, random_state=0)
        sizes = [{"workers": workers, "ps": ps} for workers in range(1, 21) for ps in range(1, 13)]
        told = {name: own[name].iloc[0] for name in ("job", "model", "strategy", "mode", "worker_cpu", "ps_cpu")}
        batch = float((own["batch_size"] * own["workers"]).iloc[0])
        query = pd.DataFrame(sizes).assign(**told)
        query["batch_size"] = batch / query["workers"]
        learned = ThroughputModel().fit(table[table["group"] != group])
        spent = []
        for _ in range(repeats):
            model = ThroughputModel.restored(learned.state())  # nothing is kept of the last time
            model.predict(seen.iloc[:5], query)  # what of a history doesn't depend on the observations is known
            clocks = [time.process_time()]
            model.predict(seen, query)
            clocks.append(time.process_time())
            model.explain(seen, query)
            clocks.append(time.process_time())
            spent.append(1000 * np.diff(clocks))
        rows.append((own["job"].iloc[0], *np.median(spent, axis=0)))
    found = pd.DataFrame(rows, columns=["job", "prediction", "explanation"]).set_index("job")
    return found.assign(ratio=found["explanation"] / found["prediction"])


def table(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return how often the limit was named."""
    sure = rows["probability"] >= SURE
    result = rows.groupby(by).agg(
        explanations=("right", "size"),
        right=("right", "mean"),
        probability=("probability", "mean"),
        held=("held", "mean"),
        width=("width", "mean"),
    )
    result["sure"] = sure.groupby([rows[name] for name in by]).mean()
    result["right where sure"] = rows[sure].groupby(by)["right"].mean()
    return result.round(3)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of public data sets")
    parser.add_argument(
        "--seeds", type=int, default=6, help="populations of made-up jobs; draws of measured ones: a third"
    )
    given = parser.parse_args()
    print(table(made_up(given.seeds), ["jobs", "k"]).to_string())
    if given.data is not None:
        rows = measured(given.data, max(1, given.seeds // 3))
        result = table(rows, ["k"])
        result["compute: error"] = (rows["part"] - rows["truth"]).abs().groupby(rows["k"]).mean()
        result["correlation"] = {k: own["part"].corr(own["truth"]) for k, own in rows.groupby("k")}
        print("\nsia_allreduce, 18 jobs, models left out:\n" + result.round(3).to_string())
        print("\ndl2_ps, ms of the processor:\n" + milliseconds(given.data).round(2).to_string())


if __name__ == "__main__":
    main()
