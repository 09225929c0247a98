"""How right and how quick the throughput model is, beside two published fits, in the same run.

    python benchmarks/bench_throughput_model.py                        # $CONVOY_DATA, else the shipped history
    python benchmarks/bench_throughput_model.py --data DIR --seeds 10

Accuracy: protocol P1 of docs/backtest.md, for a quick look; `convoy brain backtest` does all of them. A job is seen
at k random configurations, and predicted at all others; models that use history never saw a job of the same model (on
the shipped history, where all models are alike: of the same job). Printed are means over jobs of the median absolute
percentage error, and the coverage and width (upper/lower) of 90 % intervals. Speed: one recommendation over 500
configurations, warm; the goal is 20 ms on one core.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the Brain's process does, before numpy is imported

import numpy as np
import pandas as pd

from convoy.brain.features.published.throughput import read_sia_allreduce
from convoy.brain.models import ThroughputModel
from convoy.brain.models.backtest.data import DataSet
from convoy.brain.models.backtest.running import backtest
from convoy.brain.models.backtest.splits import Protocol
from convoy.brain.models.baselines import Ernest, Pollux

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ROOT / "examples" / "history" / "digits.csv"


def data_folder() -> Path | None:
    """Return the folder of public data sets, if $CONVOY_DATA names one that holds sia_allreduce."""
    named = os.environ.get("CONVOY_DATA")
    folder = Path(named) if named else None
    return folder if folder and (folder / "sia_allreduce" / "sia_throughput.csv").is_file() else None


def sia_jobs(folder: Path) -> pd.DataFrame:
    """Return sia_allreduce as a frame: one job a (model, accelerator), medians over equal configurations."""
    return read_sia_allreduce(folder / "sia_allreduce")


def shipped_jobs() -> pd.DataFrame:
    """Return the shipped history, each job a group of its own."""
    rows = pd.read_csv(SHIPPED)
    return rows.assign(group=rows["job"], compute_seconds=np.nan)


def evaluate(frame: pd.DataFrame, sizes: tuple[int, ...], seeds: int, baselines: bool = True) -> pd.DataFrame:
    """Return one row a (method, k, job, seed): mdape (%), coverage and width of 90 % intervals."""
    methods = {"convoy": ThroughputModel, **({"ernest": Ernest, "pollux": Pollux} if baselines else {})}
    data = DataSet("measured", frame)
    return backtest(data, methods, (Protocol.INTERPOLATE,), seeds, sizes={Protocol.INTERPOLATE: sizes})


def milliseconds_per_recommendation(frame: pd.DataFrame, repeats: int = 30) -> tuple[float, float]:
    """Return the medians of wall and processor time of a warm prediction of 500 sizes from three observations."""
    model = ThroughputModel().fit(frame)
    observed = frame.iloc[:3].assign(job="new")
    query = pd.DataFrame({"job": "new", "workers": np.arange(1, 501), "nodes": 1.0, "batch_size": 32.0})
    clocks = []
    for _ in range(repeats + 2):
        clocks.append((time.perf_counter(), time.process_time()))
        model.predict(observed, query)
    wall, busy = 1000 * np.median(np.diff(clocks[1:], axis=0), axis=0)
    return float(wall), float(busy)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with sia_allreduce/ (default: see above)")
    parser.add_argument("--seeds", type=int, default=4, help="draws of observations a job (default: %(default)s)")
    args = parser.parse_args()
    folder = args.data or data_folder()
    frame = sia_jobs(folder) if folder else shipped_jobs()
    name = f"sia_allreduce in {folder}" if folder else f"shipped history {SHIPPED.name}"
    print(f"{name}: {len(frame)} configurations of {frame['job'].nunique()} jobs; {args.seeds} seeds")
    sizes = (1, 2, 3, 5) if folder else (1, 2)
    result = evaluate(frame, sizes, args.seeds)
    by_job = result.groupby(["method", "k", "job"])[["mdape", "coverage", "width"]].mean()
    print(by_job.groupby(["method", "k"]).mean().round(2).to_string())
    wall, busy = milliseconds_per_recommendation(frame)
    print(f"one recommendation over 500 configurations: {wall:.1f} ms, {busy:.1f} ms of the processor")


if __name__ == "__main__":
    main()
