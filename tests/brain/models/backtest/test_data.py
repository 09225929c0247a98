"""Histories that don't know the answers: groups and time are left out, names and levels disguised."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.brain.models.backtest.data import (
    DataSet,
    disguised,
    folds,
    one_row_a_configuration,
    question,
    usable,
)
from convoy.core.api.errors import InvalidInput


def jobs(groups: list[int], rows: int = 3) -> pd.DataFrame:
    """Return jobs ``j0``, ``j1``, ... of these groups, each with some rows."""
    frames = [
        pd.DataFrame({"workers": np.arange(1.0, rows + 1), "throughput": np.arange(1.0, rows + 1) * 10}).assign(
            job=f"j{number}", group=f"g{group}", model=f"m{group}", compute_seconds=0.5
        )
        for number, group in enumerate(groups)
    ]
    return pd.concat(frames, ignore_index=True)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8))
def test_no_row_of_a_jobs_group_is_in_its_history(groups: list[int]) -> None:
    frame = jobs(groups)
    seen = []
    for fold in folds(DataSet("made", frame), others=frame.assign(job="elsewhere")):
        predicted = {rows["group"].iloc[0] for rows in fold.jobs.values()}
        assert len(predicted) == 1
        assert not predicted & set(fold.history["group"])
        seen += list(fold.jobs)
    assert sorted(seen) == sorted(set(frame["job"]))


def test_history_ends_where_a_job_begins() -> None:
    moments = pd.date_range("2026-01-01", periods=30, freq="D", tz="UTC")
    frame = jobs(list(range(10))).assign(observed_at=moments)
    last = None
    count = 0
    for fold in folds(DataSet("store", frame, by_time=True)):
        began = min(rows["observed_at"].min() for rows in fold.jobs.values())
        assert len(fold.history)
        assert (fold.history["observed_at"] < began).all()
        assert not set(fold.jobs) & set(fold.history["job"])
        assert last is None or began > last
        last = began
        count += len(fold.jobs)
    assert count == 8  # all but the first fifth, which nothing comes before


def test_rows_without_a_time_count_as_known_from_the_beginning() -> None:
    moments = [pd.NaT] * 6 + list(pd.date_range("2026-01-01", periods=24, freq="D", tz="UTC"))
    frame = jobs(list(range(10))).assign(observed_at=moments)
    for fold in folds(DataSet("store", frame, by_time=True)):
        assert {"j0", "j1"} <= set(fold.history["job"])
        assert not {"j0", "j1"} & set(fold.jobs)


def test_names_say_nothing_and_ratios_stay() -> None:
    frame = jobs([0, 0, 1])
    shown = disguised(frame)
    assert not set(shown["job"]) & set(frame["job"])
    assert not set(shown["model"]) & set(frame["model"])
    assert shown.groupby("model")["job"].nunique().tolist() in ([2, 1], [1, 2])
    factor = shown["throughput"] / frame["throughput"]
    assert factor.groupby(frame["job"]).std().max() < 1e-12
    assert factor.nunique() > 1
    assert factor.between(0.1, 10.0).all()
    step = frame["workers"] / frame["throughput"] / frame["compute_seconds"]
    now = shown["workers"] / shown["throughput"] / shown["compute_seconds"]
    assert now.to_numpy() == pytest.approx(step.to_numpy())
    assert disguised(frame, salt=1)["job"].tolist() != shown["job"].tolist()


def test_a_question_shows_no_measurement() -> None:
    frame = jobs([0]).assign(status="ok", worker_cpu=2.0, worker_cpu_used=1.0, throughput_sd=1.0, grad_var=1.0)
    assert set(question(frame).columns) == {"job", "model", "workers", "worker_cpu"}


def test_what_failed_is_not_predicted() -> None:
    frame = jobs([0], rows=5).assign(status=["ok", "failed", None, "", "ok"])
    frame.loc[4, "throughput"] = 0.0
    assert list(usable(frame).index) == [0, 2, 3]


def test_a_configuration_measured_again_is_one_row() -> None:
    frame = pd.concat([jobs([0, 1]), jobs([0, 1]).assign(throughput=90.0)], ignore_index=True)
    merged = one_row_a_configuration(frame)
    assert len(merged) == 6
    assert merged["throughput"].iloc[0] == pytest.approx((10 + 90) / 2)


def test_a_missing_column_is_named() -> None:
    with pytest.raises(InvalidInput, match="made: no column group"):
        list(folds(DataSet("made", jobs([0]).drop(columns="group"))))
