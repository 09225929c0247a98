"""Numbers of an outcome, and of two beside each other."""

from __future__ import annotations

import math

import pytest

from convoy.brain.simulate.measures import measured, paired
from convoy.brain.simulate.outcome import JobOutcome, Outcome
from convoy.brain.simulate.workload import Submission
from support.made_workloads import NOISE, cluster, seconds, truth


def outcome(ends: list[float], restarts: int = 0) -> Outcome:
    made = [
        JobOutcome(f"job-{i}", "resnet", "", 100.0 * i, 100.0 * i + 10, end, restarts, {"aws": 3600.0}, 0, 0)
        for i, end in enumerate(ends)
    ]
    return Outcome("made", cluster(), tuple(made), 1)


ASKED = {f"job-{i}": Submission(f"job-{i}", 100.0 * i, "resnet", 4, 64.0) for i in range(3)}


def test_the_numbers_of_an_outcome() -> None:
    found = measured(outcome([1000.0, 1100.0, 4200.0], restarts=2), ASKED, truth(), {"aws": 0.5})
    assert found.mean_completion == pytest.approx((1000 + 1000 + 4000) / 3)
    assert found.geometric_completion == pytest.approx((1000 * 1000 * 4000) ** (1 / 3))
    assert found.makespan == pytest.approx(4200.0)
    assert found.utilization == pytest.approx(3 * 3600 / (4200 * 16))
    assert (found.accelerator_hours, found.cost) == pytest.approx((3.0, 1.5))
    assert found.restarts_per_job_hour == pytest.approx(6 / ((990 + 990 + 3990) / 3600))
    assert math.isnan(measured(outcome([1000.0]), ASKED, truth()).cost)


def test_fairness_is_over_an_equal_share() -> None:
    gain = (NOISE + 1) / (NOISE / (64 / 16) + 1)
    alone = 600 / gain * seconds(1, 4, 16)[0]
    found = measured(outcome([alone * 3]), ASKED, truth())
    assert found.worst_fairness == pytest.approx(3.0)
    assert found.unfair == 1.0
    assert measured(outcome([alone * 0.9]), ASKED, truth()).unfair == 0.0


def test_pairs_are_compared_job_by_job() -> None:
    one, other = outcome([500.0, 600.0, 4200.0]), outcome([1000.0, 1100.0, 2200.0])
    found = paired(one, other)
    assert found.ratio == pytest.approx((0.5 * 0.5 * 2.0) ** (1 / 3))
    assert found.low <= found.ratio <= found.high
    assert found.worst == pytest.approx(2.0)
    assert found.worst_job == "job-2"
    assert paired(one, one).ratio == pytest.approx(1.0)
