from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convoy.brain.models import ThroughputModel
from convoy.core.api.errors import InvalidInput
from support.simulated_jobs import simulated_history

SMALL = ThroughputModel().fit(simulated_history(3, seed=5))
UNTAUGHT = ThroughputModel().fit(pd.DataFrame())
NUMBERS = ["mean", "lower", "upper", "latent_sd"]


@pytest.fixture(scope="module")
def learned() -> ThroughputModel:
    return ThroughputModel().fit(simulated_history(8, seed=1))


def questions(*workers: float, batch: float = 32.0) -> pd.DataFrame:
    return pd.DataFrame({"job": "mine", "workers": list(workers), "nodes": 1.0, "batch_size": batch})


def seen(**columns: object) -> pd.DataFrame:
    return pd.DataFrame({"job": "mine", "nodes": 1.0, "batch_size": 32.0, **columns})


def check_defined(answer: pd.DataFrame) -> None:
    assert np.isfinite(answer[NUMBERS].to_numpy(dtype=float)).all()
    assert (answer["lower"] > 0).all()
    assert (answer["lower"] <= answer["mean"]).all()
    assert (answer["mean"] <= answer["upper"]).all()
    assert (answer["reason"] != "").all()


def test_nothing_known_is_undefined_with_its_reason() -> None:
    answer = ThroughputModel().fit(pd.DataFrame()).predict(pd.DataFrame(), questions(1, 2))
    assert answer[NUMBERS].isna().all(axis=None)
    assert set(answer["reason"]) == {"NothingKnown"}


def test_what_isnt_a_configuration_is_undefined_and_spoils_nothing_else(learned: ThroughputModel) -> None:
    query = questions(2, 0, -1, np.nan, np.inf, 4)
    query["strategy"] = ["allreduce"] * 5 + ["ring"]
    answer = learned.predict(seen(workers=[1], throughput=[100.0]), query)
    assert list(answer["reason"][1:]) == ["InvalidConfiguration"] * 4 + ["StrategyNotModelled"]
    assert answer[NUMBERS].iloc[1:].isna().all(axis=None)
    alone = learned.predict(seen(workers=[1], throughput=[100.0]), questions(2))
    assert answer.iloc[0]["mean"] == alone.iloc[0]["mean"]
    check_defined(answer.iloc[:1])


def test_an_empty_question_gets_an_empty_answer(learned: ThroughputModel) -> None:
    assert list(learned.predict(pd.DataFrame(), questions()).columns) == [*NUMBERS, "reason"]
    assert learned.sample(pd.DataFrame(), questions(), 5, seed=0).shape == (5, 0)


def test_the_answer_has_the_questions_index_and_several_jobs_stand_in_one_frame(learned: ThroughputModel) -> None:
    observed = pd.DataFrame(
        {"job": ["a", "b"], "workers": 1, "nodes": 1, "batch_size": 32, "throughput": [100.0, 900.0]}
    )
    query = observed.iloc[[1, 0, 1]].drop(columns="throughput").set_axis([7, 3, 5]).assign(workers=[1, 1, 2])
    answer = learned.predict(observed, query)
    assert list(answer.index) == [7, 3, 5]
    assert answer.loc[7, "mean"] == pytest.approx(900, rel=0.1)
    assert answer.loc[3, "mean"] == pytest.approx(100, rel=0.1)


@pytest.mark.parametrize("status", ["failed", "oom", "warming"])
def test_rows_of_another_status_teach_nothing(learned: ThroughputModel, status: str) -> None:
    good = seen(workers=[1], throughput=[100.0], status=["ok"])
    bad = seen(workers=[1, 2], throughput=[3.0, 4.0], status=[status] * 2)
    both = learned.predict(pd.concat([good, bad], ignore_index=True), questions(1, 2))
    pd.testing.assert_frame_equal(both, learned.predict(good, questions(1, 2)))


@pytest.mark.parametrize("value", [0.0, -5.0, np.nan, np.inf])
def test_speeds_that_cant_be_leave_the_job_unobserved(learned: ThroughputModel, value: float) -> None:
    answer = learned.predict(seen(workers=[1], throughput=[value]), questions(1, 2))
    assert set(answer["reason"]) == {"HistoryOnly"}
    check_defined(answer)


def test_constant_speeds_at_every_size_say_that_workers_dont_help(learned: ThroughputModel) -> None:
    answer = learned.predict(seen(workers=[1, 2, 3, 4], throughput=[100.0] * 4), questions(1, 2, 3, 4))
    check_defined(answer)
    assert answer["mean"].to_numpy() == pytest.approx([100] * 4, rel=0.15)


