"""Convoy's policies beside published ones on public workloads, in the simulator: completion times in pairs.

    python benchmarks/bench_policies.py --data DIR --results FILE.csv [--setting tuned-1.0 ...] [--policy NAME ...]
        [--workload 1 ...] [--seed 0 ...] [--restart 30 120] [--processes N] [--by workload] [--only-summary]

Every policy meets the same jobs and measurements. The history is the all-reduce data set; ``convoy`` leaves a job's
own model out, under all of its names. Results are kept a job a row in FILE, and runs that are there aren't run again,
so it can be interrupted; ``--only-summary`` runs nothing. ``newtrace-150`` is the first 150 jobs of each workload of
``newtrace``, where all of them would take too long.

The summary is of the runs that are asked for, and of jobs that completed under all of the policies asked for. It
compares with the other policy that has the lowest geometric mean in a setting, and with what users request, and says
the worst job. ``--by workload`` makes one for each workload.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command does, before numpy is imported

import numpy as np
import pandas as pd

from convoy.brain.features.published.throughput import read_published
from convoy.brain.simulate import inputs
from convoy.brain.simulate.cluster import Cluster
from convoy.brain.simulate.engine import Settings, simulate
from convoy.brain.simulate.policies import POLICIES, convoy
from convoy.brain.simulate.policy import Surroundings

HOMOGENEOUS = Cluster.of([("aws", 16, 4)])
MIXED = Cluster.of([("aws", 6, 4), ("azure", 2, 8), ("rtx", 3, 8)])
SETTINGS = ("tuned-1.0", "tuned-1.5", "realistic-1.0", "newtrace")
SHORT = "newtrace-150"
OURS = ("convoy", "convoy-oracle")
KEY = ["setting", "restart", "workload", "seed", "policy"]
RESAMPLES = 2000


@dataclass(frozen=True)
class Run:
    """One simulation."""

    data: Path
    setting: str
    restart: float
    workload: int
    seed: int
    policy: str

    @property
    def key(self) -> tuple[str, float, int, int, str]:
        """Return what it is found by in the results."""
        return self.setting, self.restart, self.workload, self.seed, self.policy


def workload_of(run: Run) -> pd.DataFrame:
    """Return the jobs of a run."""
    if run.setting.startswith("newtrace"):
        jobs = pd.read_csv(run.data / "workloads/sia_newtrace_jobs.csv.gz")
        jobs = jobs.groupby("workload").head(150) if run.setting == SHORT else jobs
    else:
        requests, load = run.setting.split("-")
        jobs = pd.read_csv(run.data / "workloads/pollux_jobs.csv")
        jobs = jobs[jobs["requests"].eq(requests) & jobs["load"].eq(float(load))]
    return jobs[jobs["workload"].eq(run.workload)]


@functools.lru_cache(maxsize=1)
def others(data: Path) -> convoy.Others:
    """Return what the history teaches, learned once a process."""
    return convoy.Others(read_published(data).frames["sia_allreduce"])


def simulated(run: Run) -> pd.DataFrame:
    """Return what became of each job."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.csv"
        workload_of(run).to_csv(path, index=False)
        asked = inputs.read_jobs(path)
    cluster = MIXED if run.setting.startswith("newtrace") else HOMOGENEOUS
    speeds, efficiency = (
        run.data / "sia_allreduce/sia_throughput.csv",
        run.data / "workloads/statistical_efficiency.csv",
    )
    truth = inputs.read_truth(speeds, efficiency, asked, cluster, noise=True, seed=run.seed)
    around = Surroundings(cluster, truth, run.restart, 60.0, run.seed)
    policy = convoy.build(around, others(run.data)) if run.policy == "convoy" else POLICIES[run.policy](around)
    outcome = simulate(run.policy, policy, asked, cluster, truth, Settings(restart_seconds=run.restart))
    rows = [
        (job.job, job.completion_seconds, job.restarts, (job.completed - job.started) / 3600.0)
        for job in outcome.jobs
    ]
    frame = pd.DataFrame(rows, columns=["job", "seconds", "restarts", "hours"])
    return frame.assign(**dict(zip(KEY, run.key, strict=True)))


def runs(given: argparse.Namespace) -> Iterator[Run]:
    """Yield the runs that are asked for."""
    for setting in given.setting:
        there = range(1, 7) if setting.startswith("newtrace") else range(1, 6)
        asked = itertools.product(given.restart, given.workload or there, given.seed, given.policy)
        for restart, workload, seed, policy in asked:
            if workload in there:
                yield Run(given.data, setting, restart, workload, seed, policy)


