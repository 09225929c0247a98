"""The modes of many jobs, found together, are those that each job's own fit finds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convoy.brain.models.throughput import batched
from convoy.brain.models.throughput.channels import COUNT
from convoy.brain.models.throughput.frame import Observations
from convoy.brain.models.throughput.history import jobs_of
from convoy.brain.models.throughput.kinds import kind_of
from convoy.brain.models.throughput.misfit import Misfit, Seen
from convoy.brain.models.throughput.mode import Mode, Scope, find_mode
from convoy.brain.models.throughput.physics import ALL_REDUCE, SERVED, Configurations, Form, with_unknown_batch
from convoy.brain.models.throughput.prior import default_scope
from support.simulated_jobs import simulated_history

FORMS = {"allreduce": ALL_REDUCE, "ps": SERVED}
WITHIN = 1e-4
FAR_OFF = 1e-6
"""Of the objective, where it is large: nonsense that no physics fits isn't climbed to its end in twelve steps, and
there rounding grows."""


def objective(seen: Seen, scope: Scope, covariance: np.ndarray, theta: np.ndarray) -> float:
    residual = seen.values - seen.physics(theta[None])[0]
    away = theta - scope.mean
    fit = residual @ np.linalg.solve(covariance, residual)
    return float(0.5 * fit + 0.5 * away @ np.linalg.solve(scope.covariance, away))


def assert_alike(
    jobs: Sequence[Seen], scope: Scope, covariances: Sequence[np.ndarray], found: Sequence[Mode]
) -> None:
    assert len(found) == len(jobs)
    for seen, covariance, mode in zip(jobs, covariances, found, strict=True):
        single = find_mode(seen, scope, covariance)
        expected = objective(seen, scope, covariance, single.theta)
        assert objective(seen, scope, covariance, mode.theta) == pytest.approx(expected, abs=WITHIN, rel=FAR_OFF)
        assert mode.value == pytest.approx(seen.physics(mode.theta[None])[0], abs=1e-9)
        assert mode.slope == pytest.approx(seen.jacobian(mode.theta)[1], abs=1e-6)
        precision = mode.slope.T @ np.linalg.solve(covariance, mode.slope) + np.linalg.inv(scope.covariance)
        assert mode.covariance @ precision == pytest.approx(np.eye(len(precision)), abs=1e-6)


def random_job(generator: np.random.Generator, strategy: str, unknown_batch: bool) -> Observations:
    """Return a job with whatever a job may have: channels' readings, accumulation, allotments, a small cluster."""
    count = int(generator.integers(1, 12))
    workers = generator.integers(1, 33, count).astype(np.float64)

    def sometimes(low: float, high: float) -> np.ndarray:
        share = generator.choice([0.0, 0.5, 1.0])
        return np.where(generator.random(count) < share, generator.uniform(low, high, count), np.nan)

    batch = generator.choice([0.5, 1.0, 2.0], count)
    configurations = Configurations(
        workers=workers,
        nodes=np.minimum(workers, generator.integers(1, 9, count)),
        ps=generator.integers(1, 9, count).astype(np.float64) if strategy == "ps" else np.zeros(count),
        asynchronous=np.full(count, float(strategy == "ps" and generator.random() < 0.5)),
        batch_size=np.where(generator.random(count) < 0.7, np.nan, batch) if unknown_batch else batch,
        accumulation_steps=generator.choice([1.0, 4.0], count),
        accelerators=np.full(count, generator.choice([1.0, 2.0])),
        worker_cpu=sometimes(0.5, 8.0),
        ps_cpu=sometimes(0.5, 8.0),
        cluster_cpu=np.full(count, generator.choice([16.0, np.inf])),
    )
    return Observations(
        configurations,
        log_speed=generator.normal(3.0, 1.0) + np.log(workers) + generator.normal(0, 0.3, count),
        variance=generator.uniform(1e-4, 1e-2, count),
        sessions=generator.integers(1, 4, count).astype(np.float64),
        shown=np.array([sometimes(0.1, 4.0) for _ in range(COUNT)]),
    )


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(FORMS)), st.booleans(), st.integers(1, 12))
def test_random_jobs_end_where_each_ones_own_fit_does(
    seed: int, strategy: str, unknown_batch: bool, count: int
) -> None:
    generator = np.random.default_rng(seed)
    form = with_unknown_batch(FORMS[strategy]) if unknown_batch else FORMS[strategy]
    scope = default_scope(form)
    jobs = [Seen.of(random_job(generator, strategy, unknown_batch), Misfit(), form) for _ in range(count)]
    covariances = [seen.covariance(float(generator.choice([0.5, 1.0, 4.0]))) for seen in jobs]
    assert_alike(jobs, scope, covariances, batched.find_modes(jobs, scope, covariances))


