"""What every baseline keeps of the throughput model's interface."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convoy.brain.models.baselines import BASELINES, Baseline
from convoy.core.api.errors import InvalidInput
from support.made_measurements import MODELS, dl2_rows

NAMES = sorted(BASELINES)
OF_SERVERS = {"optimus", "dlrover-rm"}


def frame_for(name: str) -> pd.DataFrame:
    """Return measured jobs that the method has a form for."""
    raw = dl2_rows().iloc[1:]
    frame = pd.DataFrame(
        {
            "job": raw["model"],
            "workers": raw["workers"].astype(float),
            "ps": raw["ps"].astype(float),
            "batch_size": raw["global_batch"] / raw["workers"],
            "strategy": "ps",
            "throughput": raw["samples_per_s"],
        }
    )
    if name == "pollux":
        frame = frame[frame["ps"] == 3].assign(strategy="allreduce", ps=np.nan)
    return frame.reset_index(drop=True)


def made(name: str, frame: pd.DataFrame) -> Baseline:
    return BASELINES[name]().fit(frame)


@pytest.mark.parametrize("name", NAMES)
def test_answers_keep_index_and_order(name: str) -> None:
    frame = frame_for(name)
    own = frame[frame["job"] == "wlm"]
    asked = own.iloc[::-1].drop(columns="throughput")
    found = made(name, frame).predict(own.iloc[[1, 3, 5, 6]], asked)
    assert list(found.columns) == ["mean", "lower", "upper", "latent_sd", "reason"]
    assert found.index.equals(asked.index)
    assert np.isfinite(found[["mean", "lower", "upper", "latent_sd"]]).all(axis=None)
    assert (found["lower"] > 0).all()
    assert (found["lower"] <= found["mean"]).all()
    assert (found["mean"] <= found["upper"]).all()
    wide = made(name, frame).predict(own.iloc[[1, 3, 5, 6]], asked, level=0.99)
    assert (wide["upper"] >= found["upper"]).all()


@pytest.mark.parametrize("name", NAMES)
def test_history_of_the_same_job_is_ignored(name: str) -> None:
    frame = frame_for(name)
    own, others = frame[frame["job"] == "wlm"], frame[frame["job"] != "wlm"]
    lied = own.assign(throughput=own["throughput"] ** 2)
    alone = made(name, others).predict(own.iloc[:4], own)
    both = made(name, pd.concat([others, lied])).predict(own.iloc[:4], own)
    pd.testing.assert_frame_equal(both, alone)


@pytest.mark.parametrize("name", NAMES)
def test_restored_from_its_state_bit_for_bit(name: str) -> None:
    frame = frame_for(name)
    own = frame[frame["job"] == "wlm"]
    model = made(name, frame[frame["job"] != "wlm"])
    state = model.state()
    again = type(model).restored(state)
    pd.testing.assert_frame_equal(
        again.predict(own.iloc[:3], own), model.predict(own.iloc[:3], own), check_exact=True
    )
    assert all(tensor.dtype != object for tensor in state.tensors.values())
    assert again.history_jobs == model.history_jobs


@pytest.mark.parametrize("name", NAMES)
def test_undefined_has_a_reason(name: str) -> None:
    frame = frame_for(name)
    own = frame[frame["job"] == "wlm"]
    asked = own.iloc[:3].assign(workers=[1.0, 0.0, np.nan])
    found = made(name, frame).predict(own.iloc[3:], asked)
    assert list(found["reason"]) == ["Fitted", "InvalidConfiguration", "InvalidConfiguration"]
    assert found.loc[found["reason"] != "Fitted", ["mean", "lower", "upper", "latent_sd"]].isna().all(axis=None)
    foreign = made(name, frame).predict(own, asked.iloc[:1].assign(strategy="pipeline"))
    assert foreign["reason"].item() == "StrategyNotModelled"
    if name in OF_SERVERS:
        one = made(name, frame).predict(own.iloc[:1], own)
        assert (one["reason"] == "TooFewObservations").all()
    nothing = made(name, frame.iloc[:0]).predict(own.iloc[:0], own.iloc[:1])
    assert nothing["reason"].item() in ("TooFewObservations", "NothingKnown")


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25)
@given(speeds=st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=4, max_size=4))
def test_any_speeds(name: str, speeds: list[float]) -> None:
    frame = frame_for(name)
    own = frame[frame["job"] == "wlm"]
    found = made(name, frame.iloc[:0]).predict(own.iloc[:4].assign(throughput=speeds), own)
    known = found["mean"].notna()
    assert np.isfinite(found.loc[known, ["mean", "lower", "upper"]]).all(axis=None)
    assert (found.loc[~known, "reason"] != "Fitted").all()


@pytest.mark.parametrize("name", NAMES)
def test_several_jobs_in_one_frame_are_answered_apart(name: str) -> None:
    frame = frame_for(name)
    seen = frame.groupby("job").head(5)
    together = made(name, frame.iloc[:0]).predict(seen, frame)
    for job in MODELS:
        alone = made(name, frame.iloc[:0]).predict(seen[seen["job"] == job], frame[frame["job"] == job])
        assert together.loc[alone.index, "mean"].to_numpy() == pytest.approx(alone["mean"].to_numpy(), nan_ok=True)


@pytest.mark.parametrize("name", NAMES)
def test_draws_spread_as_the_answer_says(name: str) -> None:
    frame = frame_for(name)
    own = frame[frame["job"] == "wlm"]
    model = made(name, frame[frame["job"] != "wlm"])
    drawn = model.sample(own.iloc[:6], own, draws=4000, seed=3)
    assert drawn.shape == (4000, len(own))
    answer = model.predict(own.iloc[:6], own)
    within = ((drawn >= answer["lower"].to_numpy()) & (drawn <= answer["upper"].to_numpy())).mean()
    assert within == pytest.approx(0.9, abs=0.01)
    assert np.array_equal(drawn, model.sample(own.iloc[:6], own, draws=4000, seed=3))


@pytest.mark.parametrize("name", NAMES)
def test_a_hundred_thousand_observations(name: str) -> None:
    frame = frame_for(name)
    own = frame[frame["job"] == "wlm"]
    many = pd.concat([own] * (100_000 // len(own) + 1), ignore_index=True)
    found = made(name, frame.iloc[:0]).predict(many, own)
    assert found["mean"].notna().all()


def test_a_level_that_is_no_probability() -> None:
    frame = frame_for("ernest")
    with pytest.raises(InvalidInput, match="level is 90"):
        made("ernest", frame).predict(frame, frame, level=90)
