"""Scores of cases that can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from convoy.brain.models.backtest.choices import choices
from convoy.brain.models.backtest.scores import errors, regret
from convoy.brain.models.backtest.smooth import smoothed

TRUTH = np.array([100.0, 200.0, 400.0, 50.0])


def answer(mean: list[float], lower: list[float], upper: list[float]) -> pd.DataFrame:
    return pd.DataFrame({"mean": mean, "lower": lower, "upper": upper})


def test_errors_of_four_rows() -> None:
    found = errors(TRUTH, answer([110.0, 150.0, 400.0, 80.0], [90, 140, 300, 70], [120, 160, 500, 140]))
    # 10 %, 25 %, 0 %, 60 %
    assert found["mdape"] == pytest.approx(17.5)
    assert found["mape"] == pytest.approx(95 / 4)
    assert found["coverage"] == pytest.approx(0.5)
    assert found["width"] == pytest.approx(np.median([120 / 90, 160 / 140, 500 / 300, 2.0]))
    assert found["undefined"] == 0


def test_rows_without_an_answer_are_counted_and_no_more() -> None:
    nan = float("nan")
    found = errors(TRUTH, answer([nan, 150.0, nan, 50.0], [nan, 140, nan, 40], [nan, 160, nan, 60]))
    assert found["undefined"] == 0.5
    assert found["mdape"] == pytest.approx(12.5)
    nothing = errors(TRUTH, answer([nan] * 4, [nan] * 4, [nan] * 4))
    assert nothing["undefined"] == 1
    assert np.isnan(nothing["mdape"])
    assert np.isnan(nothing["coverage"])


def test_a_level_that_nobody_can_know_is_set_right_by_the_median() -> None:
    shape = answer(list(TRUTH * 7), list(TRUTH), list(TRUTH * 9))
    assert errors(TRUTH, shape)["mdape"] == pytest.approx(600.0)
    assert errors(TRUTH, shape, level_free=True)["mdape"] == pytest.approx(0.0, abs=1e-9)


def test_regret_is_the_mean_over_sets_of_what_the_choice_lost() -> None:
    sets = [np.array([0, 1]), np.array([0, 1, 2, 3])]
    predicted = np.array([3.0, 2.0, 1.0, 0.5])  # chooses 0 in both: 100 of 200, and 100 of 400
    assert regret(TRUTH, predicted, sets) == pytest.approx((50.0 + 75.0) / 2)
    assert regret(TRUTH, TRUTH, sets) == 0.0
    unknown = np.array([np.nan, np.nan, 1.0, 0.5])  # nothing to choose in the first; 400 of 400 in the second
    assert regret(TRUTH, unknown, sets) == 0.0
    assert np.isnan(regret(TRUTH, np.full(4, np.nan), sets))


def test_servers_compete_within_budgets_of_nodes() -> None:
    frame = pd.DataFrame({"workers": [1.0, 3.0, 5.0, 12.0], "ps": [1.0, 3.0, 5.0, 12.0], "strategy": "ps"})
    assert [places.tolist() for places in choices(frame)] == [[0, 1], [0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 1, 2, 3]]


def test_all_reduce_competes_at_one_total_batch() -> None:
    frame = pd.DataFrame(
        {"workers": [1.0, 2.0, 4.0, 16.0, 1.0], "batch_size": [32.0, 16.0, 9.0, 2.0, 64.0], "strategy": "allreduce"}
    )
    found = [places.tolist() for places in choices(frame)]
    assert found == [[0, 1, 2], [0, 1, 2, 3]]  # 32 samples (36 is within 15 %), at most 8 and 64 workers; 64 is alone
    without = choices(frame.drop(columns="batch_size"))
    assert [places.tolist() for places in without] == [[0, 1, 2, 4], [0, 1, 2, 3, 4]]


def test_smoothing_takes_noise_off() -> None:
    generator = np.random.default_rng(0)
    workers = np.tile(np.arange(1.0, 17.0), 4)
    truth = 100 * workers / (1 + 0.2 * workers)
    noisy = truth * np.exp(0.1 * generator.standard_normal(len(workers)))
    found = smoothed(pd.DataFrame({"workers": workers, "throughput": noisy}))
    assert np.abs(found / truth - 1).mean() < 0.5 * np.abs(noisy / truth - 1).mean()
    one = smoothed(pd.DataFrame({"workers": [2.0, 2.0], "throughput": [10.0, 12.0]}))
    assert one == pytest.approx([10.0, 12.0])
