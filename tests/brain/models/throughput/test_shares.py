"""What a step consists of, from coefficients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.brain.models.throughput.physics import (
    APPLY,
    CONNECT,
    NEED,
    OVERLAP,
    PUSH,
    SAMPLE,
    SERVER_NEED,
    SHARD,
    SIZE,
    Configurations,
    Form,
    step_of,
)
from convoy.brain.models.throughput.prior import default_scope
from convoy.brain.models.throughput.shares import GROUPS, TERMS, doubted, grouped, shares_of, told_apart

DEFAULT = default_scope(Form()).mean
THETA = st.lists(st.floats(-6, 2), min_size=SIZE, max_size=SIZE).map(np.array)


def sizes(workers: list[float], nodes: list[float], ps: float = 0.0, cpu: float = np.nan) -> Configurations:
    ones = np.ones(len(workers))
    return Configurations(
        workers=np.array(workers),
        nodes=np.array(nodes),
        ps=ps * ones,
        asynchronous=0 * ones,
        batch_size=ones,
        accumulation_steps=ones,
        accelerators=ones,
        worker_cpu=cpu * ones,
        ps_cpu=cpu * ones,
        cluster_cpu=np.inf * ones,
    )


@given(THETA, st.sampled_from([0.0, 3.0]), st.sampled_from([np.nan, 0.5, 4.0]), st.sampled_from([1.0, 3.0]))
def test_shares_are_shares_of_one_step(theta: np.ndarray, ps: float, cpu: float, steps: float) -> None:
    where = replace(sizes([1, 4, 16], [1, 2, 16], ps, cpu), accumulation_steps=np.full(3, steps))
    where = replace(where, cluster_cpu=np.full(3, 6.0))
    shares = shares_of(theta[None], where)
    assert set(shares) == set(TERMS)
    assert np.sum(list(shares.values()), axis=0) == pytest.approx(1.0)
    assert np.min(list(shares.values())) >= 0.0
    assert np.sum(list(grouped(shares).values()), axis=0) == pytest.approx(1.0)
    assert set(grouped(shares)) == set(GROUPS)


@given(THETA, st.sampled_from([0.0, 3.0]))
def test_a_term_that_becomes_shorter_shortens_the_step_by_its_share(theta: np.ndarray, ps: float) -> None:
    where = sizes([1, 4, 16], [1, 2, 16], ps)
    shares, before = shares_of(theta[None], where), step_of(theta[None], where).log_step
    for name, term in TERMS.items():
        if term.coefficient is not None:
            less = theta.copy()
            less[term.coefficient] += np.log(0.99)
            shorter = 1.0 - np.exp(step_of(less[None], where).log_step - before)
            assert shorter == pytest.approx(0.01 * shares[name], rel=0.1, abs=1e-6)


def test_without_overlap_a_share_is_a_part_of_the_seconds_and_what_is_hidden_has_none() -> None:
    theta = np.vstack([DEFAULT, DEFAULT])
    theta[:, OVERLAP] = [-20.0, np.log(60.0)]
    where = sizes([4], [4])
    step = step_of(theta, where)
    share = grouped(shares_of(theta, where))["compute"][:, 0]
    assert share[0] == pytest.approx(step.compute[0, 0] / (step.compute[0, 0] + step.exchange[0, 0]))
    assert share[1] == pytest.approx(float(step.compute[1, 0] > step.exchange[1, 0]), abs=0.01)


def test_missing_cores_are_named_at_workers_and_at_servers() -> None:
    theta = DEFAULT.copy()
    theta[[NEED, SERVER_NEED]] = np.log(4.0)
    theta[[OVERLAP, CONNECT, SHARD]] = -30.0
    enough = shares_of(theta[None], sizes([4], [1], 1.0, 400.0))
    short = shares_of(theta[None], sizes([4], [1], 1.0, 1.0))
    for name, terms in (("worker_cores", ("samples", "overhead")), ("server_cores", ("traffic", "update"))):
        assert enough[name][0, 0] == pytest.approx(0.0, abs=1e-6)
        without = sum(short[term][0, 0] for term in terms)
        assert short[name][0, 0] / without == pytest.approx(3.0, rel=0.01)  # a quarter of the cores


def test_servers_are_most_of_a_step_that_they_make_long() -> None:
    theta = DEFAULT.copy()
    theta[[PUSH, APPLY]] += 6.0
    assert grouped(shares_of(theta[None], sizes([8], [1], 1.0)))["servers"][0, 0] > 0.95


def test_what_depends_on_the_batch_is_told_apart_only_where_draws_agree_on_it() -> None:
    generator = np.random.default_rng(0)
    for sd, apart in ((0.3, True), (2.0, False)):
        theta = np.tile(DEFAULT, (200, 1))
        theta[:, SAMPLE] += sd * generator.standard_normal(200)
        shares = {name: values[:, 0] for name, values in shares_of(theta, sizes([2], [1])).items()}
        told = told_apart(theta, shares)
        assert ("samples" in told) is apart
        assert np.sum(list(told.values()), axis=0) == pytest.approx(1.0)


@given(THETA, st.sampled_from([0.0, 3.0]), st.floats(0.001, 2.0))
def test_doubted_shares_are_shares_of_one_step_and_nothing_stays_nothing(
    theta: np.ndarray, ps: float, off: float
) -> None:
    shares = shares_of(np.tile(theta, (4, 1)), sizes([1, 4, 16], [1, 2, 16], ps))
    found = doubted(shares, np.full(4, off**2), np.random.default_rng(0))
    assert np.sum(list(found.values()), axis=0) == pytest.approx(1.0)
    for name, share in shares.items():
        assert np.min(found[name]) >= 0.0
        assert not found[name][share == 0].any()


@pytest.mark.parametrize("off", [0.05, 0.3])
def test_doubted_shares_scatter_around_the_formula_s_as_far_as_it_is_off(off: float) -> None:
    """Of two parts, one of s: the step is off by ``off``, so its share by off sqrt(s (1 - s) / (1 + off^2))."""
    shares = shares_of(np.tile(DEFAULT, (20_000, 1)), sizes([4], [4]))
    groups = grouped(shares)
    assert groups["servers"].max() == groups["cores"].max() == 0.0
    share = groups["compute"][0, 0]
    found = grouped(doubted(shares, np.full(20_000, off**2), np.random.default_rng(0)))["compute"]
    assert found.mean() == pytest.approx(share, abs=0.01)
    assert found.std() == pytest.approx(off * np.sqrt(share * (1 - share) / (1 + off**2)), rel=0.03)
