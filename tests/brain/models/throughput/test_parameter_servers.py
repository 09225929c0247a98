"""On simulated truth, written apart from the model's physics: servers, cores, drift, kinds without history."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from convoy.brain.models import ThroughputModel
from support.simulated_jobs import simulated_history

GRID = [(ps, workers) for ps in (1, 2, 4, 6, 8) for workers in (1, 2, 4, 6, 8)]


def served_job(name: str, generator: np.random.Generator, cpus: tuple[float, ...] = (4.0,)) -> pd.DataFrame:
    """A synchronous job with a fixed global batch; a worker computes on up to ``wants`` cores."""
    work, push, apply, wait = np.array([2.0, 0.15, 0.6, 0.02]) * np.exp(0.4 * generator.standard_normal(4))
    wants = 3.0 * np.exp(0.3 * generator.standard_normal())
    rows = []
    for ps, workers in GRID:
        for cpu in cpus:
            compute = (0.2 * work + work / workers) * max(1.0, wants / cpu)
            seconds = compute + (push * workers + apply) / ps + wait * workers
            speed = 128.0 / seconds * np.exp(0.03 * generator.standard_normal())
            used = min(wants, cpu) * compute / seconds
            rows.append((ps, workers, cpu, 128.0 / workers, speed, used))
    names = ["ps", "workers", "worker_cpu", "batch_size", "throughput", "worker_cpu_used"]
    return pd.DataFrame(rows, columns=names).assign(job=name, strategy="ps", mode="sync", window_seconds=60.0)


@pytest.fixture(scope="module")
def jobs() -> pd.DataFrame:
    generator = np.random.default_rng(7)
    return pd.concat([served_job(f"job-{number}", generator) for number in range(16)], ignore_index=True)


@pytest.fixture(scope="module")
def model(jobs: pd.DataFrame) -> ThroughputModel:
    return ThroughputModel().fit(jobs)


def questions(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.drop(columns=["throughput", "worker_cpu_used"])


def test_servers_are_predicted_from_three_observations_with_honest_intervals(jobs: pd.DataFrame) -> None:
    model = ThroughputModel().fit(jobs[jobs["job"].isin([f"job-{number}" for number in range(8)])])
    errors, held = [], []
    for number in range(8, 16):
        own = jobs[jobs["job"] == f"job-{number}"]
        seen = own.iloc[[0, 12, 18]]
        rest = own.drop(seen.index)
        answer = model.predict(seen, questions(rest))
        errors.append((answer["mean"] / rest["throughput"] - 1).abs().median())
        held.append(answer["lower"].le(rest["throughput"]).mul(answer["upper"].ge(rest["throughput"])).mean())
    assert np.mean(errors) < 0.08
    assert np.mean(held) > 0.75


def test_more_workers_are_known_to_slow_a_job_whose_servers_are_the_limit(model: ThroughputModel) -> None:
    slow = served_job("mine", np.random.default_rng(3))
    slow["throughput"] = 128.0 / (0.1 + 2.0 * slow["workers"] / slow["ps"])
    seen = slow[(slow["ps"] == 1) & slow["workers"].isin([1, 4])].drop(columns="worker_cpu_used")
    answer = model.predict(seen, questions(slow)).assign(ps=slow["ps"], workers=slow["workers"])
    by_servers = answer[answer["workers"] == 4].sort_values("ps")["mean"]
    assert by_servers.is_monotonic_increasing
    assert answer["mean"].idxmax() in slow.index[slow["ps"] == 8]


def test_history_teaches_what_cores_are_worth() -> None:
    generator = np.random.default_rng(11)
    history = pd.concat([served_job(f"past-{n}", generator, (1.0, 2.0, 4.0, 8.0)) for n in range(10)])
    own = served_job("mine", generator, (1.0, 2.0, 4.0, 8.0))
    same = own[(own["ps"] == 4) & (own["workers"] == 2)]
    answer = ThroughputModel().fit(history).predict(same[same["worker_cpu"] == 1.0], questions(same))
    truth = same["throughput"].to_numpy()
    gain = answer["mean"].to_numpy() / answer["mean"].iloc[0]
    assert gain == pytest.approx(truth / truth[0], rel=0.3)
    assert gain[1] > 1.4  # twice the cores pay where they are short
    assert gain[3] < 1.25 * gain[2]  # and not where they are idle


def test_what_was_measured_lately_counts_most(model: ThroughputModel) -> None:
    rows = pd.DataFrame({"job": "mine", "strategy": "ps", "mode": "sync", "ps": 2, "workers": 2, "batch_size": 64.0,
                         "window_seconds": 60.0, "throughput": [100.0] * 6 + [60.0] * 6})  # fmt: skip
    rows["observed_at"] = pd.to_datetime(["2026-01-01"] * 6 + ["2026-03-01"] * 6, utc=True)
    lately = model.predict(rows, rows.iloc[:1].drop(columns="throughput"))["mean"].iloc[0]
    assert lately == pytest.approx(60.0, rel=0.1)


def test_a_kind_without_history_is_answered_from_the_likest_or_called_unknown(model: ThroughputModel) -> None:
    query = pd.DataFrame({"job": "mine", "ps": 2.0, "workers": [2.0, 4.0], "strategy": "ps"})
    seen = query.iloc[:1].assign(throughput=50.0)
    asynchronous = model.predict(seen.assign(mode="async"), query.assign(mode="async"))
    unknown_batch = model.predict(seen, query)
    for answer in (asynchronous, unknown_batch):
        assert answer["reason"].tolist() == ["Observed", "Extrapolated"]
        assert answer["mean"].iloc[0] == pytest.approx(50.0, rel=0.1)
    ring = model.predict(pd.DataFrame(), query.assign(strategy="allreduce"))
    assert set(ring["reason"]) == {"NothingKnown"}


def test_jobs_of_other_kinds_beside_them_change_no_answer(jobs: pd.DataFrame) -> None:
    """Which history is relevant needn't be told where a job's own rows say what kind it is."""
    some, other = jobs[jobs["job"].isin(["job-0", "job-1"])], jobs[jobs["job"] == "job-2"]
    foreign = [other.assign(mode="async"), simulated_history(1, seed=3, prefix="ring")]
    own = jobs[jobs["job"] == "job-9"]
    alone, beside = (
        ThroughputModel().fit(history).predict(own.iloc[[0, 12]], questions(own))
        for history in (some, pd.concat([*foreign, some], ignore_index=True))
    )
    pd.testing.assert_frame_equal(alone, beside, check_exact=True)


def test_a_job_that_changes_its_strategy_is_still_answered(jobs: pd.DataFrame, model: ThroughputModel) -> None:
    own = jobs[jobs["job"] == "job-0"]
    query = pd.DataFrame({"job": "job-0", "strategy": "allreduce", "workers": [1.0, 4.0], "batch_size": 32.0})
    answer = model.predict(own, query)
    assert np.isfinite(answer[["mean", "lower", "upper"]].to_numpy()).all()
    assert answer["upper"].iloc[1] / answer["lower"].iloc[1] > 2  # nothing says what all-reduce costs it


def test_servers_that_arent_there_make_no_configuration(model: ThroughputModel) -> None:
    query = pd.DataFrame({"job": "mine", "strategy": "ps", "mode": ["sync", "sync", "lazy"], "ps": [0, np.nan, 1]})
    answer = model.predict(pd.DataFrame(), query.assign(workers=1))
    assert answer["reason"].tolist() == ["InvalidConfiguration", "InvalidConfiguration", "StrategyNotModelled"]
    assert answer["mean"].isna().all()


def test_a_model_comes_back_from_its_state_bit_for_bit(jobs: pd.DataFrame, model: ThroughputModel) -> None:
    again = ThroughputModel.restored(model.state())
    own = jobs[jobs["job"] == "job-1"]
    for seen in (own.iloc[:2], own.iloc[:0]):
        pd.testing.assert_frame_equal(again.predict(seen, own), model.predict(seen, own), check_exact=True)
