"""How right the simulator is: published mean completion times beside those of the policies re-implemented.

    python benchmarks/bench_simulator.py --data DIR [--policy NAME ...] [--load 1.0 ...] [--noise]

DIR holds ``workloads/`` and ``sia_allreduce/``. The published cluster: 16 nodes of 4 accelerators, a decision every
60 s, 30 s at no speed after each change of placement. The published file has each job's completion time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import pandas as pd

from convoy.brain.simulate import inputs
from convoy.brain.simulate.cluster import Cluster
from convoy.brain.simulate.engine import Settings, simulate
from convoy.brain.simulate.policies import POLICIES
from convoy.brain.simulate.policy import Surroundings

PUBLISHED = {"tiresias": "tiresias", "optimus-oracle": "optimus", "pollux": "pollux"}
"""Ours, and the published file's names."""


def row(policy: str, jobs: pd.DataFrame, data: Path, *, noise: bool) -> dict[str, float]:
    """Return what came out of one workload."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.csv"
        jobs.to_csv(path, index=False)
        asked = inputs.read_jobs(path)
    cluster = Cluster.of([("aws", 16, 4)])
    speeds, efficiency = data / "sia_allreduce/sia_throughput.csv", data / "workloads/statistical_efficiency.csv"
    truth = inputs.read_truth(speeds, efficiency, asked, cluster, noise=noise, seed=0)
    began = time.process_time()
    policy_object = POLICIES[policy](Surroundings(cluster, truth, 30.0, 60.0))
    outcome = simulate(policy, policy_object, asked, cluster, truth, Settings())
    return {
        "ours": sum(job.completion_seconds for job in outcome.jobs) / len(outcome.jobs),
        "restarts": sum(job.restarts for job in outcome.jobs),
        "processor_seconds": time.process_time() - began,
    }


def main() -> None:
    """Print a row a workload, and the mean over workloads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--policy", nargs="+", default=list(PUBLISHED), choices=list(PUBLISHED))
    parser.add_argument("--load", nargs="+", type=float, default=[1.0])
    parser.add_argument("--noise", action="store_true", help="measurements scatter as replicates do")
    given = parser.parse_args()
    jobs = pd.read_csv(given.data / "workloads/pollux_jobs.csv")
    published = pd.read_csv(given.data / "workloads/pollux_published_jct.csv")
    means = published.groupby(["policy", "load", "workload"])["completion_seconds"].mean()
    for policy in given.policy:
        for load in given.load:
            rows = jobs[jobs["requests"].eq("tuned") & jobs["load"].eq(load)]
            found: list[dict[str, float]] = []
            for workload, own in rows.groupby("workload"):
                there = float(means.loc[PUBLISHED[policy], load, workload])
                one = row(policy, own, given.data, noise=given.noise)
                found.append({"load": load, "workload": float(str(workload)), "published": there, **one})
                print(policy, {name: round(value, 1) for name, value in found[-1].items()}, flush=True)
            ratios = [one["ours"] / one["published"] for one in found]
            mean = sum(ratios) / len(ratios)
            print(f"{policy} at load {load:g}: mean ratio {mean:.3f}, {min(ratios):.3f} to {max(ratios):.3f}\n")


if __name__ == "__main__":
    main()
