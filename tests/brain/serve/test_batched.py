"""A batch is raised where gradients are noisy and the job lets it be, and nowhere else."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import pytest

from convoy.brain.models.efficiency import EfficiencyModel
from convoy.brain.plan import Decision, JobRecommendation, JobRequest, Limits, Needs, Prices
from convoy.brain.serve.batched import planned
from support.known_speeds import KnownSpeeds


def speed(row: pd.Series) -> float:
    """Samples/s: half of a step of 256 samples on one worker is overhead, so that larger batches are faster."""
    return float(row["workers"] * row["batch_size"] / (0.25 + 0.001 * row["batch_size"]))


MODEL = KnownSpeeds(speed)
REQUEST = JobRequest("mine", 2, Limits(2, 2, global_batch=512, max_batch=4096), restart_seconds=20.0)


def seen(noise: float | None) -> pd.DataFrame:
    row = {"workers": 2, "nodes": 2, "batch_size": 256.0}
    rows = [
        {
            **row,
            "job": "mine",
            "throughput": speed(pd.Series(row)),
            "window_seconds": 60.0,
            "observed_at": pd.Timestamp("2026-01-01", tz="UTC") + pd.Timedelta(minutes=number),
            "grad_sqr": math.nan if noise is None else 1.0,
            "grad_var": math.nan if noise is None else noise,
        }
        for number in range(12)
    ]
    return pd.DataFrame(rows)


def plan(noise: float | None, *adjustable: str, **limits: int) -> JobRecommendation:
    request = replace(REQUEST, adjustable=adjustable, limits=replace(REQUEST.limits, **limits))
    return planned(MODEL, seen(noise), request, Prices(), Needs(), EfficiencyModel())


def test_a_noisy_job_gets_a_larger_batch() -> None:
    answer = plan(100.0, "workers", "batch")
    assert (answer.decision, answer.target_workers) == (Decision.CHANGE, 2)
    assert answer.target_batch in (1024, 2048, 4096)
    assert f"with a batch of {answer.target_batch}" in answer.message
    assert {option.batch for option in answer.options} == {0, 1024, 2048, 4096}
    assert plan(100.0, "workers", "batch", max_batch=1500).target_batch == 1024


def test_a_job_whose_gradients_have_no_noise_keeps_its_batch() -> None:
    answer = plan(0.01, "workers", "batch")
    assert (answer.decision, answer.target_batch) == (Decision.KEEP, 0)


def test_what_isnt_carried_out_is_a_note() -> None:
    answer = plan(100.0, "workers")
    assert (answer.decision, answer.target_batch) == (Decision.KEEP, 0)
    said = "isn't carried out by itself: from 2 workers to 2 workers with a batch of"
    assert any(said in note for note in answer.notes)


@pytest.mark.parametrize("adjustable", [("workers",), ("workers", "batch")])
def test_without_the_noise_of_gradients_nothing_is_raised(adjustable: tuple[str, ...]) -> None:
    answer = plan(None, *adjustable)
    assert (answer.decision, answer.target_batch) == (Decision.KEEP, 0)
    assert any("NotReported" in note for note in answer.notes)


def test_a_job_that_doesnt_allow_it_is_left_alone() -> None:
    answer = plan(100.0, "workers", "batch", max_batch=0)
    assert (answer.decision, answer.target_batch, answer.notes) == (Decision.KEEP, 0, ())


def test_what_is_predicted_is_a_speed_that_can_be_measured_whatever_it_was_chosen_by() -> None:
    answer = plan(100.0, "workers", "batch")
    measured = speed(pd.Series({"workers": 2, "batch_size": answer.target_batch / 2}))
    assert answer.predicted == pytest.approx(measured)
    assert answer.lower90 < measured < answer.upper90
    assert answer.goodput < 0.99 * measured
    chosen = next(option for option in answer.options if option.verdict == "chosen")
    assert (chosen.predicted, chosen.goodput) == (answer.predicted, answer.goodput)
    assert f"{answer.goodput:,.0f} of its initial batch are measured as {measured:,.0f} samples/s" in answer.message
    for option in answer.options:
        batch = option.batch or 512
        assert option.predicted == pytest.approx(speed(pd.Series({"workers": 2, "batch_size": batch / 2})))


def test_what_is_kept_is_predicted_in_speeds_too() -> None:
    answer = plan(0.01, "workers", "batch")
    assert answer.predicted == pytest.approx(answer.goodput) == pytest.approx(speed(seen(None).iloc[0]))
    assert "measured as" not in answer.message


def test_by_speed_alone_there_is_no_goodput() -> None:
    assert math.isnan(plan(100.0, "workers").goodput)
    assert math.isnan(plan(None, "workers", "batch").goodput)
