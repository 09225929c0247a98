"""Accuracy and calibration on public gradient statistics, each application left out in turn."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

from convoy.brain.features.published.efficiency import read_efficiency
from convoy.brain.models.backtest.bootstrap import mean_interval

BENCHMARK = Path(__file__).resolve().parents[4] / "benchmarks" / "bench_efficiency_model.py"
DATA = Path(os.environ.get("CONVOY_DATA", BENCHMARK.parents[2] / "shared" / "data")) / "workloads"


@pytest.mark.skipif(not DATA.is_dir(), reason="no folder of data sets: CONVOY_DATA=DIR make test")
def test_later_efficiency_at_other_batches(capsys: pytest.CaptureFixture[str]) -> None:
    found = importlib.util.spec_from_file_location("bench_efficiency_model", BENCHMARK)
    assert found is not None
    assert found.loader is not None
    bench = importlib.util.module_from_spec(found)
    found.loader.exec_module(bench)
    figures = bench.scores(read_efficiency(DATA), False)
    _, low, high = mean_interval(figures["within"].to_numpy())
    with capsys.disabled():
        print(
            f"\n{figures.round(3).to_string()}\nwithin 90 %: {figures['within'].mean():.3f} [{low:.3f}, {high:.3f}]"
        )
    assert low <= 0.90 <= high
    assert figures["within"].min() >= 0.70
    # of a geometric mean over applications, keeping the last reading's noise errs more
    assert np.exp(np.log(figures["mean_error"] / figures["keep_mean"]).mean()) < 0.8
