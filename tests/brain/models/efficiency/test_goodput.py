"""Goodput: speed times what samples are worth, as plans ask for it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from convoy.brain.models import ThroughputModel
from convoy.brain.models.efficiency import EfficiencyModel, GoodputModel, gain

BATCHES = np.array([256.0, 512.0, 2048.0, 16384.0])


def observed(noise: float | None) -> pd.DataFrame:
    """Return a job on 4 workers, steps of 0.1 s and a millisecond a sample of each worker."""
    count = 12
    batch = np.array([256.0, 512.0, 1024.0] * 4)
    return pd.DataFrame(
        {
            "job": "a",
            "workers": 4.0,
            "batch_size": batch / 4,
            "throughput": batch / (0.1 + 0.001 * batch / 4),
            "throughput_sd": 1.0,
            "grad_sqr": 1.0 if noise is not None else np.nan,
            "grad_var": noise if noise is not None else np.nan,
            "observed_at": pd.date_range("2026-03-01", periods=count, freq="5min", tz="UTC"),
            "window_seconds": 300.0,
        }
    )


def asked() -> pd.DataFrame:
    return pd.DataFrame({"job": "a", "workers": 4.0, "batch_size": BATCHES / 4})


def test_goodput_is_speed_times_worth() -> None:
    speed, efficiency = ThroughputModel(), EfficiencyModel()
    seen = observed(10.0)
    said = GoodputModel(speed, efficiency).predict(seen, asked())
    parts = speed.predict(seen, asked())["mean"] * efficiency.predict(seen, asked())["mean"]
    np.testing.assert_allclose(said["mean"], parts)
    assert ((said["lower"] < said["mean"]) & (said["mean"] < said["upper"])).all()
    assert (said["latent_sd"] >= speed.predict(seen, asked())["latent_sd"]).all()
    assert list(said["efficiency_reason"]) == ["InitialBatch", "Observed", "Predicted", "Predicted"]
    assert list(said["reason"]) == list(speed.predict(seen, asked())["reason"])


def test_throughput_asks_for_the_largest_batch_and_goodput_for_the_best() -> None:
    seen = observed(4.0)
    truth = BATCHES / (0.1 + 0.001 * BATCHES / 4) * gain(BATCHES / 256, 1.0, 4.0) / (BATCHES / 256)
    model = GoodputModel(ThroughputModel(), EfficiencyModel())
    assert int(np.argmax(model.speed.predict(seen, asked())["mean"])) == 3
    assert int(np.argmax(model.predict(seen, asked())["mean"])) == int(np.argmax(truth))
    assert int(np.argmax(truth)) < 3


def test_draws_are_of_both() -> None:
    seen = observed(10.0)
    model = GoodputModel(ThroughputModel(), EfficiencyModel())
    draws, said = model.sample(seen, asked(), 2000, seed=3), model.predict(seen, asked())
    assert draws.shape == (2000, 4)
    np.testing.assert_allclose(np.median(draws, axis=0), said["mean"], rtol=0.1)
    within = ((draws >= said["lower"].to_numpy()) & (draws <= said["upper"].to_numpy())).mean(axis=0)
    assert (within > 0.85).all()
    np.testing.assert_array_equal(draws, model.sample(seen, asked(), 2000, seed=3))


def test_without_statistics_it_is_throughput_and_says_so() -> None:
    seen = observed(None)
    said = GoodputModel(ThroughputModel(), EfficiencyModel()).predict(seen, asked())
    speed = ThroughputModel().predict(seen, asked())
    np.testing.assert_allclose(said[["mean", "lower", "upper"]], speed[["mean", "lower", "upper"]])
    assert (said["efficiency"] == 1.0).all()
    assert (said["efficiency_reason"] == "NotReported").all()
    draws = GoodputModel(ThroughputModel(), EfficiencyModel()).sample(seen, asked(), 5, seed=0)
    np.testing.assert_array_equal(draws, ThroughputModel().sample(seen, asked(), 5, seed=0))


def test_rows_of_one_job_have_one_unit() -> None:
    """A question without a batch has no worth; were the others' counted, they couldn't be compared with it."""
    asks = pd.concat([asked().assign(batch_size=[64.0, np.nan, 128.0, 256.0]), asked().assign(job="b")])
    seen = pd.concat([observed(10.0), observed(10.0).assign(job="b")])
    said = GoodputModel(ThroughputModel(), EfficiencyModel()).predict(seen, asks)
    assert (said["efficiency"].iloc[:4] == 1.0).all()
    assert (said["efficiency"].iloc[5:] < 1.0).all()