def test_one_stray_measurement_among_many_changes_little(learned: ThroughputModel) -> None:
    good = seen(workers=[1] * 9, throughput=[100.0, 101, 99, 100, 102, 98, 100, 101, 99])
    stray = pd.concat([good, seen(workers=[1], throughput=[5.0])], ignore_index=True)
    before = learned.predict(good, questions(2))["mean"].iloc[0]
    assert learned.predict(stray, questions(2))["mean"].iloc[0] == pytest.approx(before, rel=0.05)


def test_contradictory_measurements_widen_the_interval(learned: ThroughputModel) -> None:
    calm = learned.predict(seen(workers=[1] * 4, throughput=[100.0] * 4), questions(1))
    torn = learned.predict(seen(workers=[1] * 4, throughput=[50.0, 200.0, 50.0, 200.0]), questions(1))
    check_defined(torn)
    assert torn["latent_sd"].iloc[0] > 1.5 * calm["latent_sd"].iloc[0]


def test_a_hundred_thousand_observations(learned: ThroughputModel) -> None:
    generator = np.random.default_rng(0)
    workers = generator.integers(1, 9, 100_000)
    throughput = 100 * workers / (1 + 0.05 * (workers - 1)) * np.exp(0.1 * generator.standard_normal(100_000))
    began = time.perf_counter()
    answer = learned.predict(seen(workers=workers, throughput=throughput), questions(1, 4, 8))
    assert time.perf_counter() - began < 5
    check_defined(answer)
    assert answer["mean"].iloc[1] == pytest.approx(400 / 1.15, rel=0.05)


@pytest.mark.parametrize("jobs", [0, 1])
def test_a_history_of_at_most_one_job_answers_widely(jobs: int) -> None:
    model = ThroughputModel().fit(simulated_history(8, seed=1).query("job == 'job-0'").iloc[: 32 * jobs])
    answer = model.predict(seen(workers=[1], throughput=[100.0]), questions(1, 4))
    check_defined(answer)
    assert answer["reason"].iloc[1] == ("Extrapolated" if jobs else "NoHistory")
    assert answer["upper"].iloc[1] / answer["lower"].iloc[1] > 2


def test_beyond_all_history_the_interval_grows(learned: ThroughputModel) -> None:
    answer = learned.predict(seen(workers=[1], throughput=[100.0]), questions(1, 2, 8, 500))
    check_defined(answer)
    assert answer["latent_sd"].is_monotonic_increasing


def test_rows_of_the_history_of_an_observed_job_are_ignored() -> None:
    history = simulated_history(6, seed=2)
    mine = history["job"] == "job-0"
    own, query = history[mine].iloc[:1], history[mine].drop(columns="throughput")
    model = ThroughputModel().fit(history.assign(throughput=history["throughput"].where(~mine, 1e6)))
    expected = ThroughputModel().fit(history[~mine]).predict(own, query)
    pd.testing.assert_frame_equal(model.predict(own, query), expected)
    again = ThroughputModel.restored(model.state())
    pd.testing.assert_frame_equal(again.predict(own, query), expected, check_exact=True)
    others = ThroughputModel().fit(history).predict(own.assign(job="new"), query.assign(job="new"))
    assert not np.allclose(others["mean"], expected["mean"])


def test_a_history_of_nothing_but_the_job_itself_is_none() -> None:
    history = simulated_history(1, seed=2)
    own, query = history.iloc[:1], history.drop(columns="throughput")
    expected = ThroughputModel().fit(pd.DataFrame()).predict(own, query)
    pd.testing.assert_frame_equal(ThroughputModel().fit(history).predict(own, query), expected)


def test_a_jobs_name_changes_nothing(learned: ThroughputModel) -> None:
    observed = seen(workers=[1, 2], throughput=[100.0, 180.0])
    first = learned.predict(observed, questions(3, 4))
    second = learned.predict(observed.assign(job="another"), questions(3, 4).assign(job="another"))
    pd.testing.assert_frame_equal(first, second, check_exact=True)


def test_joint_draws_of_too_many_configurations_are_refused(learned: ThroughputModel) -> None:
    with pytest.raises(InvalidInput, match="5001 configurations of one job: expected at most 5000"):
        learned.sample(seen(workers=[1], throughput=[100.0]), questions(*range(1, 5002)), 1, seed=0)


def test_a_level_outside_zero_and_one_is_refused(learned: ThroughputModel) -> None:
    with pytest.raises(ValueError, match="level is 1"):
        learned.predict(pd.DataFrame(), questions(1), level=1.0)


