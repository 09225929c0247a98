from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.brain.plan import explain, guards
from convoy.brain.plan.limits import Limits
from convoy.brain.plan.prices import Prices
from convoy.brain.plan.sizes import Size, sizes_within


@pytest.mark.parametrize(
    ("limits", "sizes", "bound"),
    [
        (Limits(1, 4), (1, 2, 3, 4), "maxReplicas 4"),
        (Limits(2, 9, node_unit=3), (3, 6, 9), "maxReplicas 9"),
        (Limits(1, 4, free_cpu=2.0), (1, 2), "2 cores at 1 a worker"),
        (Limits(1, 4, free_cpu=2.0, worker_cpu=0.5), (1, 2, 3, 4), "maxReplicas 4"),
        (Limits(1, 4, free_memory=5, worker_memory=2), (1, 2), "the memory that is free"),
        (Limits(1, 4, largest_node_cpu=1.0, worker_cpu=2.0), (), "no node has 2 cores"),
        (Limits(1, 4, largest_node_memory=1, worker_memory=2), (), "no node has the memory of one worker"),
        (Limits(1, 8, global_batch=3), (1, 2, 3), "a global batch of 3"),
        (Limits(0, 0), (), "maxReplicas 0"),
        (Limits(5, 4), (), "maxReplicas 4"),
    ],
)
def test_sizes_within_limits(limits: Limits, sizes: tuple[int, ...], bound: str) -> None:
    caps = sizes_within(limits)
    assert caps.sizes == tuple(Size(workers) for workers in sizes)
    assert bound in caps.bound


@given(st.integers(-3, 50), st.integers(-3, 50), st.integers(0, 7), st.floats(0, 60), st.floats(0, 4))
def test_no_size_is_zero_or_outside(least: int, most: int, unit: int, free: float, cpu: float) -> None:
    for size in sizes_within(Limits(least, most, unit, free_cpu=free, worker_cpu=cpu)).sizes:
        assert size.workers >= max(1, least)
        assert size.workers <= most
        assert size.workers % max(1, unit) == 0
        assert free == 0 or size.workers * cpu <= free * (1 + 1e-6)


def test_an_unknown_restart_costs_the_default() -> None:
    assert guards.restart_seconds(0.0) == guards.DEFAULT_RESTART_SECONDS
    assert guards.restart_seconds(math.nan) == guards.DEFAULT_RESTART_SECONDS
    assert guards.restart_seconds(2.5) == 2.5


def test_prices_add_up_or_are_unknown() -> None:
    prices = Prices(per_core=0.04, per_gib=0.01, currency="EUR")
    assert prices.per_hour(2, 1.0, 4 * 1024**3) == pytest.approx(0.16)
    assert Prices.per_million_samples(0.16, 1000.0) == pytest.approx(0.16 / 3.6)
    assert math.isnan(Prices().per_hour(2, 1.0, 4 * 1024**3))
    assert math.isnan(Prices.per_million_samples(0.16, math.nan))


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.0, "2 s"), (300.0, "5 min"), (7200.0, "2 h"), (math.inf, "unbounded time")]
)
def test_durations_in_words(seconds: float, text: str) -> None:
    assert explain.duration(seconds) == text
