from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.brain.models.throughput.physics import (
    ALL_REDUCE,
    APPLY,
    CONNECT,
    CROWD,
    LEVEL,
    LOCAL,
    NEED,
    NET_STEP,
    OVERLAP,
    PUSH,
    SERVED,
    SHARD,
    SIZE,
    SPLIT,
    Configurations,
    Form,
    log_speed,
    step_of,
)
from convoy.brain.models.throughput.prior import default_scope

THETA = st.lists(st.floats(-6, 2), min_size=SIZE, max_size=SIZE).map(np.array)
DEFAULT = default_scope(Form()).mean


def sizes(
    workers: list[float], nodes: list[float], ps: float = 0.0, batch: float = 1.0, cluster: float = np.inf
) -> Configurations:
    ones = np.ones(len(workers))
    return Configurations(
        workers=np.array(workers),
        nodes=np.array(nodes),
        ps=ps * ones,
        asynchronous=0 * ones,
        batch_size=batch * ones,
        accumulation_steps=ones,
        accelerators=ones,
        worker_cpu=np.nan * ones,
        ps_cpu=np.nan * ones,
        cluster_cpu=cluster * ones,
    )


def speeds(theta: np.ndarray, where: Configurations) -> np.ndarray:
    return np.exp(log_speed(theta[None], where))[0]


@given(THETA)
def test_no_size_is_faster_than_its_workers_together(theta: np.ndarray) -> None:
    found = speeds(theta, sizes([1, 2, 4, 8, 8], [1, 1, 1, 2, 8]))
    assert np.all(found[1:] <= found[0] * np.array([2, 4, 8, 8]) * (1 + 1e-9))


@given(THETA, st.floats(0.1, 10), st.sampled_from([0.0, 3.0]))
def test_a_slower_machine_is_a_move_along_the_level(theta: np.ndarray, factor: float, ps: float) -> None:
    where = sizes([1, 2, 4], [1, 2, 2], ps, cluster=4.0)
    slower = log_speed((theta + np.log(factor) * LEVEL)[None], where)
    assert slower == pytest.approx(log_speed(theta[None], where) - np.log(factor), abs=1e-9)


@given(THETA, st.integers(1, 64))
def test_more_servers_carry_their_share_faster(theta: np.ndarray, workers: int) -> None:
    theta[SHARD] = -60.0  # connections cost nothing
    found = [speeds(theta, sizes([workers], [1], float(ps)))[0] for ps in (1, 2, 8)]
    assert found == sorted(found)


def test_servers_are_the_limit_of_many_workers() -> None:
    theta = DEFAULT.copy()
    theta[[APPLY, CONNECT, SHARD]] = -60.0
    assert speeds(theta, sizes([1e6], [1], 4.0))[0] == pytest.approx(4.0 / np.exp(theta[PUSH]), rel=0.01)


def test_full_overlap_hides_the_smaller_part_and_none_adds_it() -> None:
    theta = np.vstack([DEFAULT, DEFAULT])
    theta[:, OVERLAP] = [-20.0, np.log(60.0)]
    where = sizes([4], [4])
    step = step_of(theta, where)
    seconds = 4.0 / np.exp(log_speed(theta, where))
    assert seconds[0, 0] == pytest.approx(step.compute[0, 0] + step.exchange[0, 0], rel=1e-6)
    assert seconds[1, 0] == pytest.approx(max(step.compute[1, 0], step.exchange[1, 0]), rel=0.02)


def test_processes_beyond_the_cores_share_them() -> None:
    theta = DEFAULT.copy()
    theta[CROWD] = -30.0  # no other crowding
    theta[LOCAL : NET_STEP + 1] = -30.0
    found = speeds(theta, sizes([1, 2, 3, 4], [1, 1, 1, 1], cluster=2.0))
    assert found / found[0] == pytest.approx([1, 2, 2, 2], rel=1e-6)


def test_fewer_cores_than_a_process_needs_make_it_slower_and_more_change_nothing() -> None:
    theta = DEFAULT.copy()
    theta[NEED] = np.log(2.0)
    where = replace(sizes([1] * 4, [1] * 4), worker_cpu=np.array([0.5, 1.0, 20.0, np.nan]))
    found = speeds(theta, where)
    assert found[0] / found[1] == pytest.approx(0.5, rel=0.05)
    assert found[2] == pytest.approx(found[3], rel=1e-3)


def test_a_batch_that_nobody_told_is_each_workers_own_or_everybodys() -> None:
    theta = np.vstack([DEFAULT, DEFAULT])
    theta[:, SPLIT] = [-40.0, 40.0]
    unknown = replace(sizes([1, 4], [1, 1]), batch_size=np.full(2, np.nan))
    own, split = np.exp(log_speed(theta, unknown))
    assert own == pytest.approx(speeds(DEFAULT, sizes([1, 4], [1, 1])))
    assert split[1] == pytest.approx(speeds(DEFAULT, sizes([4], [1], batch=0.25))[0])


def test_accumulation_repeats_compute_and_exchanges_once() -> None:
    one = sizes([2], [2])
    four = replace(one, accumulation_steps=np.array([4.0]))
    compute = step_of(DEFAULT[None], one).compute[0, 0]
    assert 8.0 / speeds(DEFAULT, four)[0] == pytest.approx(2.0 / speeds(DEFAULT, one)[0] + 3 * compute)


@pytest.mark.parametrize(("form", "ps"), [(ALL_REDUCE, 0.0), (SERVED, 3.0)])
def test_a_form_holds_every_coefficient_that_acts(form: Form, ps: float) -> None:
    where = replace(sizes([1, 3, 8], [1, 1, 4], ps, cluster=16.0), worker_cpu=np.ones(3), ps_cpu=np.ones(3))
    base = speeds(DEFAULT, where)
    for index in set(range(SIZE)) - set(form.active):
        moved = DEFAULT.copy()
        moved[index] += 1.0
        assert speeds(moved, where) == pytest.approx(base)
