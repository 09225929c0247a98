"""Intervals over jobs hold the truth as often as they say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from convoy.brain.models.backtest.bootstrap import (
    compared,
    compared_with_published,
    mean_interval,
    ratio_interval,
    summary,
    unanswered,
)


def test_an_interval_of_the_mean_holds_it() -> None:
    generator = np.random.default_rng(5)
    held = 0
    for seed in range(300):
        values = np.exp(0.5 * generator.standard_normal(25))
        _, lower, upper = mean_interval(values, level=0.9, resamples=400, seed=seed)
        held += lower <= np.exp(0.125) <= upper
    assert 0.8 <= held / 300 <= 0.95


def test_of_one_job_nothing_is_known_of_the_spread() -> None:
    mean, lower, upper = mean_interval(np.array([3.0, np.nan]))
    assert mean == 3.0
    assert np.isnan(lower)
    assert np.isnan(upper)
    assert np.isnan(mean_interval(np.array([np.nan]))).all()


def test_a_ratio_draws_jobs_together() -> None:
    theirs = np.array([10.0, 200.0, 35.0, 70.0, 5.0])
    ratio, lower, upper = ratio_interval(0.8 * theirs, theirs)
    assert (ratio, lower, upper) == pytest.approx((0.8, 0.8, 0.8))
    apart = ratio_interval(0.8 * theirs[::-1], theirs)
    assert apart[1] < 0.5 < 1.5 < apart[2]


def results() -> pd.DataFrame:
    rows = [
        {"data": "d", "protocol": "P1", "k": 1, "method": method, "job": job, "seed": seed, "mdape": error * factor,
         "coverage": 0.9 if job == "a" else 0.5, "undefined": float(method == "silent")}
        for method, factor in (("ours", 1.0), ("theirs", 2.0), ("silent", np.nan))
        for job, errors in (("a", (10.0, 20.0)), ("b", (30.0, 30.0, 30.0)))
        for seed, error in enumerate(errors)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_means_are_over_jobs_of_means_over_seeds() -> None:
    found = summary(results()).set_index(["method", "score"])
    assert found.loc[("ours", "mdape"), "mean"] == pytest.approx((15.0 + 30.0) / 2)
    assert found.loc[("ours", "mdape"), "worst"] == pytest.approx(30.0)
    assert found.loc[("ours", "coverage"), "worst"] == pytest.approx(0.5)
    assert found.loc[("ours", "mdape"), "jobs"] == 2
    assert found.loc[("ours", "mdape"), "seeds"] == 3
    assert unanswered(summary(results())) == ["silent"]


def test_compared_on_the_jobs_that_both_have() -> None:
    table = results()
    found = compared(table[(table["method"] != "theirs") | (table["job"] == "b")], "ours", "theirs", "mdape")
    assert found["jobs"].item() == 1
    assert found["ratio"].item() == pytest.approx(0.5)
    both = compared_with_published(table, "ours", {"d": "theirs", "elsewhere": "theirs"}, "mdape")
    assert both["ours"].item() == pytest.approx(22.5)
    assert both["theirs"].item() == pytest.approx(45.0)
    assert not len(compared_with_published(table, "nobody", {"d": "theirs"}, "mdape"))
