"""The gain of larger batches: published formula, its limits, arguments out of range."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from convoy.brain.models.efficiency import gain, log_efficiency

SCALES = st.floats(0.01, 1e4)
NORMS = st.floats(1e-12, 1e12)


def test_gain_by_hand() -> None:
    assert gain(1.0, 3.0, 5.0) == 1.0
    assert gain(4.0, 1.0, 12.0) == 13.0 / 4.0
    np.testing.assert_allclose(gain([1, 2, 4], 1.0, [[0.0], [8.0]]), np.array([[1, 1, 1], [1, 9 / 5, 3]]))


def test_no_noise_gains_nothing_and_noise_alone_gains_all() -> None:
    assert gain(64.0, 1.0, 0.0) == 1.0
    assert gain(64.0, 0.0, 1.0) == 64.0


def test_out_of_range_is_nan() -> None:
    for scale, sqr, var in (
        (0, 1, 1),
        (-2, 1, 1),
        (2, -1, 1),
        (2, 1, -1),
        (2, 0, 0),
        (math.nan, 1, 1),
        (2, math.inf, 1),
    ):
        assert np.isnan(gain(scale, sqr, var))


@given(SCALES, NORMS, NORMS, st.floats(1e-150, 1e150))
def test_gain_lies_between_one_and_the_scale_whatever_the_unit_of_gradients(
    scale: float, sqr: float, var: float, unit: float
) -> None:
    found = float(gain(scale, sqr, var))
    assert min(1.0, scale) * (1 - 1e-12) <= found <= max(1.0, scale) * (1 + 1e-12)
    np.testing.assert_allclose(gain(scale, sqr * unit, var * unit), found, rtol=1e-9)


@given(SCALES, NORMS, NORMS)
def test_efficiency_is_the_gain_of_a_sample(scale: float, sqr: float, var: float) -> None:
    expected = math.log(float(gain(scale, sqr, var)) / scale)
    np.testing.assert_allclose(log_efficiency(math.log(scale), math.log(var / sqr)), expected, rtol=1e-9, atol=1e-9)


@given(SCALES, SCALES, NORMS, NORMS)
def test_the_ratio_of_two_batches_depends_on_no_initial_batch(a: float, b: float, sqr: float, var: float) -> None:
    from_first = gain(a, sqr, var) / gain(b, sqr, var)
    from_ten_times = gain(a / 10, sqr, var / 10) / gain(b / 10, sqr, var / 10)
    np.testing.assert_allclose(from_first, from_ten_times, rtol=1e-9)
