"""What makes answers quick changes none of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from convoy.brain.models.throughput import physics
from convoy.brain.models.throughput.misfit import ROWS, Field, Misfit, matern
from convoy.brain.models.throughput.summary import _quantile


@pytest.mark.parametrize("asked", [0, 1, ROWS, ROWS + 1, 3 * ROWS])
def test_what_history_explains_is_as_in_double_precision(asked: int) -> None:
    generator = np.random.default_rng(0)
    places, features = generator.uniform(0, 4, (60, 4)), generator.uniform(0, 4, (asked, 4))
    groups = np.array(["a", "b"] * 30, dtype=object)
    errors = Misfit().errors
    covariance = errors.shared**2 * matern(places, places, errors.shared_lengths) + 1e-3 * np.eye(60)
    residual = 0.05 * generator.standard_normal(60)
    misfit = Misfit(errors, Field(places, groups, groups, residual, covariance))
    mean, known = misfit.latent(features, "a")
    kin = np.where(groups == "a", 1.0, errors.alike)
    cross = errors.shared**2 * kin * matern(features, places, errors.shared_lengths)
    assert mean == pytest.approx(cross @ np.linalg.solve(covariance, residual), abs=1e-9)
    assert known @ known.T == pytest.approx(cross @ np.linalg.solve(covariance, cross.T), abs=1e-6 * errors.shared**2)


def test_speeds_in_blocks_are_those_without(monkeypatch: pytest.MonkeyPatch) -> None:
    theta = np.random.default_rng(1).normal(-2, 1, (50, physics.SIZE))
    ones = np.ones(7)
    where = physics.Configurations(
        np.arange(1.0, 8.0), ones, 0 * ones, 0 * ones, ones, ones, ones, np.nan * ones, np.nan * ones, np.inf * ones
    )
    whole = physics.log_speed(theta, where)
    monkeypatch.setattr(physics, "BLOCK", 20)
    np.testing.assert_array_equal(physics.log_speed(theta, where), whole)


@settings(max_examples=300)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.sampled_from([0.005, 0.05, 0.5, 0.95, 0.995]))
def test_a_quantile_has_its_probability_below_it(seed: int, parts: int, probability: float) -> None:
    generator = np.random.default_rng(seed)
    shares = generator.dirichlet(np.ones(parts))
    centers = generator.normal(0, generator.choice([0.01, 1.0, 10.0]), (parts, 20))
    below, above = np.exp(generator.uniform(-6, 2, (2, parts, 20)))
    found = _quantile(probability, shares, centers, below, above)

    def reached(at: np.ndarray) -> np.ndarray:
        return shares @ norm.cdf((at - centers) / np.where(at < centers, below, above))

    assert np.all(reached(found - 1e-4) <= probability + 1e-9)
    assert np.all(reached(found + 1e-4) >= probability - 1e-9)
