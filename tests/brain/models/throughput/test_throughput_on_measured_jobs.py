"""Accuracy and calibration on what was really measured: the shipped history, and public data where present."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from convoy.brain.models import ThroughputModel

BENCHMARK = Path(__file__).resolve().parents[4] / "benchmarks" / "bench_throughput_model.py"
SHARED = BENCHMARK.parents[2] / "shared" / "data"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    found = importlib.util.spec_from_file_location("bench_throughput_model", BENCHMARK)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_shipped_history_is_what_the_measuring_script_writes(bench: ModuleType) -> None:
    rows = bench.shipped_jobs()
    assert rows["origin"].str.len().min() > 0
    assert set(rows["strategy"]) == {"allreduce"}
    assert (rows["throughput"] > 0).all()
    assert (rows["nodes"] == rows["workers"]).all()
    assert (rows.groupby("job")["workers"].nunique() >= 2).mean() >= 0.75
    ThroughputModel().fit(rows)


def test_two_workers_from_one_on_the_shipped_history(bench: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    rows = bench.shipped_jobs()
    held90, held99, errors = [], [], []
    for name, own in rows.groupby("job"):
        model = ThroughputModel().fit(rows[rows["job"] != name])
        observed, asked = own[own["workers"] == 1], own[own["workers"] == 2].iloc[:1]
        if observed.empty or asked.empty:
            continue
        truth = float(own.loc[own["workers"] == 2, "throughput"].mean())
        usual = model.predict(observed, asked).iloc[0]
        wide = model.predict(observed, asked, level=0.99).iloc[0]
        held90.append(usual["lower"] <= truth <= usual["upper"])
        held99.append(wide["lower"] <= truth <= wide["upper"])
        errors.append(abs(usual["mean"] / truth - 1))
    with capsys.disabled():
        print(
            f"\nshipped history, 2 workers from 1, {len(errors)} jobs left out in turn: median error "
            f"{100 * np.median(errors):.1f} %, 90 % intervals held {np.mean(held90):.0%}, 99 % {np.mean(held99):.0%}"
        )
    assert np.mean(held99) >= 0.9
    assert np.mean(held90) >= 0.7
    assert len(errors) >= 10
    assert np.median(errors) <= 0.2


@pytest.mark.timeout(300)  # it fits the model to a dozen jobs, once without each
def test_public_all_reduce_jobs(bench: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bench.data_folder() or SHARED
    if not folder.is_dir():
        pytest.skip("no sia_allreduce data: set CONVOY_DATA to a folder that holds it")
    result = bench.evaluate(bench.sia_jobs(folder), sizes=(1, 3), seeds=2, baselines=False)
    by_job: pd.DataFrame = result.groupby(["k", "job"])[["mdape", "coverage"]].mean()
    by_k = by_job.groupby("k").mean()
    with capsys.disabled():
        print(f"\nsia_allreduce, 18 jobs, leave-one-model-out:\n{by_k.round(2).to_string()}")
    assert by_k.loc[1, "mdape"] <= 45
    assert by_k.loc[3, "mdape"] <= 25
    assert by_k.loc[1, "coverage"] >= 0.8
    assert by_k.loc[3, "coverage"] >= 0.8
