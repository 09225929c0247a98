"""Rounds of deploying, measuring and choosing: what they cost, and what published policies choose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from convoy.brain.features.published.throughput import data_sets, read_published
from convoy.brain.models.backtest.data import DataSet
from convoy.brain.models.backtest.policies import dlrover_rules, doubling, expected_improvement, greedy, stay
from convoy.brain.models.backtest.running import BacktestFailed
from convoy.brain.models.backtest.tuning import (
    ROUND_SECONDS,
    Start,
    Tuner,
    comparable,
    history_best,
    path_scores,
    run_rounds,
    smallest,
    tuning_backtest,
)
from convoy.brain.models.baselines import GaussianProcess, MatrixFactorization, NearestNeighbour, Pollux
from support.made_measurements import write_measurements

NOTHING = pd.DataFrame({"workers": []})


def job(speeds: list[float]) -> pd.DataFrame:
    """Return a parameter-server job with as many workers as its place says, and these speeds."""
    workers = np.arange(1.0, len(speeds) + 1)
    return pd.DataFrame({"job": "a", "workers": workers, "ps": 1.0, "strategy": "ps", "throughput": speeds})


def test_scores_of_a_path_by_hand() -> None:
    rows = job([50.0, 100.0, 80.0])
    found = path_scores([0, 0, 2, 2, 1, 1, 1, 0], rows, smooth=np.array([60.0, 80.0, 90.0]))
    assert found["smoothed_regret"] == pytest.approx(0.0)
    assert found["smoothed_final"] == pytest.approx(100 / 3)
    assert found["early_regret"] == pytest.approx(20.0)
    assert found["regret"] == pytest.approx(0.0)
    assert found["final_regret"] == pytest.approx(50.0)
    assert found["moves"] == 3
    made = 1800 * (50 + 50 + 80 + 100 + 100) + 1710 * (80 + 100 + 50)
    assert found["running_loss"] == pytest.approx(100 * (1 - made / (8 * 1800 * 100)))


def test_a_policy_sees_what_ran_in_the_order_in_which_it_ran_last() -> None:
    seen: list[tuple[list[float], float, int]] = []
    plan = iter([2, None, 0, 2, None, None, None])

    def policy(model: Any, observed: pd.DataFrame, candidates: pd.DataFrame, horizon: float, restart: float,
               trial: float, seed: int) -> tuple[int | None, str]:  # fmt: skip
        assert "throughput" not in candidates.columns
        assert (restart, trial) == (90.0, ROUND_SECONDS)
        seen.append((observed["workers"].tolist(), horizon, seed))
        return next(plan), "Planned"

    path, silent = run_rounds(policy, NearestNeighbour(), job([1.0, 2.0, 3.0]), 0, 4, "here")
    assert path == [0, 2, 2, 0, 2, 2, 2, 2]
    assert silent == 0
    assert [workers for workers, _, _ in seen] == [[1], [1, 3], [1, 3], [3, 1], [1, 3], [1, 3], [1, 3]]
    assert [horizon for _, horizon, _ in seen] == [1800.0 * left for left in range(7, 0, -1)]
    assert len({seed for _, _, seed in seen}) == 7


def test_a_policy_that_fails_or_chooses_what_is_not_there_fails_the_run() -> None:
    def wrong(*_: Any, **__: Any) -> tuple[int | None, str]:
        return 3, "Wrong"

    def broken(*_: Any, **__: Any) -> tuple[int | None, str]:
        raise RuntimeError("by design")

    with pytest.raises(BacktestFailed, match=r"here: chose place 3 \(Wrong\) of 3"):
        run_rounds(wrong, NearestNeighbour(), job([1.0, 2.0, 3.0]), 0, 0, "here")
    with pytest.raises(BacktestFailed, match="here: round 1: RuntimeError: by design"):
        run_rounds(broken, NearestNeighbour(), job([1.0, 2.0, 3.0]), 0, 0, "here")


def test_where_rounds_begin() -> None:
    history = pd.concat([job([1.0, 5.0, 4.0]).assign(job="b"), job([30.0, 90.0, 100.0]).assign(job="c")])
    rows = job([7.0, 8.0, 9.0])
    assert smallest(rows) == 0
    assert history_best(history, rows) == 1  # 1 and 0.9 of the best, against 0.8 and 1
    assert history_best(history.iloc[:0], rows) == 0
    once = pd.concat([history, job([1.0, 1.0, 1.0, 50.0]).assign(job="d")])
    assert history_best(once, job([1.0, 2.0, 3.0, 4.0])) == 1  # four workers were measured by one of three


def test_what_does_the_same_work_is_compared() -> None:
    frame = pd.DataFrame({"workers": [1.0, 2.0, 4.0, 4.0], "batch_size": [32.0, 16.0, 8.0, 32.0], "throughput": 1.0})
    assert frame.iloc[comparable(frame.assign(strategy="allreduce"))]["batch_size"].tolist() == [32.0, 16.0, 8.0]
    assert len(comparable(job([1.0, 2.0]))) == 2


def ask(policy: Any, model: Any, rows: pd.DataFrame, ran: list[int], left: int = 7) -> tuple[int | None, str]:
    found: tuple[int | None, str] = policy(model, rows.iloc[ran], rows, left * 1800.0, 90.0, 1800.0, 0)
    return found


def test_greedy_goes_where_it_pays() -> None:
    rows = job([50.0, 100.0, 51.0])

    class Knows:
        def predict(self, observed: pd.DataFrame, query: pd.DataFrame) -> pd.DataFrame:
            return pd.DataFrame({"mean": rows["throughput"].to_numpy(), "reason": "Known"})

    assert ask(greedy(), Knows(), rows, [0]) == (1, "Fastest")
    assert ask(greedy(), Knows(), rows, [1]) == (None, "NotPaidBack")
    near = job([99.0, 100.0, 51.0])
    rows = near
    assert ask(greedy(), Knows(), near, [0], left=1)[0] is None  # 1 % more for half an hour, 5 % of it lost
    assert ask(greedy(probes=2), Knows(), near, [0])[1] == "Probe"
    assert ask(greedy(probes=2), Knows(), near, [0, 2])[1] != "Probe"


def test_expected_improvement_explores_then_keeps_the_best() -> None:
    rows = job([10.0, 18.0, 24.0, 27.0, 26.0, 22.0, 15.0])
    model = GaussianProcess().fit(NOTHING)
    place, reason = ask(expected_improvement, model, rows, [0])
    assert reason == "ExpectedImprovement"
    assert place not in (None, 0)
    assert ask(expected_improvement, model, rows, [3, 0], left=1) == (3, "BackToBest")
    assert ask(expected_improvement, model, rows, [0, 3], left=1) == (None, "Converged")


def test_doubling_stops_where_it_brings_little() -> None:
    rows = job([10.0, 19.0, 25.0, 20.0])
    assert ask(doubling, None, rows, [0]) == (1, "Doubled")
    assert ask(doubling, None, rows, [0, 1]) == (3, "Doubled")
    assert ask(doubling, None, rows, [0, 1, 3]) == (None, "GainTooSmall")
    assert ask(doubling, None, job([10.0, 8.0]), [0, 1]) == (0, "BackToBest")


def test_dlrovers_rules_by_hand() -> None:
    sizes = [(float(w), float(p)) for w in range(1, 13) for p in range(1, 13)]
    rows = pd.DataFrame(sizes, columns=["workers", "ps"]).assign(job="a", strategy="ps", throughput=10.0, ps_cpu=2.0)
    at = {size: place for place, size in enumerate(sizes)}

    def loaded(*ran: tuple[float, float], used: float, speeds: list[float] | None = None) -> tuple[Any, str]:
        observed = rows.iloc[[at[size] for size in ran]].assign(ps_cpu_used=used, ps_cpu_used_max=used)
        if speeds is not None:
            observed = observed.assign(throughput=speeds)
        place, reason = dlrover_rules(None, observed, rows, 12600.0, 90.0, 1800.0, 0)
        return (None if place is None else sizes[place]), reason

    # room for 15 servers: 2 * 15 / (0.5 * 2) = 30 times the workers, so 20; 20/2 * 0.5 * 2 / 2 = 5 servers
    assert loaded((2.0, 2.0), used=0.5) == ((2.0, 5.0), "InitAdjust")
    # 80 % at 4 workers: ceil(0.8 / 0.3 * 4) = 11, but at most 4 more
    assert loaded((1.0, 5.0), (4.0, 5.0), used=0.6) == ((8.0, 5.0), "ServersIdle")
    assert loaded((1.0, 5.0), (8.0, 5.0), used=1.95) == ((4.0, 5.0), "ServersExhausted")
    assert loaded((1.0, 5.0), (8.0, 5.0), used=1.8) == (None, "ServersLoaded")
    assert loaded((1.0, 5.0), (8.0, 5.0), used=0.6, speeds=[10.0, 8.0]) == (None, "Decelerated")
    assert dlrover_rules(None, rows.iloc[:1], rows, 1.0, 1.0, 1.0, 0) == (None, "NoLoad")


def test_all_tuners_on_made_measurements(tmp_path: Path) -> None:
    sets: dict[str, DataSet] = {one.name: one for one in data_sets(read_published(write_measurements(tmp_path)))}
    tuners = {
        "greedy": Tuner(MatrixFactorization, greedy()),
        "rules": Tuner(NearestNeighbour, dlrover_rules),
        "no change": Tuner(NearestNeighbour, stay),
    }
    found = tuning_backtest(sets["dl2_ps"], tuners, seeds=2)
    assert set(found["k"]) == set(Start)
    by_method = found[found["k"] == "smallest"].groupby("method")[["regret", "moves", "running_loss"]].mean()
    assert by_method.loc["no change", "moves"] == 0
    assert by_method.loc["no change", "regret"] == pytest.approx(by_method.loc["no change", "running_loss"])
    assert by_method.loc["greedy", "regret"] < 15 < by_method.loc["no change", "regret"]
    without_form = {"rules": tuners["rules"], "pollux": Tuner(Pollux, greedy(probes=3))}
    silent = tuning_backtest(sets["cmdare_ps"], without_form, seeds=1)
    assert (silent["undefined"] == 1).all()
    assert (silent["moves"] == 0).all()
