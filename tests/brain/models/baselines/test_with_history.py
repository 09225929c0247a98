"""Baselines that use a history: matrix factorization, nearest neighbour, Gaussian process."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from convoy.brain.models.baselines import GaussianProcess, MatrixFactorization, NearestLoad, NearestNeighbour

GRID = [(float(w), float(p)) for w in range(1, 9) for p in range(1, 5)]


def mixed_job(name: str, level: float, mix: float) -> pd.DataFrame:
    """Return a job whose log speed is a level, a common shape, and so much of one factor."""
    w, p = np.log(np.array(GRID)).T
    log_speed = level + 0.6 * w - 0.2 * w**2 + 0.3 * p + mix * (0.4 * w - 0.2 * p)
    frame = pd.DataFrame(GRID, columns=["workers", "ps"])
    batch = 64.0 / frame["workers"]
    return frame.assign(job=name, strategy="ps", mode="sync", batch_size=batch, throughput=np.exp(log_speed))


def history() -> pd.DataFrame:
    mixes = [-1.5, -0.5, 0.3, 1.0, 1.8]
    return pd.concat([mixed_job(f"h{i}", float(i), mix) for i, mix in enumerate(mixes)], ignore_index=True)


def test_matrix_factorization_finds_the_mix() -> None:
    truth = mixed_job("new", 7.0, 1.4)
    model = MatrixFactorization().fit(history())
    found = model.predict(truth.iloc[[0, 12, 31]], truth)
    assert np.abs(found["mean"] / truth["throughput"] - 1).max() < 0.05


def test_matrix_factorization_ranks_without_a_row_of_the_job() -> None:
    truth = mixed_job("new", 7.0, 0.2)
    found = MatrixFactorization().fit(history()).predict(truth.iloc[:0], truth)
    order = found["mean"].corr(truth["throughput"], method="spearman")
    assert order > 0.95


def test_matrix_factorization_fills_gaps() -> None:
    whole = history()
    generator = np.random.default_rng(1)
    sparse = whole[generator.random(len(whole)) < 0.5]
    truth = mixed_job("new", -3.0, -1.0)
    found = MatrixFactorization().fit(sparse).predict(truth.iloc[[2, 9, 29]], truth)
    assert np.median(np.abs(found["mean"] / truth["throughput"] - 1)) < 0.05


def test_matrix_factorization_leaves_other_strategies_out() -> None:
    truth = mixed_job("new", 7.0, 1.4)
    other = history().assign(strategy="allreduce", throughput=1.0)
    other["job"] = other["job"] + " all-reduce"
    both = MatrixFactorization().fit(pd.concat([history(), other])).predict(truth.iloc[:2], truth)
    alone = MatrixFactorization().fit(history()).predict(truth.iloc[:2], truth)
    assert both["mean"].to_numpy() == pytest.approx(alone["mean"].to_numpy())


def test_nearest_neighbour_takes_the_nearest_in_logarithms() -> None:
    seen = pd.DataFrame({"workers": [1.0, 8.0], "throughput": [10.0, 50.0]})
    asked = pd.DataFrame({"workers": [1.0, 2.0, 4.0, 16.0]})
    found = NearestNeighbour().fit(seen.iloc[:0]).predict(seen, asked)["mean"]
    assert found.to_numpy() == pytest.approx([10.0, 10.0, 50.0, 50.0])


def test_gaussian_process_goes_through_what_it_saw_and_is_surer_there() -> None:
    truth = mixed_job("new", 7.0, 0.4)
    seen = truth.iloc[[0, 5, 11, 19, 26, 31]]
    found = GaussianProcess().fit(history()).predict(seen, truth)
    assert found.loc[seen.index, "mean"].to_numpy() == pytest.approx(seen["throughput"].to_numpy(), rel=0.05)
    assert np.median(np.abs(found["mean"] / truth["throughput"] - 1)) < 0.1
    assert found.loc[seen.index, "latent_sd"].max() < found["latent_sd"].max()


def test_load_of_the_nearest_configuration_never_above_the_allotment() -> None:
    seen = pd.DataFrame(
        {"job": "a", "workers": [1.0, 8.0], "worker_cpu_used": [1.9, 0.4], "ps_cpu_used": [0.5, np.nan],
         "worker_cpu": 2.0, "throughput": 1.0}
    )  # fmt: skip
    asked = pd.DataFrame({"job": "a", "workers": [1.0, 6.0, 1.0], "worker_cpu": [2.0, 2.0, 1.0], "ps_cpu": 4.0})
    found = NearestLoad().fit(seen).predict(seen, asked)
    assert found["worker_cpu_mean"].to_numpy() == pytest.approx([1.9, 0.4, 1.0])
    assert found["worker_cpu_upper"].to_numpy() == pytest.approx([2.0, 0.6, 1.0])
    assert found["ps_cpu_mean"].to_numpy() == pytest.approx([0.5, 0.5, 0.5])
    assert found["ps_memory_mean"].isna().all()
    stranger = NearestLoad().fit(seen).predict(seen, asked.assign(job="b"))
    assert (stranger["reason"] == "NoReading").all()
