"""What samples are worth at other batches: made readings, bad ones, undefined answers, model files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convoy.brain.models.efficiency import EfficiencyModel, gain
from convoy.brain.models.efficiency.drift import Drift
from convoy.brain.models.efficiency.readings import readings_of
from convoy.core.api.errors import InvalidInput

BEGAN = pd.Timestamp("2026-03-01", tz="UTC")


def rows(sqr: list[float], var: list[float], job: str = "a", batch: float = 64.0) -> pd.DataFrame:
    count = len(sqr)
    return pd.DataFrame(
        {
            "job": job,
            "workers": 2.0,
            "batch_size": batch / 2,
            "grad_sqr": sqr,
            "grad_var": var,
            "observed_at": [BEGAN + pd.Timedelta(minutes=5 * (place + 1)) for place in range(count)],
            "window_seconds": 300.0,
        }
    )


def asked(*batches: float, job: str = "a") -> pd.DataFrame:
    return pd.DataFrame({"job": job, "workers": 4.0, "batch_size": np.array(batches) / 4})


def made(seed: int, ratio: float, count: int = 40, spread: float = 0.3) -> pd.DataFrame:
    """Return readings of a job whose noise scale stays the same."""
    noise = np.exp(spread * np.random.default_rng(seed).standard_normal(count))
    return rows([1.0] * count, list(ratio * noise))


def test_steady_noise_gives_the_gain_of_its_scale() -> None:
    said = EfficiencyModel().predict(made(0, 20.0), asked(64, 128, 512, 4096))
    truth = gain([1, 2, 8, 64], 1.0, 20.0) / np.array([1, 2, 8, 64])
    np.testing.assert_allclose(said["mean"], truth, rtol=0.15)
    assert ((said["lower"] <= truth) & (truth <= said["upper"])).all()
    assert list(said["reason"]) == ["InitialBatch", "Predicted", "Predicted", "Predicted"]
    assert (said[["mean", "lower", "upper"]].iloc[0] == 1.0).all()


def test_a_reading_far_off_moves_little() -> None:
    clean = made(1, 20.0)
    spoilt = clean.copy()
    spoilt.loc[[7, 30], "grad_var"] *= 1e6
    before, after = (EfficiencyModel().predict(seen, asked(512))["mean"].iloc[0] for seen in (clean, spoilt))
    assert abs(after / before - 1) < 0.1


def test_norms_that_come_out_negative_are_counted_not_left_out() -> None:
    """Half of the unbiased estimates of a small norm are negative: leaving them out would make noise look small."""
    generator = np.random.default_rng(2)
    sqr = 1.0 + 3.0 * generator.standard_normal(400)
    said = EfficiencyModel().predict(rows(list(sqr), [50.0] * 400), asked(64 * 32))
    truth = gain(32, 1.0, 50.0) / 32
    kept = gain(32, sqr[sqr > 0].mean(), 50.0) / 32
    assert abs(np.log(said["mean"].iloc[0] / truth)) < 0.5 * abs(np.log(kept / truth))


def test_the_batch_at_whose_scale_variance_stands_may_be_told() -> None:
    """A job that asked for 64 at first and runs at 256 says so; without that, 256 counts as its first."""
    seen = rows([1.0] * 30, [20.0] * 30, batch=256.0)
    told = EfficiencyModel().predict(seen.assign(initial_batch=64.0), asked(64, 256, 1024))
    np.testing.assert_allclose(told["mean"], gain([1, 4, 16], 1.0, 20.0) / np.array([1, 4, 16]), rtol=0.1)
    assert list(told["reason"]) == ["InitialBatch", "Observed", "Predicted"]
    assert EfficiencyModel().predict(seen, asked(256))["reason"].iloc[0] == "InitialBatch"


def test_later_is_less_certain() -> None:
    seen = made(3, 20.0)
    soon, late = (
        EfficiencyModel().predict(seen, asked(1024).assign(observed_at=BEGAN + pd.Timedelta(hours=hours))).iloc[0]
        for hours in (3.5, 350.0)
    )
    assert late["upper"] / late["lower"] > 1.2 * soon["upper"] / soon["lower"]


def test_draws_agree_with_the_prediction_and_stand_together() -> None:
    model, seen = EfficiencyModel(), made(4, 5.0)
    draws = model.sample(seen, asked(64, 512, 1024), 4000, seed=1)
    said = model.predict(seen, asked(64, 512, 1024))
    assert (draws[:, 0] == 1.0).all()
    np.testing.assert_allclose(np.median(np.log(draws), axis=0), np.log(said["mean"]), atol=0.05)
    assert np.corrcoef(draws[:, 1], draws[:, 2])[0, 1] > 0.8
    np.testing.assert_array_equal(draws, model.sample(seen, asked(64, 512, 1024), 4000, seed=1))


def test_learns_how_noise_drifts() -> None:
    generator = np.random.default_rng(5)
    jobs = []
    for place in range(8):
        age = np.log(np.arange(1, 41))
        noise = 2.0 + 1.5 * age + 0.05 * generator.standard_normal(40)
        jobs.append(rows([1.0] * 40, list(np.exp(noise)), job=f"past-{place}"))
    model = EfficiencyModel().fit(pd.concat(jobs))
    assert model.history_jobs == 8
    assert model.drift_.slope == pytest.approx(1.5, abs=0.1)
    assert np.exp(model.drift_.reading_sd) < 0.15
    ten = jobs[0].iloc[:10].assign(job="a")
    later = asked(64 * 64).assign(observed_at=BEGAN + pd.Timedelta(minutes=200))
    truth = gain(64, 1.0, np.exp(2.0 + 1.5 * np.log(40))) / 64
    taught, untaught = (
        abs(np.log(m.predict(ten, later)["mean"].iloc[0] / truth)) for m in (model, EfficiencyModel())
    )
    assert taught < untaught


def test_a_history_without_statistics_teaches_nothing() -> None:
    history = rows([1.0], [1.0]).drop(columns=["grad_sqr", "grad_var"])
    assert EfficiencyModel().fit(history).drift_ == Drift()
    assert EfficiencyModel().fit(pd.DataFrame()).history_jobs == 0


@pytest.mark.parametrize(
    ("observed", "reason"),
    [
        (pd.DataFrame(), "NotReported"),
        (rows([np.nan] * 3, [1.0] * 3), "NotReported"),
        (rows([1.0] * 3, [0.0, -1.0, np.inf]), "NotReported"),
        (rows([1.0], [1.0], job="other"), "NotReported"),
        (rows([0.0, -1.0], [1.0, 1.0]), "OnlyNoise"),
        (rows([1.0], [1.0]).drop(columns="batch_size"), "BatchUnknown"),
        (rows([1.0], [1.0], batch=0.0), "BatchUnknown"),
    ],
)
def test_undefined_has_a_reason(observed: pd.DataFrame, reason: str) -> None:
    said = EfficiencyModel().predict(observed, asked(128, 256))
    assert list(said["reason"]) == [reason, reason]
    assert said[["mean", "lower", "upper", "latent_sd"]].isna().all(axis=None)
    assert np.isnan(EfficiencyModel().sample(observed, asked(128, 256), 3, seed=0)).all()


def test_a_question_without_a_batch_is_undefined_alone() -> None:
    said = EfficiencyModel().predict(made(6, 5.0), asked(128, np.nan, 0, 256))
    assert list(said["reason"]) == ["Predicted", "BatchUnknown", "BatchUnknown", "Predicted"]


def test_a_level_out_of_range_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"level is 1\.5: expected a probability"):
        EfficiencyModel().predict(made(6, 5.0), asked(128), level=1.5)


def test_a_restored_model_predicts_the_same() -> None:
    model = EfficiencyModel().fit(pd.concat([made(seed, 9.0).assign(job=f"p{seed}") for seed in range(3)]))
    again = EfficiencyModel.restored(model.state())
    pd.testing.assert_frame_equal(again.predict(made(7, 5.0), asked(256)), model.predict(made(7, 5.0), asked(256)))


NUMBERS = st.one_of(st.floats(), st.sampled_from([0.0, -1.0, 1e-300, 1e300, np.nan, np.inf]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.floats(-1, 1e9)), max_size=12), st.lists(NUMBERS, max_size=4))
def test_whatever_is_reported_answers_are_sound_or_say_why(
    reported: list[tuple[float, float, float]], batches: list[float]
) -> None:
    observed = rows([r[0] for r in reported], [r[1] for r in reported]).assign(batch_size=[r[2] for r in reported])
    said = EfficiencyModel().predict(observed, asked(*batches) if batches else asked(128).iloc[:0])
    defined = said["reason"].isin(["InitialBatch", "Observed", "Predicted"])
    numbers = said[["mean", "lower", "upper", "latent_sd"]]
    assert np.isfinite(numbers[defined]).all(axis=None)
    assert numbers[~defined].isna().all(axis=None)
    known = said[defined]
    assert ((known["lower"] > 0) & (known["lower"] <= known["mean"]) & (known["mean"] <= known["upper"])).all()


def test_many_readings_are_thinned_over_age() -> None:
    found = readings_of(made(8, 5.0, count=100_000))
    assert 32 <= len(found) <= 64
    assert found.age[0] < 6.0
    assert found.age[-1] == pytest.approx(np.log(100_000))
