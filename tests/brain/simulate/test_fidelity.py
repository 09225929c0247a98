"""Published completion times come out of the re-implemented policies: the data of the study of Pollux (OSDI 2021)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from convoy.brain.simulate import inputs
from convoy.brain.simulate.cluster import Cluster
from convoy.brain.simulate.engine import Settings, simulate
from convoy.brain.simulate.policies import POLICIES
from convoy.brain.simulate.policy import Surroundings
from support.published_data import folder

LOAD = 1.0
NAMES = {"tiresias": "tiresias", "optimus-oracle": "optimus", "pollux": "pollux"}
"""Ours, and the published file's."""


def mean_completion(policy: str, jobs: Path, data: Path) -> float:
    """Return the mean completion time on the published cluster: 16 nodes of 4, without noise."""
    asked = inputs.read_jobs(jobs)
    cluster = Cluster.of([("aws", 16, 4)])
    speeds, efficiency = data / "sia_allreduce/sia_throughput.csv", data / "workloads/statistical_efficiency.csv"
    truth = inputs.read_truth(speeds, efficiency, asked, cluster, noise=False, seed=0)
    outcome = simulate(
        policy, POLICIES[policy](Surroundings(cluster, truth, 30.0, 60.0)), asked, cluster, truth, Settings()
    )
    return sum(job.completion_seconds for job in outcome.jobs) / len(outcome.jobs)


def errors(policy: str, tmp_path: Path) -> pd.Series:
    """Return ours over the published mean, less 1, by workload; at load 1.0."""
    data = folder(
        "workloads/pollux_jobs.csv", "workloads/pollux_published_jct.csv", "sia_allreduce/sia_throughput.csv"
    )
    published = pd.read_csv(data / "workloads/pollux_published_jct.csv")
    published = published[published["policy"].eq(NAMES[policy]) & published["load"].eq(LOAD)]
    jobs = pd.read_csv(data / "workloads/pollux_jobs.csv")
    jobs = jobs[jobs["requests"].eq("tuned") & jobs["load"].eq(LOAD)]
    found = {}
    for workload, rows in jobs.groupby("workload"):
        rows.to_csv(tmp_path / "jobs.csv", index=False)
        then = published.loc[published["workload"].eq(workload), "completion_seconds"].mean()
        found[workload] = mean_completion(policy, tmp_path / "jobs.csv", data) / then - 1.0
    return pd.Series(found)


def test_tiresias(tmp_path: Path) -> None:
    found = errors("tiresias", tmp_path)
    assert abs(found.mean()) <= 0.05, found
    assert found.abs().max() <= 0.10, found


@pytest.mark.long
@pytest.mark.parametrize("policy", ["optimus-oracle", "pollux"])
def test_elastic_policies(policy: str, tmp_path: Path) -> None:
    found = errors(policy, tmp_path)
    assert abs(found.mean()) <= 0.05, found
    assert found.abs().max() <= 0.10, found