def summary(results: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return, for each value of ``by``, each of ours beside the best other and beside what is requested."""
    found = []
    for told, rows in results.groupby(by):
        logs = rows.assign(log=np.log(rows["seconds"])).pivot_table(
            index=["workload", "seed", "job"], columns="policy", values="log"
        )
        logs = logs.dropna()
        rates = rows.groupby("policy")["restarts"].sum() / rows.groupby("policy")["hours"].sum()
        others = [name for name in logs.columns if name not in OURS]
        best = min(others, key=lambda name: float(logs[name].mean())) if others else None
        for ours, other in itertools.product(OURS, dict.fromkeys([best, "requested"])):
            if len(logs) and ours in logs.columns and other in logs.columns:
                found.append(
                    {**dict(zip(by, told, strict=True)), "ours": ours, "other": other, "pairs": len(logs),
                     **_paired(logs[ours] - logs[other]), "restarts/h": rates[ours],
                     "pollux's": rates.get("pollux", np.nan)}
                )  # fmt: skip
    return pd.DataFrame(found)


def _paired(logs: pd.Series) -> dict[str, object]:
    """Return the geometric mean of ratios with intervals by bootstrap, over jobs (a job's seeds together) and over
    whole workloads, whose jobs have met each other."""
    by_job = logs.groupby(["workload", "job"]).mean()
    groups = [own.to_numpy() for _, own in by_job.groupby("workload")]
    low, high = _interval([np.array([one]) for one in by_job])
    apart_low, apart_high = _interval(groups) if len(groups) > 1 else (np.nan, np.nan)
    return {
        "ratio": float(np.exp(by_job.mean())),
        "low": low,
        "high": high,
        "low w": apart_low,
        "high w": apart_high,
        "p99": float(np.exp(np.percentile(logs, 99))),
        "worst": float(np.exp(logs.max())),
        "worst job": "/".join(map(str, np.atleast_1d(logs.idxmax()))),
    }


def _interval(groups: list[np.ndarray]) -> tuple[float, float]:
    """Return the 95 % interval of the geometric mean, groups drawn whole."""
    sums, counts = np.array([own.sum() for own in groups]), np.array([len(own) for own in groups])
    drawn = np.random.default_rng(0).integers(len(groups), size=(RESAMPLES, len(groups)))
    low, high = np.exp(np.quantile(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1), [0.025, 0.975]))
    return float(low), float(high)


def asked_for(results: pd.DataFrame, given: argparse.Namespace) -> pd.DataFrame:
    """Return the rows of the runs that are asked for."""
    keys = pd.MultiIndex.from_tuples([run.key for run in runs(given)], names=KEY)
    return results[pd.MultiIndex.from_frame(results[KEY]).isin(keys)]


def main() -> None:
    """Run what isn't there yet, and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--setting", nargs="+", default=list(SETTINGS), choices=(*SETTINGS, SHORT))
    parser.add_argument("--policy", nargs="+", default=list(POLICIES), choices=list(POLICIES))
    parser.add_argument("--workload", nargs="+", type=int, default=[])
    parser.add_argument("--seed", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--restart", nargs="+", type=float, default=[30.0, 120.0])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--only-summary", action="store_true")
    parser.add_argument("--by", nargs="*", default=[], choices=["workload", "seed"])
    given = parser.parse_args()
    known = pd.read_csv(given.results) if given.results.is_file() else pd.DataFrame(columns=KEY)
    done = set(known[KEY].itertuples(index=False, name=None))
    todo = [] if given.only_summary else [run for run in runs(given) if run.key not in done]
    with ProcessPoolExecutor(given.processes) as pool:
        waiting = {pool.submit(simulated, run): run for run in todo}
        for future in as_completed(waiting):
            found, run = future.result(), waiting[future]
            found.to_csv(given.results, mode="a", index=False, header=not given.results.is_file())
            print(*run.key, f"mean {found['seconds'].mean():.0f} s, {found['restarts'].sum()} restarts", flush=True)
    results = asked_for(pd.read_csv(given.results), given)
    print(summary(results, ["setting", "restart", *given.by]).round(3).to_string(index=False))


if __name__ == "__main__":
    main()
