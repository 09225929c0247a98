from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.brain.models.physics import LEVEL, SIZE, Configurations, jacobian, log_speed, parts
from convoy.brain.models.prior import DEFAULT_MEAN

THETA = st.lists(st.floats(-6, 2), min_size=SIZE, max_size=SIZE).map(np.array)


def sizes(workers: list[float], nodes: list[float], batch: float = 1.0, cluster: float = np.inf) -> Configurations:
    ones = np.ones(len(workers))
    return Configurations(np.array(workers), np.array(nodes), batch * ones, ones, ones, cluster * ones)


@given(THETA)
def test_no_size_is_faster_than_its_workers_together(theta: np.ndarray) -> None:
    speeds = np.exp(log_speed(theta[None], sizes([1, 2, 4, 8, 8], [1, 1, 1, 2, 8])))[0]
    assert np.all(speeds[1:] <= speeds[0] * np.array([2, 4, 8, 8]) * (1 + 1e-9))


@given(THETA, st.floats(0.1, 10))
def test_a_slower_machine_is_a_move_along_the_level(theta: np.ndarray, factor: float) -> None:
    where = sizes([1, 2, 4], [1, 2, 2], cluster=4.0)
    slower = log_speed((theta + np.log(factor) * LEVEL)[None], where)
    assert slower == pytest.approx(log_speed(theta[None], where) - np.log(factor), abs=1e-9)


def test_full_overlap_hides_the_smaller_part_and_none_adds_it() -> None:
    theta = np.vstack([DEFAULT_MEAN, DEFAULT_MEAN])
    theta[:, 7] = [-20.0, np.log(60.0)]
    where = sizes([4], [4])
    compute, sync = parts(theta, where)
    seconds = 4.0 / np.exp(log_speed(theta, where))
    assert seconds[0, 0] == pytest.approx(compute[0, 0] + sync[0, 0], rel=1e-6)
    assert seconds[1, 0] == pytest.approx(max(compute[1, 0], sync[1, 0]), rel=0.02)


def test_processes_beyond_the_cores_share_them() -> None:
    theta = DEFAULT_MEAN.copy()
    theta[2] = -30.0  # no other crowding
    theta[3:7] = -30.0
    speeds = np.exp(log_speed(theta[None], sizes([1, 2, 3, 4], [1, 1, 1, 1], cluster=2.0)))[0]
    assert speeds / speeds[0] == pytest.approx([1, 2, 2, 2], rel=1e-6)


def test_accumulation_repeats_compute_and_synchronizes_once() -> None:
    one, four = sizes([2], [2]), sizes([2], [2])
    four = Configurations(*[getattr(four, name) for name in ("workers", "nodes", "batch_size")], np.array([4.0]),
                          four.worker_cpu, four.cluster_cpu)  # fmt: skip
    compute, _ = parts(DEFAULT_MEAN[None], one)
    first = 2.0 / np.exp(log_speed(DEFAULT_MEAN[None], one))
    assert 8.0 / np.exp(log_speed(DEFAULT_MEAN[None], four)) == pytest.approx(first + 3 * compute)


def test_the_derivative_agrees_with_a_one_sided_difference() -> None:
    where = sizes([1, 3, 8], [1, 1, 4], cluster=16.0)
    value, slope = jacobian(DEFAULT_MEAN, where)
    for index in range(SIZE):
        moved = DEFAULT_MEAN.copy()
        moved[index] += 1e-6
        assert (log_speed(moved[None], where)[0] - value) / 1e-6 == pytest.approx(slope[:, index], abs=1e-4)
