"""Convoy's policies on a small made-up cluster: programs whose speeds follow a law that neither policy is told."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.brain.simulate.application import Application
from convoy.brain.simulate.batch import Batch
from convoy.brain.simulate.cluster import Cluster
from convoy.brain.simulate.engine import Settings, simulate
from convoy.brain.simulate.policies import POLICIES
from convoy.brain.simulate.policies.convoy import Others, build
from convoy.brain.simulate.policies.convoy.batches import Batches
from convoy.brain.simulate.policies.convoy.kinds import Ratios
from convoy.brain.simulate.policy import Surroundings
from convoy.brain.simulate.speeds import Speeds
from convoy.brain.simulate.truth import Truth
from convoy.brain.simulate.workload import Submission

NODES = 4
FAST = {"slow": 1.0, "fast": 2.0}
PROGRAMS = {"small": (0.01, 0.02), "large": (0.05, 0.01)}
"""Seconds of a sample on the slow kind; of synchronization, for each doubling of replicas."""


def step(program: str, kind: str, nodes: int, replicas: int, local: int) -> tuple[float, float]:
    sample, sync = PROGRAMS[program]
    synchronized = sync * (np.log2(replicas) + (nodes > 1))
    return sample * local / FAST[kind] + synchronized, synchronized


def truth(kinds: list[str]) -> Truth:
    programs = {
        name: Application(
            name, np.array([32.0, 512.0]), np.array([1000.0, 2000.0, 3000.0]), np.full((2, 3), 1.0),
            np.full((2, 3), 4.0), np.tile([1000.0, 2000.0, 3000.0], (2, 1)),
        )
        for name in PROGRAMS
    }  # fmt: skip
    rows = {
        (name, kind): Speeds(
            [
                (None, nodes, replicas, local, *step(name, kind, nodes, replicas, local))
                for nodes, replicas in [(1, 1), (1, 2), (1, 4), *((n, 4 * n) for n in range(2, NODES + 1))]
                for local in (8, 16, 32, 64, 128)
            ],
            512.0,
        )
        for name in PROGRAMS
        for kind in kinds
    }
    return Truth(programs, rows, noise=False)


def history(program: str = "other") -> pd.DataFrame:
    """Return measurements of a program of another speed, on both kinds."""
    return pd.DataFrame(
        [
            {
                "job": f"{program} on {kind}", "model": program, "strategy": "allreduce", "accelerator": kind,
                "workers": float(replicas), "nodes": float(nodes), "batch_size": float(local),
                "throughput": replicas * local / sum(step("small", kind, nodes, replicas, local)[:1]) / 3.0,
            }
            for kind in FAST
            for nodes, replicas in [(1, 1), (1, 2), (1, 4), (2, 8), (4, 16)]
            for local in (16, 64)
        ]
    )  # fmt: skip


def workload(jobs: int = 6) -> list[Submission]:
    programs = list(PROGRAMS)
    return [Submission(f"job-{n}", 40.0 * n, programs[n % 2], 2, 64.0) for n in range(jobs)]


def run(policy: str, kinds: tuple[str, ...] = ("slow",), past: pd.DataFrame | None = None, jobs: int = 6):
    cluster = Cluster.of([(kind, NODES, 4) for kind in kinds])
    known = truth(list(kinds))
    surroundings = Surroundings(cluster, known, 30.0, 60.0, 0, past)
    asked = workload(jobs)
    return simulate(policy, POLICIES[policy](surroundings), asked, cluster, known, Settings(60.0, 30.0))


def mean(outcome) -> float:
    return float(np.mean([job.completed - job.submitted for job in outcome.jobs]))


@pytest.mark.parametrize("policy", ["convoy", "convoy-oracle"])
@pytest.mark.parametrize("kinds", [("slow",), ("slow", "fast")])
def test_all_jobs_complete_sooner_than_as_requested(policy, kinds):
    ours = run(policy, kinds, history())
    assert len(ours.jobs) == 6
    assert mean(ours) < mean(run("requested", kinds))


def test_the_truth_is_no_hindrance():
    assert mean(run("convoy-oracle")) <= 1.05 * mean(run("convoy", past=history()))


def test_without_history_all_jobs_complete():
    assert len(run("convoy", past=None, jobs=4).jobs) == 4


def test_a_program_is_planned_without_its_own_history():
    own = pd.concat([history(), history("S-mall").assign(throughput=1e-3)], ignore_index=True)
    small = list(run("convoy", past=history(), jobs=1).jobs)
    assert list(run("convoy", past=own, jobs=1).jobs) == small


def test_two_runs_are_one():
    first, second = (run("convoy", past=history(), jobs=4) for _ in range(2))
    assert first == second


def test_how_fast_a_kind_is_beside_another_comes_from_other_programs():
    ratios = Ratios(history())
    assert ratios.of("fast", "slow").log == pytest.approx(-ratios.of("slow", "fast").log)
    assert 0.0 < ratios.of("fast", "slow").log < np.log(2.0)
    assert ratios.of("fast", "unheard of").spread == pytest.approx(0.7)
    assert Ratios(pd.DataFrame()).of("fast", "slow").log == 0.0


@given(st.data())
def test_each_size_gets_its_best_batch(data):
    size = data.draw(st.integers(1, 5))
    place = np.sort(np.array(data.draw(st.lists(st.integers(0, size - 1), max_size=12)), dtype=np.int64))
    value = st.sampled_from([np.nan, 0.0, 1.0, 2.0, 3.0])
    goodput = np.array(data.draw(st.lists(value, min_size=len(place), max_size=len(place))), dtype=np.float64)
    rows = np.arange(1.0, len(place) + 1.0)
    tried = Batches(place, rows, np.ones(len(place)), rows)
    best, chosen = tried.best(goodput, size)
    for one in range(size):
        own = [(speed, row) for speed, row, at in zip(goodput, rows, place, strict=True) if at == one and speed > 0]
        assert chosen[one] == (Batch(int(max(own)[1])) if own else None)
        np.testing.assert_equal(best[one], max(own)[0] if own else np.nan)
    np.testing.assert_array_equal(tried.most(np.stack([goodput, 2.0 * goodput]), size), np.stack([best, 2.0 * best]))


def test_runs_share_what_the_history_teaches():
    cluster, known, asked = Cluster.of([("slow", NODES, 4)]), truth(["slow"]), workload(4)
    others = Others(history())
    again = [
        simulate("convoy", build(Surroundings(cluster, known, 30.0, 60.0), others), asked, cluster, known,
                 Settings(60.0, 30.0))
        for _ in range(2)
    ]  # fmt: skip
    assert again[0] == again[1] == run("convoy", past=history(), jobs=4)
