"""What a plan is for: throughput, cost per sample, a deadline; and what forbids a change whatever it is for."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convoy.brain.plan import Decision, JobRecommendation, JobRequest, Limits, Prices, Stage, plan_job
from support.known_speeds import KnownSpeeds, reduced

MODEL = KnownSpeeds(reduced)
PRICES = Prices(per_core=0.05)
LIMITS = Limits(1, 16, global_batch=256)


def speed(workers: int) -> float:
    return reduced(pd.Series({"workers": workers}))


def seen(workers: int) -> pd.DataFrame:
    row = {"job": "mine", "workers": workers, "nodes": workers, "throughput": speed(workers), "window_seconds": 60.0}
    return pd.DataFrame([row] * 3)


def plan(current: int, prices: Prices = PRICES, **changes: object) -> JobRecommendation:
    request = JobRequest("mine", current, LIMITS, restart_seconds=20.0)
    return plan_job(MODEL, seen(current) if current else pd.DataFrame(), replace(request, **changes), prices)  # type: ignore[arg-type]


def test_cost_goes_down_where_throughput_goes_up() -> None:
    assert plan(4).target_workers > 4
    answer = plan(8, objective="cost")
    assert (answer.decision, answer.reason) == (Decision.CHANGE, "LessCost")
    assert answer.target_workers == 1  # each further worker makes a sample dearer
    assert "samples for the money" in answer.message
    assert answer.objective == "cost"
    kept = plan(1, objective="cost")
    assert (kept.decision, kept.reason) == (Decision.KEEP, "AlreadyBest")
    assert "cheaper per sample" in kept.message


def test_without_prices_cost_isnt_compared() -> None:
    answer = plan(8, Prices(), objective="cost")
    assert (answer.decision, answer.reason, answer.target_workers) == (Decision.UNDEFINED, "PriceUnknown", 8)
    assert "CONVOY_PRICE_CPU_HOUR" in answer.message
    assert plan(4, Prices()).moves  # other objectives do without


def in_time(current: int, seconds: float, samples: float, **changes: object) -> JobRecommendation:
    return plan(current, objective="deadline", deadline_seconds=seconds, remaining_samples=samples, **changes)


def test_a_job_that_is_late_gets_the_cheapest_size_that_isnt() -> None:
    samples = speed(6) * 3600
    answer = in_time(2, 3700.0, samples)
    assert (answer.decision, answer.reason) == (Decision.CHANGE, "LateOtherwise")
    assert answer.target_workers in (6, 7)
    assert "probability" in answer.message
    assert {option.workers: option.in_time for option in answer.options}[2] < 0.01


def test_a_job_with_time_to_spare_gets_cheaper() -> None:
    answer = in_time(12, 36000.0, speed(2) * 3600)
    assert (answer.decision, answer.reason) == (Decision.CHANGE, "CheaperInTime")
    assert answer.target_workers == 1
    kept = in_time(1, 36000.0, speed(1) * 3600)
    assert (kept.decision, kept.reason) == (Decision.KEEP, "InTime")


def test_a_job_that_is_late_at_every_size_goes_for_speed_and_says_so() -> None:
    answer = in_time(4, 3600.0, speed(16) * 36000)
    assert (answer.decision, answer.reason) == (Decision.CHANGE, "DeadlineAtRisk")
    assert answer.target_workers > 8
    kept = in_time(16, 3600.0, speed(16) * 36000)
    assert (kept.decision, kept.reason) == (Decision.KEEP, "DeadlineOutOfReach")
    passed = in_time(16, -5.0, speed(16) * 36000)
    assert (passed.decision, passed.reason) == (Decision.KEEP, "DeadlinePassed")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"deadline_seconds": math.nan, "remaining_samples": 1.0}, "DeadlineUnknown"),
        ({"deadline_seconds": 10.0, "remaining_samples": math.nan}, "RemainingUnknown"),
    ],
)
def test_a_deadline_needs_its_numbers(given: dict[str, float], reason: str) -> None:
    answer = plan(4, objective="deadline", **given)
    assert (answer.decision, answer.reason, answer.target_workers) == (Decision.UNDEFINED, reason, 4)


def test_nothing_is_left() -> None:
    assert in_time(4, 100.0, 0.0).reason == "NothingLeft"


@given(st.integers(1, 16), st.floats(60.0, 1e5), st.floats(0.0, 1e8))
@settings(max_examples=40)
def test_a_deadline_is_met_where_some_size_meets_it(current: int, seconds: float, samples: float) -> None:
    answer = in_time(current, seconds, samples)
    assert 1 <= answer.target_workers <= 16
    restart = 20.0 if answer.target_workers != current else 0.0
    surely = [size for size in range(1, 17) if size != current and (seconds - 20.0) * speed(size) > 1.1 * samples]
    if surely and seconds > 20.0:
        assert (seconds - restart) * speed(answer.target_workers) >= 0.95 * samples


def test_a_job_that_ends_before_a_restart_is_paid_back_is_left_alone() -> None:
    assert plan(2).moves
    answer = plan(2, remaining_samples=speed(2) * 25)
    assert (answer.decision, answer.reason) == (Decision.KEEP, "RestartNotPaidBack")


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        ({"pinned": True}, "Pinned", "the job is pinned"),
        ({"frozen_seconds": 7200.0}, "Frozen", "nothing may be changed for another 2 h"),
        ({"changes_last_hour": 12}, "ChangedTooOften", "12 changes in the last hour, 12 allowed"),
    ],
)
def test_what_forbids_a_change_says_what_would_be(change: dict[str, object], reason: str, words: str) -> None:
    answer = plan(2, **change)
    assert (answer.decision, answer.reason, answer.target_workers) == (Decision.KEEP, reason, 2)
    assert words in answer.message
    assert "otherwise: from 2 workers to" in answer.message
    assert answer.predicted == pytest.approx(speed(2))
    outside = plan(20, **change)
    assert outside.moves == (reason == "ChangedTooOften")  # limits don't wait for the hour to be over
    start = plan(0, stage=Stage.START, **change)
    assert start.decision is Decision.CHANGE


ALLOWED = Limits(1, 40, allowed_workers=(16, 4, 8, 8, 64), global_batch=256)


def test_only_sizes_that_the_job_can_take() -> None:
    answer = plan_job(MODEL, seen(4), JobRequest("mine", 4, ALLOWED, restart_seconds=20.0), PRICES)
    assert [option.workers for option in answer.options] == [4, 8, 16]
    assert answer.target_workers == 16
    nothing = replace(ALLOWED, max_workers=3)
    answer = plan_job(MODEL, seen(4), JobRequest("mine", 4, nothing, restart_seconds=20.0), PRICES)
    assert (answer.decision, answer.reason) == (Decision.UNDEFINED, "NothingFits")
    assert "allowed sizes 4, 8, 16, 64" in answer.message


@pytest.mark.parametrize(
    ("quota", "most"),
    [
        ({"quota_cpu": 3.0}, 3),
        ({"quota_memory": 5 * 2**30, "worker_memory": 2**30}, 5),
        ({"quota_accelerators": 6.0, "worker_accelerators": 2.0}, 3),
        ({"free_accelerators": 7.0, "worker_accelerators": 1.0}, 7),
    ],
)
def test_a_quota_bounds_the_size(quota: dict[str, float], most: int) -> None:
    limits = replace(LIMITS, **quota)  # type: ignore[arg-type]
    answer = plan_job(MODEL, seen(1), JobRequest("mine", 1, limits, restart_seconds=20.0), PRICES)
    assert max(option.workers for option in answer.options) == most
