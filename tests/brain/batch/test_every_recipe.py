"""Each kind of model fitted to a store with rows of its own: read, fitted, tested, kept, restored."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest

from convoy.brain.batch.fit import fit
from convoy.brain.batch.recipes import DLROVER
from convoy.brain.features import frames
from convoy.brain.features.startup import startup_jobs
from convoy.brain.models.registry.kinds import kind_of
from convoy.brain.store.model_files import Registry, Stage
from convoy.core.api.errors import NotFound
from support.clock import FakeClock
from support.stored import GIB, START, Stored, pod_load, speed

WEEK = timedelta(days=7)


@pytest.fixture
def stored(engine):
    return Stored(engine)


@pytest.fixture
def registry(engine, home):
    return Registry(engine, home / "models")


def clock(after):
    return FakeClock((START + after).timestamp())


def loaded(registry, name):
    return registry.load(name, kind_of(name).model().restored).model


def test_demand_is_fitted_to_the_hours_of_clusters(engine, stored, registry):
    noise = np.random.default_rng(0).normal(0.0, 3.0, 9 * 168)
    machine = stored.machine(cpu_capacity=100.0)
    load = [
        pod_load(3600.0 * hour + 1800.0, cpu_cores=float(50.0 + 20.0 * np.sin(2 * np.pi * hour / 24) + noise[hour]))
        for hour in range(9 * 168)
    ]
    stored.machine_load(machine, load)
    found = fit(engine, registry, "demand", clock(timedelta(days=63)), fresh=WEEK)
    assert (found.version.stage, found.decision.reason) == (Stage.CHAMPION, "BetterThanBaseline")
    assert (found.version.rows, found.version.jobs) == (2 * 9 * 168, 2)  # of memory nothing is known
    assert found.version.trained_until == START + timedelta(days=63) - timedelta(hours=1)
    expected = kind_of("demand").model()().fit(frames.cluster_hours(engine)).forecast("1d")
    pd.testing.assert_frame_equal(loaded(registry, "demand").forecast("1d"), expected)


def test_startup_is_fitted_to_jobs_that_succeeded(engine, stored, registry):
    generator = np.random.default_rng(0)
    for number in range(12):
        template = number % 3
        job = stored.job(f"uid-{number}", state="Succeeded", template=f"template-{template}")
        memory = round((1 + template) * GIB * generator.uniform(0.9, 1.1))
        for rank in range(2 ** (template + 1)):
            stored.pod(job, f"worker-{rank}", rank=rank, cpu_allotted=1.0 + template, memory_allotted=memory)
    found = fit(engine, registry, "startup", clock(timedelta(days=1)), fresh=WEEK)
    assert (found.version.rows, found.version.jobs) == (12, 12)
    assert (found.version.stage, found.decision.reason) == (Stage.CHAMPION, "BetterThanBaseline"), found.decision
    jobs = startup_jobs(engine)
    asked = jobs[["job", "template", "strategy"]].assign(job="new")
    expected = kind_of("startup").model()().fit(jobs).recommend(asked)
    pd.testing.assert_frame_equal(loaded(registry, "startup").recommend(asked), expected)


def test_memory_is_fitted_to_what_pods_used(engine, stored, registry):
    generator = np.random.default_rng(0)
    job = stored.job()
    for number in range(12):
        name, level = f"worker-{number}", GIB * generator.uniform(1.0, 4.0)
        stored.pod(job, name, rank=number, memory_allotted=8 * GIB)
        used = level * np.exp(np.cumsum(generator.normal(0.0, 0.01, 6 * 24)))
        rows = [
            pod_load(3600.0 * hour + 1800.0, name, rank=number, memory_bytes=int(each))
            for hour, each in enumerate(used)
        ]
        stored.pod_load(job, rows)
    found = fit(engine, registry, "memory", clock(timedelta(days=6)), fresh=WEEK)
    assert (found.version.rows, found.version.jobs) == (12 * 6 * 24, 12)
    assert found.decision.evidence["against"] == DLROVER
    assert found.version.score["jobs"] == 12
    usage = frames.memory_usage(engine)
    expected = kind_of("memory").model()().fit(usage).recommend(usage, oom_rate=0.05)
    version = registry.version("memory")
    back = kind_of("memory").model().restored(registry.read(version).state)
    pd.testing.assert_frame_equal(back.recommend(usage, oom_rate=0.05), expected)


def test_rows_after_the_moment_of_the_fit_are_not_in_it(engine, stored, registry):
    for number in range(2):
        job = stored.job(f"uid-{number}", state="Succeeded", last_seen=START + number * WEEK)
        stored.pod(job, rank=0, cpu_allotted=1.0)
    version = fit(engine, registry, "startup", clock(timedelta(days=1)), fresh=WEEK).version
    assert (version.rows, version.trained_until) == (1, datetime(2026, 3, 2, 9, tzinfo=UTC))


def test_efficiency_is_fitted_to_the_noise_that_jobs_told(engine, stored, registry):
    """Noise grows by the 1.5th power of age, from a level of the job's own."""
    generator = np.random.default_rng(0)
    for number in range(10):
        level, job = generator.normal(1.0, 1.0), stored.job(f"uid-{number}")
        noise = np.exp(level + 1.5 * np.log(np.arange(1, 13)) + 0.1 * generator.standard_normal(12))
        stored.speed(
            job,
            [
                speed(3600.0 * hour + 3599.0, seconds=3600.0, grad_sqr=1.0, grad_var=float(32.0 * ratio))
                for hour, ratio in enumerate(noise)
            ],
        )
    stored.speed(stored.job("uid-silent"), [speed(60.0)])
    found = fit(engine, registry, "efficiency", clock(timedelta(days=1)), fresh=WEEK)
    assert (found.version.rows, found.version.jobs) == (120, 10)
    assert (found.version.stage, found.decision.reason) == (Stage.CHAMPION, "BetterThanBaseline"), found.decision
    model = loaded(registry, "efficiency")
    assert model.drift_.slope == pytest.approx(1.5, abs=0.2)
    noise = frames.gradient_noise(engine)
    assert noise.groupby("job").size().tolist() == [12] * 10
    assert noise["observed_at"].max() == pd.Timestamp(START) + pd.Timedelta(seconds=12 * 3600 - 1)
    assert model.drift_ == kind_of("efficiency").model()().fit(noise).drift_


def test_without_noise_there_is_no_efficiency_to_fit(engine, stored, registry):
    stored.speed(stored.job(), [speed(60.0)])
    with pytest.raises(NotFound, match="gradient_noise=True"):
        fit(engine, registry, "efficiency", clock(timedelta(days=1)), fresh=WEEK)


def test_too_few_readings_are_no_back_test(engine, stored, registry):
    for number in range(6):
        stored.speed(stored.job(f"uid-{number}"), [speed(60.0, grad_sqr=1.0, grad_var=32.0)])
    found = fit(engine, registry, "efficiency", clock(timedelta(days=1)), fresh=WEEK)
    assert (found.version.stage, found.decision.reason) == (Stage.REFUSED, "NoBackTest")
