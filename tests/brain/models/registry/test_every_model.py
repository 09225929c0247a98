"""Every model of the registry comes back from its file and answers bit for bit as it did before."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from convoy.brain.models import ThroughputModel
from convoy.brain.models.demand import DemandModel
from convoy.brain.models.efficiency import EfficiencyModel
from convoy.brain.models.memory import MemoryModel
from convoy.brain.models.registry import ModelFile, decode, encode
from convoy.brain.models.registry.kinds import kind_of
from convoy.brain.models.startup import StartupModel
from convoy.core.api.errors import NotFound
from support.model_files import FACTS
from support.simulated_jobs import simulated_history


def demand():
    hours = pd.date_range("2026-01-01", periods=5 * 168, freq="h", tz="UTC")
    noise = np.random.default_rng(0).normal(0.0, 3.0, len(hours))
    used = 50.0 + 20.0 * np.sin(2 * np.pi * hours.hour / 24) + noise
    model = DemandModel().fit(pd.DataFrame({"time": hours, "resource": "cpu", "used": used}))
    return model, lambda each: each.forecast("7d")


def startup():
    generator = np.random.default_rng(0)
    template = generator.integers(0, 4, 40)
    size = generator.lognormal(0.0, 1.0, 40)
    jobs = pd.DataFrame(
        {
            "job": [f"job-{number}" for number in range(40)],
            "template": [f"template-{number}" for number in template],
            "strategy": "allreduce",
            "model_parameters": size * 1e6,
            "workers": 2.0 ** (template + 1),
            "worker_memory": size * 2**30,
        }
    )
    asked = jobs.drop(columns=["workers", "worker_memory"]).assign(template="")
    return StartupModel().fit(jobs), lambda each: each.recommend(asked)


def memory():
    generator = np.random.default_rng(0)
    times = pd.date_range("2026-01-01", periods=6 * 24, freq="h", tz="UTC")
    parts = []
    for number in range(12):
        used = 2.0**30 * (1.0 + number) * np.exp(np.cumsum(generator.normal(0.0, 0.02, len(times))))
        parts.append(pd.DataFrame({"container": f"pod-{number}", "time": times, "used_bytes": used, "oom": False}))
    usage = pd.concat(parts, ignore_index=True)
    return MemoryModel().fit(usage), lambda each: each.recommend(usage, oom_rate=0.05)


def throughput():
    history = simulated_history(4, 0)
    model = ThroughputModel().fit(history[history["workers"].isin([1, 2, 4]) & (history["batch_size"] == 16)])
    observed = simulated_history(1, 1, prefix="new").iloc[:3]
    asked = simulated_history(1, 1, prefix="new").drop(columns="throughput")
    return model, lambda each: each.predict(observed, asked)


def efficiency():
    generator = np.random.default_rng(0)
    hours = pd.date_range("2026-01-01", periods=20, freq="h", tz="UTC")
    parts = []
    for number in range(6):
        noise = 5.0 * np.exp(np.cumsum(generator.normal(0.1, 0.2, len(hours))))
        rows = pd.DataFrame({"observed_at": hours, "workers": 2.0, "batch_size": 32.0, "grad_sqr": 1.0})
        parts.append(rows.assign(job=f"job-{number}", grad_var=noise))
    asked = pd.DataFrame({"job": "job-0", "workers": 2.0, "batch_size": [32.0, 256.0]})
    return EfficiencyModel().fit(pd.concat(parts[1:])), lambda each: each.predict(parts[0], asked)


def kept(name):
    """Skip where this version has no such model, or can't keep it."""
    try:
        return kind_of(name).model()
    except NotFound as error:
        pytest.skip(str(error))


FITTED = {"demand": demand, "efficiency": efficiency, "memory": memory, "startup": startup, "throughput": throughput}


@pytest.mark.parametrize("name", FITTED)
def test_a_model_comes_back_from_its_file_and_answers_bit_for_bit(name):
    kept(name)
    model, asked = FITTED[name]()
    content = encode(ModelFile(replace(FACTS, name=name), model.state()))
    back = kind_of(name).model().restored(decode(content, name=name).state)
    pd.testing.assert_frame_equal(asked(back), asked(model), check_exact=True)
    assert encode(ModelFile(decode(content).facts, back.state())) == content


def test_a_model_that_this_version_cannot_keep_is_said_to_be_so():
    for module, attribute in (
        ("convoy.brain.models.weather", "WeatherModel"),
        ("convoy.brain.models.state", "State"),
    ):
        with pytest.raises(NotFound, match="none that can be kept in a file"):
            replace(kind_of("throughput"), module=module, attribute=attribute).model()