def test_the_same_question_has_the_same_answer(learned: ThroughputModel) -> None:
    observed = seen(workers=[1, 2], throughput=[100.0, 180.0])
    first = learned.predict(observed, questions(3, 4))
    again = ThroughputModel().fit(simulated_history(8, seed=1)).predict(observed, questions(3, 4))
    pd.testing.assert_frame_equal(first, again)
    draws = learned.sample(observed, questions(3, 4), 50, seed=3)
    assert np.array_equal(draws, learned.sample(observed, questions(3, 4), 50, seed=3))


def test_draws_of_a_row_dont_depend_on_the_rows_after_it(learned: ThroughputModel) -> None:
    observed = seen(workers=[1], throughput=[100.0])
    few = learned.sample(observed, questions(1, 2), 100, seed=0)
    many = learned.sample(observed, questions(1, 2, 3, 4), 100, seed=0)
    assert many[:, :2] == pytest.approx(few)


def test_draws_agree_with_the_prediction(learned: ThroughputModel) -> None:
    observed = seen(workers=[1], throughput=[100.0])
    answer = learned.predict(observed, questions(1, 2, 4, 8))
    logs = np.log(learned.sample(observed, questions(1, 2, 4, 8), 4000, seed=0))
    assert np.exp(logs.mean(axis=0)) == pytest.approx(answer["mean"].to_numpy(), rel=0.02)
    assert logs.std(axis=0) == pytest.approx(answer["latent_sd"].to_numpy(), rel=0.1)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([-1.0, 0.0, 1.0, 2.0, 3.5, 64.0, np.nan]),
            st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.floats(1e-3, 1e6)),
            st.sampled_from([0.0, 1.0, 32.0, 1e5, np.nan]),
            st.sampled_from(["ok", "failed", None]),
        ),
        max_size=12,
    ),
    st.booleans(),
)
def test_any_frame_is_answered(rows: list[tuple[float, float, float, str | None]], with_history: bool) -> None:
    observed = pd.DataFrame(rows, columns=["workers", "throughput", "batch_size", "status"]).assign(job="mine")
    answer = (SMALL if with_history else UNTAUGHT).predict(observed, questions(1, 2, 16))
    undefined = answer["reason"] == "NothingKnown"
    assert answer.loc[undefined, NUMBERS].isna().all(axis=None)
    check_defined(answer[~undefined])
    assert not undefined.any() or not with_history


@pytest.mark.parametrize("moment", ["1000-01-01", "9999-12-31T23:59:59Z", "yesterday", None, pd.NaT])
def test_moments_of_any_year_or_none_are_read(learned: ThroughputModel, moment: object) -> None:
    observed = seen(workers=[1, 2, 2], throughput=[100.0, 190.0, 191.0], observed_at=["2026-01-01"] * 2 + [moment])
    check_defined(learned.predict(observed, questions(1, 2)))


def test_seconds_are_moments(learned: ThroughputModel) -> None:
    moments = pd.to_datetime(["2026-01-01", "2026-03-01"], utc=True)
    observed = seen(workers=[1, 1], throughput=[100.0, 190.0])
    answers = [
        learned.predict(observed.assign(observed_at=when), questions(1))["mean"].iloc[0]
        for when in (moments, moments.as_unit("s").astype("int64"))
    ]
    assert answers[0] == answers[1]
    assert answers[0] > 150  # the older one counts less


@pytest.mark.parametrize("column", ["worker_cpu", "accumulation_steps"])
def test_another_allotment_is_none_that_ran(learned: ThroughputModel, column: str) -> None:
    observed = seen(workers=[2], throughput=[100.0], **{column: [4.0]})
    query = questions(2, 2, 2).assign(**{column: [4.0, 1.0, np.nan]})
    reasons = learned.predict(observed, query)["reason"]
    assert reasons.iloc[0] == "Observed"
    assert reasons.iloc[1] != "Observed"
    if column != "accumulation_steps":  # that is 1 where nobody tells
        assert reasons.iloc[2] == "Observed"
    busier = learned.predict(observed.assign(cluster_cpu=64.0), query.assign(cluster_cpu=32.0))["reason"]
    assert list(busier) == list(reasons)


def test_draws_of_two_jobs_tell_nothing_of_one_another(learned: ThroughputModel) -> None:
    observed = pd.concat([seen(workers=[1], throughput=[100.0]).assign(job=name) for name in "ab"])
    query = questions(8, 8).assign(job=["a", "b"])
    both = np.log(learned.sample(observed, query, 2000, seed=0))
    assert abs(np.corrcoef(both.T)[0, 1]) < 0.1
    alone = learned.sample(observed.iloc[:1], query.iloc[:1], 2000, seed=0)
    assert np.array_equal(np.exp(both[:, :1]).round(9), alone.round(9))
