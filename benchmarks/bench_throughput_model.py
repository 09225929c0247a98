"""How right and how quick the throughput model is, beside two published fits, in the same run.

    python benchmarks/bench_throughput_model.py                        # $CONVOY_DATA, else the shipped history
    python benchmarks/bench_throughput_model.py --data DIR --seeds 10

Accuracy: a job is seen at k random configurations, and predicted at all others; models that use history never saw a
job of the same model (on the shipped history, where all models are alike: of the same job). Printed are medians over
configurations and means over jobs of the absolute percentage error, and the coverage and width (upper/lower) of 90 %
intervals. Speed: one recommendation over 500 configurations, warm.
"""

from __future__ import annotations

import argparse
import os
import time
import zlib
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the Brain's process does, before numpy is imported

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import least_squares, nnls

from convoy.brain.models import ThroughputModel

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ROOT / "examples" / "history" / "digits.csv"
Array = NDArray[np.float64]


def data_folder() -> Path | None:
    """Return the folder of public data sets, if $CONVOY_DATA names one that holds sia_allreduce."""
    named = os.environ.get("CONVOY_DATA")
    folder = Path(named) if named else None
    return folder if folder and (folder / "sia_allreduce" / "sia_throughput.csv").is_file() else None


def sia_jobs(folder: Path) -> pd.DataFrame:
    """Return sia_allreduce as a frame: one job a (model, accelerator), medians over equal configurations."""
    raw = pd.read_csv(folder / "sia_allreduce" / "sia_throughput.csv")
    raw = raw[raw["gpu"] != "quad"]
    keys = ["model", "gpu", "num_nodes", "num_replicas", "local_bsz"]
    table = raw.groupby(keys, as_index=False)[["step_time", "sync_time"]].median()
    return pd.DataFrame(
        {
            "job": table["model"] + "-" + table["gpu"],
            "group": table["model"],
            "accelerator": table["gpu"],
            "strategy": "allreduce",
            "workers": table["num_replicas"],
            "nodes": table["num_nodes"],
            "batch_size": table["local_bsz"],
            "throughput": table["num_replicas"] * table["local_bsz"] / table["step_time"],
            "compute_seconds": table["step_time"] - table["sync_time"],
        }
    )


def shipped_jobs() -> pd.DataFrame:
    """Return the shipped history, each job a group of its own."""
    rows = pd.read_csv(SHIPPED)
    return rows.assign(group=rows["job"], compute_seconds=np.nan)


def ernest(observed: pd.DataFrame, query: pd.DataFrame) -> Array:
    """Fit T = a + b m + c log w + d w by non-negative least squares, relative errors (after Ernest, NSDI 2016)."""

    def terms(frame: pd.DataFrame) -> Array:
        workers = frame["workers"].to_numpy(dtype=float)
        batch = frame["batch_size"].to_numpy(dtype=float)
        return np.column_stack([np.ones(len(frame)), batch, np.log(workers), workers])

    seconds = (observed["workers"] * observed["batch_size"] / observed["throughput"]).to_numpy(dtype=float)
    coefficients, _ = nnls(terms(observed) / seconds[:, None], np.ones(len(seconds)))
    predicted = np.maximum(terms(query) @ coefficients, 1e-9)
    samples = (query["workers"] * query["batch_size"]).to_numpy(dtype=float)
    return np.asarray(samples / predicted)


