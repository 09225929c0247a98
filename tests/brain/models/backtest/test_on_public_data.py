"""Baselines on public measurements come out near what others report of them on such jobs."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

from convoy.brain.features.published.throughput import data_sets, read_published
from convoy.brain.models.backtest.bootstrap import by_job
from convoy.brain.models.backtest.running import backtest
from convoy.brain.models.backtest.splits import Protocol
from convoy.brain.models.baselines import MatrixFactorization, Optimus, Pollux

DATA = Path(os.environ.get("CONVOY_DATA", Path(__file__).parents[5] / "shared" / "data"))


def means(name: str, methods: dict[str, type], sizes: tuple[int, ...], seeds: int) -> pd.DataFrame:
    """Return MdAPE and regret of P1, one row a (method, k)."""
    sets = {one.name: one for one in data_sets(read_published(DATA))} if DATA.is_dir() else {}
    if name not in sets:
        pytest.skip(f"no {name}: set CONVOY_DATA to a folder that holds it")
    found = backtest(sets[name], methods, (Protocol.INTERPOLATE,), seeds, sizes={Protocol.INTERPOLATE: sizes})
    return by_job(found).groupby(["method", "k"])[["mdape", "regret"]].mean()


def test_parameter_servers() -> None:
    found = means("dl2_ps", {"mf": MatrixFactorization, "optimus": Optimus}, (1, 3, 8), seeds=9)
    assert found.loc[("mf", 1), "mdape"] < 30
    assert found.loc[("mf", 8), "mdape"] < 14
    assert found.loc[("optimus", 8), "mdape"] < 12
    # history helps where little was seen of the job itself
    assert found.loc[("mf", 3), "mdape"] < found.loc[("optimus", 3), "mdape"]


@pytest.mark.timeout(180)
def test_all_reduce() -> None:
    found = means("sia_allreduce", {"pollux": Pollux}, (1, 5), seeds=3)
    assert found.loc[("pollux", 1), "mdape"] < 40
    assert found.loc[("pollux", 5), "mdape"] < 20
    assert found.loc[("pollux", 5), "regret"] < found.loc[("pollux", 1), "regret"]