def simulated(count: int) -> tuple[list[Seen], list[np.ndarray]]:
    jobs = []
    for job in jobs_of(simulated_history(count, seed=3), 48):
        kept = np.random.default_rng(len(jobs)).permutation(32)[: 4 + len(jobs) % 8]
        assert kind_of(job.observations.configurations) == "allreduce"
        jobs.append(Seen.of(job.observations.take(kept).relative(16.0), Misfit(), ALL_REDUCE))
    return jobs, [seen.covariance(1.0) for seen in jobs]


def test_simulated_jobs_end_where_each_ones_own_fit_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched, "CHUNK", 64)  # several chunks
    jobs, covariances = simulated(40)
    scope = default_scope(ALL_REDUCE)
    assert_alike(jobs, scope, covariances, batched.find_modes(jobs, scope, covariances))


def test_a_start_at_the_mode_stays_there() -> None:
    jobs, covariances = simulated(5)
    scope = default_scope(ALL_REDUCE)
    modes = batched.find_modes(jobs, scope, covariances)
    again = batched.find_modes(jobs, scope, covariances, [mode.theta for mode in modes])
    for before, after in zip(modes, again, strict=True):
        assert after.theta == pytest.approx(before.theta, abs=0.05)
    one_step = batched.find_modes(jobs, scope, covariances, steps=1)
    assert any(np.max(np.abs(a.theta - b.theta)) > 0.05 for a, b in zip(modes, one_step, strict=True))


def test_no_jobs_have_no_modes() -> None:
    assert batched.find_modes([], default_scope(ALL_REDUCE), []) == []


def test_what_cannot_be_fitted_together_is_refused() -> None:
    jobs, covariances = simulated(2)
    scope = default_scope(ALL_REDUCE)
    with pytest.raises(ValueError, match="another form"):
        batched.find_modes(jobs, default_scope(Form()), covariances)
    with pytest.raises(ValueError, match="2 jobs, 1 covariances"):
        batched.find_modes(jobs, scope, covariances[:1])
    with pytest.raises(ValueError, match="1 covariances aren't positive definite"):
        batched.find_modes(jobs, scope, [covariances[0], -covariances[1]])
    nothing = Seen.of(jobs[0].observations.take(np.zeros(0, dtype=np.intp)), Misfit(), ALL_REDUCE)
    with pytest.raises(ValueError, match="without observations"):
        batched.find_modes([nothing], scope, [nothing.covariance(1.0)])


@pytest.mark.gpu
def test_a_gpu_finds_the_same() -> None:
    jobs, covariances = simulated(20)
    scope = default_scope(ALL_REDUCE)
    assert_alike(jobs, scope, covariances, batched.find_modes(jobs, scope, covariances, device="cuda"))


def test_a_history_of_many_jobs_teaches_the_same_together_and_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from convoy.brain.models.throughput import learning

    few = [
        replace(job, observations=replace(job.observations.relative(16.0), group=""), scatter=(0.0, 0.0))
        for job in jobs_of(simulated_history(12, seed=5), 8)
    ]
    monkeypatch.setattr(learning, "REFINEMENTS", 0)
    apart, _ = learning.learn(few, ALL_REDUCE)
    monkeypatch.setattr(learning, "MOST_SINGLE", 0)
    together, _ = learning.learn(few, ALL_REDUCE)
    for one, other in zip(apart.jobs, together.jobs, strict=True):
        assert other.theta == pytest.approx(one.theta, abs=1e-3)


def test_models_are_imported_without_torch() -> None:
    code = (
        "import sys, convoy.brain.models, convoy.brain.models.throughput.batched; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=50)
