"""Neutral interpolation: what was measured is returned, and between measurements nothing leaves their range."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.brain.simulate.speeds import Speeds
from support.made_workloads import seconds, speeds

TABLE = speeds()


@pytest.mark.parametrize(("shape", "local"), [((1,), 4), ((4,), 32), ((2, 3), 8), ((4, 4, 4, 4), 16)])
def test_what_was_measured_is_returned(shape: tuple[int, ...], local: int) -> None:
    assert TABLE.step(shape, local) == pytest.approx(seconds(len(shape), sum(shape), local))


@given(local=st.integers(4, 32), replicas=st.integers(1, 4))
def test_between_batches_it_is_linear(local: int, replicas: int) -> None:
    assert TABLE.step((replicas,), local) == pytest.approx(seconds(1, replicas, local))


@given(nodes=st.integers(1, 4), extra=st.integers(0, 12), local=st.integers(4, 32))
def test_an_uneven_shape_has_the_time_of_its_pair(nodes: int, extra: int, local: int) -> None:
    replicas = min(nodes + extra, 4 * nodes)
    uneven = [1] * nodes
    for place in range(nodes):
        uneven[place] += min(3, replicas - sum(uneven))
    assert TABLE.step(tuple(sorted(uneven)), local) == pytest.approx(seconds(nodes, replicas, local), rel=0.05)


def test_a_pair_that_was_not_measured_lies_between_its_neighbours() -> None:
    rows = [(None, n, r, 8.0, *seconds(n, r, 8.0)) for n, r in [(1, 1), (2, 2), (2, 8), (4, 4), (4, 16), (1, 4)]]
    step, _ = Speeds(rows, 256.0).step((3, 3, 3), 8)
    assert seconds(2, 2, 8.0)[0] < step < seconds(4, 16, 8.0)[0]
    assert step == pytest.approx(seconds(3, 9, 8.0)[0], rel=0.1)


def test_far_outside_the_nearest_pair_counts() -> None:
    rows = [(None, 1, 1, 8.0, 1.0, 0.0), (None, 1, 2, 8.0, 2.0, 0.5)]  # all on one line: no triangle
    assert Speeds(rows, 256.0).step((4, 4), 8)[0] == pytest.approx(2.0)


def test_a_batch_that_ends_early_at_some_size_is_a_limit_of_memory() -> None:
    rows = [(None, 1, r, b, 1.0, 0.1) for r in (1, 2, 8) for b in (8.0, 16.0, 32.0) if not (r == 8 and b > 8)]
    assert Speeds(rows, 512.0).largest_local == 8  # 8 replicas could have used 64
    assert Speeds(rows, 64.0).largest_local == 32  # 8 replicas have no use for more than 8


def test_noise_is_the_spread_of_replicates() -> None:
    rng = np.random.default_rng(3)
    rows = [(None, 1, r, 8.0, float(np.exp(0.1 * rng.standard_normal())), 0.0) for r in (1, 2, 3) for _ in range(200)]
    assert Speeds(rows, 256.0).noise == pytest.approx(0.1, rel=0.15)
    assert TABLE.noise == pytest.approx(0.0)
