"""Every method on every case: nothing leaks, nothing is swallowed, the same run gives the same figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

from convoy.brain.features.published.throughput import data_sets, read_published
from convoy.brain.models.backtest.data import DataSet, disguised
from convoy.brain.models.backtest.load import load_backtest
from convoy.brain.models.backtest.running import BacktestFailed, backtest
from convoy.brain.models.backtest.splits import Protocol
from convoy.brain.models.backtest.suite import Contestants, run
from convoy.brain.models.baselines import BASELINES, NearestLoad, NearestNeighbour, Optimus
from support.made_measurements import write_measurements

PREDICTED = (Protocol.INTERPOLATE, Protocol.EXTRAPOLATE, Protocol.COLD)


@pytest.fixture
def sets(tmp_path: Path) -> dict[str, DataSet]:
    return {one.name: one for one in data_sets(read_published(write_measurements(tmp_path)))}


class Spy(NearestNeighbour):
    """Keeps what it was shown."""

    fitted: ClassVar[list[pd.DataFrame]]
    asked: ClassVar[list[tuple[int, pd.DataFrame, pd.DataFrame]]]

    def fit(self, history: pd.DataFrame) -> Spy:
        type(self).fitted.append(history)
        return super().fit(history)

    def predict(self, observed: pd.DataFrame, query: pd.DataFrame, level: float = 0.9) -> pd.DataFrame:
        type(self).asked.append((len(type(self).fitted) - 1, observed, query))
        return super().predict(observed, query, level)


@pytest.mark.parametrize("all_history", [False, True])
def test_a_model_never_sees_its_group_nor_what_it_is_asked(sets: dict[str, DataSet], *, all_history: bool) -> None:
    here: Any = type("Here", (Spy,), {"fitted": [], "asked": []})
    who = Contestants({"spy": here}, {}, {})
    run(
        [sets["dl2_ps"], sets["sia_allreduce"]],
        who,
        PREDICTED,
        2,
        elsewhere=list(sets.values()) if all_history else [],
    )
    hidden = pd.concat([disguised(sets[name].frame) for name in ("dl2_ps", "sia_allreduce")])
    group = hidden.drop_duplicates("job").set_index("job")["group"]
    assert len(here.asked) > 50
    for place, observed, query in here.asked:
        history = here.fitted[place]
        (job,) = query["job"].unique()
        assert group[job] not in set(history["job"].map(group))
        assert len(history)
        assert "group" not in history.columns
        assert not {"throughput", "worker_cpu_used", "ps_cpu_used_max", "compute_seconds", "status", "group"} & set(
            query
        )
        assert set(observed["job"]) <= {job}
    crossed = any(rows["strategy"].nunique() > 1 for rows in here.fitted)
    assert crossed == all_history


def test_rows_seen_are_not_scored_and_figures_are_the_same_again(sets: dict[str, DataSet]) -> None:
    methods = {"optimus": Optimus}
    first = backtest(sets["dl2_ps"], methods, PREDICTED, 2)
    again = backtest(sets["dl2_ps"], methods, PREDICTED, 2)
    pd.testing.assert_frame_equal(first, again)
    assert set(first["job"]) == {"ResNet-50", "vgg-16", "wlm"}
    eight = first[(first["protocol"] == "P1") & (first["k"] == 8)]
    assert eight["mdape"].mean() < 5  # made by its own formula, 2 % of noise
    assert (first.loc[first["k"] == 1, "undefined"] == 1).all()
    assert first.loc[first["k"] == 1, "mdape"].isna().all()


@pytest.mark.parametrize("name", ["dl2_ps", "cmdare_ps", "sia_allreduce", "c3o", "c3o_foreign"])
def test_every_baseline_runs_on_every_set(sets: dict[str, DataSet], name: str) -> None:
    few = sets[name].frame
    few = few[few["job"].isin(sorted(few["job"].unique())[::3])]
    found = backtest(replace(sets[name], frame=few), BASELINES, (Protocol.INTERPOLATE, Protocol.COLD), 1)
    assert set(found["method"]) == set(BASELINES)
    assert set(found["protocol"]) == {"P1", "P3"}
    answers = found[found["k"] > 0].groupby("method")["undefined"].mean()
    assert answers["nearest neighbour"] == 0
    defined = found[found["undefined"] < 1]
    assert np.isfinite(defined[["mdape", "mape", "coverage", "width"]]).all(axis=None)


class Broken(NearestNeighbour):
    """Fails on what it is asked, in one way or another."""

    way = "raises"

    def predict(self, observed: pd.DataFrame, query: pd.DataFrame, level: float = 0.9) -> pd.DataFrame:
        if self.way == "raises":
            raise ZeroDivisionError("by design")
        found = super().predict(observed, query, level)
        if self.way == "interval":
            return found.assign(lower=found["mean"] * 2)
        if self.way == "reason":
            return found.assign(mean=np.nan, reason="")
        return found.iloc[::-1]


@pytest.mark.parametrize(
    ("way", "said"),
    [("raises", "ZeroDivisionError: by design"), ("interval", "0 < lower"), ("reason", "reason"), ("order", "index")],
)
def test_a_method_that_fails_fails_the_run_by_name(sets: dict[str, DataSet], way: str, said: str) -> None:
    broken = type("Here", (Broken,), {"way": way})
    with pytest.raises(BacktestFailed, match=rf"mine.*dl2_ps P1 k=1 job \S+ seed 0.*{said}"):
        backtest(sets["dl2_ps"], {"mine": broken}, PREDICTED, 2)


def test_a_method_that_cannot_learn_fails_the_run(sets: dict[str, DataSet]) -> None:
    class Unlearned(NearestNeighbour):
        def fit(self, history: pd.DataFrame) -> Any:
            raise ValueError("too hard")

    with pytest.raises(BacktestFailed, match="mine can't learn from a history of dl2_ps: ValueError: too hard"):
        backtest(sets["dl2_ps"], {"mine": Unlearned}, PREDICTED, 2)


def test_load_at_configurations_that_were_not_seen(sets: dict[str, DataSet]) -> None:
    found = load_backtest(sets["dl2_ps"], {"nearest": NearestLoad}, seeds=6)
    assert set(found["k"]) == {1, 3, 5}
    means = found.groupby("k")[["worker_cpu_mdape", "ps_cpu_mae"]].mean()
    assert (means.loc[5] < means.loc[1]).all()
    assert (found[["worker_cpu_undefined", "ps_cpu_undefined"]] == 0).all(axis=None)
    assert not len(load_backtest(sets["cmdare_ps"], {"nearest": NearestLoad}, seeds=2))