def pollux(observed: pd.DataFrame, query: pd.DataFrame) -> Array:
    """Fit Pollux's seven parameters (OSDI 2021) to step times, and to compute times where they are known."""

    def times(logs: Array, frame: pd.DataFrame) -> tuple[Array, Array]:
        a_c, b_c, a_l, b_l, a_n, b_n = np.exp(logs[:6])
        workers, nodes = frame["workers"].to_numpy(dtype=float), frame["nodes"].to_numpy(dtype=float)
        compute = a_c + b_c * frame["batch_size"].to_numpy(dtype=float)
        more = np.maximum(workers - 2, 0)
        sync = np.where(nodes > 1, a_n + b_n * more, a_l + b_l * more) * (workers > 1)
        return compute, (compute ** logs[6] + sync ** logs[6]) ** (1 / logs[6])

    seconds = (observed["workers"] * observed["batch_size"] / observed["throughput"]).to_numpy(dtype=float)
    known = observed["compute_seconds"].to_numpy(dtype=float)

    def residuals(logs: Array) -> Array:
        compute, step = times(logs, observed)
        split = np.where(np.isfinite(known), np.log(compute) - np.log(np.where(np.isfinite(known), known, 1.0)), 0.0)
        # a weak pull towards cheap synchronization, so that what was not seen is taken for free, as Pollux does
        return np.concatenate([np.log(step / seconds), split, 1e-3 * (logs[2:6] - np.log(1e-3 * seconds.mean()))])

    middle = np.log(seconds.mean())
    batch = np.log(observed["batch_size"].mean())
    start = np.array([middle - 1, middle - batch - 0.5, *[middle - 3] * 4, 1.5])
    low = np.array([*[middle - 25 - batch] * 6, 1.0])
    high = np.array([*[middle + 5.0] * 6, 10.0])
    fitted = least_squares(residuals, np.clip(start, low + 1e-6, high - 1e-6), bounds=(low, high), max_nfev=100)
    _, step = times(fitted.x, query)
    return (query["workers"] * query["batch_size"]).to_numpy(dtype=float) / step


def evaluate(frame: pd.DataFrame, sizes: tuple[int, ...], seeds: int, baselines: bool = True) -> pd.DataFrame:
    """Return one row a (method, k, job, seed): mdape (%), coverage and width of 90 % intervals (NaN: gives none)."""
    rows: list[dict[str, object]] = []
    methods: dict[str, Callable[[pd.DataFrame, pd.DataFrame], Array]] = {"ernest": ernest, "pollux": pollux}
    for group, own in frame.groupby("group"):
        model = ThroughputModel().fit(frame[frame["group"] != group])
        for job, table in own.groupby("job"):
            for k in sizes:
                if len(table) <= k:
                    continue
                for seed in range(seeds):
                    order = np.random.default_rng([seed, k, zlib.crc32(str(job).encode())]).permutation(len(table))
                    observed, asked = table.iloc[order[:k]], table.iloc[order[k:]]
                    truth = asked["throughput"].to_numpy(dtype=float)
                    answer = model.predict(observed, asked)
                    lower, upper = answer["lower"].to_numpy(), answer["upper"].to_numpy()
                    found = {"convoy": answer["mean"].to_numpy()}
                    if baselines:
                        found.update({name: method(observed, asked) for name, method in methods.items()})
                    for name, predicted in found.items():
                        ours = name == "convoy"
                        rows.append(
                            {
                                "method": name,
                                "k": k,
                                "job": job,
                                "seed": seed,
                                "mdape": 100 * float(np.median(np.abs(predicted / truth - 1))),
                                "coverage": float(np.mean((lower <= truth) & (truth <= upper))) if ours else np.nan,
                                "width": float(np.median(upper / lower)) if ours else np.nan,
                            }
                        )
    return pd.DataFrame(rows)


def milliseconds_per_recommendation(frame: pd.DataFrame, repeats: int = 10) -> float:
    """Return the median time of one warm prediction of 500 configurations from three observations."""
    model = ThroughputModel().fit(frame)
    observed = frame.iloc[:3].assign(job="new")
    query = pd.DataFrame({"job": "new", "workers": np.arange(1, 501), "nodes": 1.0, "batch_size": 32.0})
    taken = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        model.predict(observed, query)
        taken.append(time.perf_counter() - began)
    return 1000 * float(np.median(taken[1:]))


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
    print(f"one recommendation over 500 configurations: {milliseconds_per_recommendation(frame):.1f} ms")


if __name__ == "__main__":
    main()
