from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from convoy.brain.models import ThroughputModel
from convoy.brain.plan import next_configuration
from convoy.brain.plan.explore import move_values, trial_values
from convoy.core.api.errors import InvalidInput
from support.simulated_jobs import simulated_history

GO = ("WorthTrying", "BetterKnown")
Array = NDArray[np.float64]


class Known:
    """Speeds by workers, each uncertain by a factor of its own; NaN where none is given."""

    def __init__(self, speeds: dict[float, tuple[float, float]]) -> None:
        self.speeds = speeds

    def sample(self, observed: pd.DataFrame, query: pd.DataFrame, draws: int, seed: int) -> Array:
        generator = np.random.default_rng(seed)
        columns = []
        for workers in query["workers"]:
            mean, sd = self.speeds.get(float(workers), (math.nan, 0.0))
            columns.append(mean * np.exp(sd * generator.standard_normal(draws)))
        return np.stack(columns, axis=1)


def sizes(*workers: float) -> pd.DataFrame:
    return pd.DataFrame({"workers": [float(one) for one in workers]})


def chosen(
    speeds: dict[float, tuple[float, float]],
    ran: tuple[float, ...],
    candidates: tuple[float, ...],
    horizon: float = 7200.0,
    restart: float = 90.0,
) -> tuple[int | None, str]:
    observed = sizes(*ran).assign(throughput=[speeds.get(one, (1.0, 0.0))[0] for one in ran])
    return next_configuration(Known(speeds), observed, sizes(*candidates), horizon, restart, 1800.0, 0)


def test_a_faster_size_is_gone_to_and_a_slower_one_isnt() -> None:
    speeds = {1.0: (100.0, 0.0), 2.0: (150.0, 0.0), 3.0: (50.0, 0.0)}
    assert chosen(speeds, (1,), (1, 2, 3)) == (1, "WorthTrying")
    assert chosen(speeds, (2,), (1, 2, 3)) == (None, "NotWorthARestart")


def test_the_job_is_at_the_last_observation_and_returns_to_what_was_better() -> None:
    speeds = {1.0: (100.0, 0.0), 2.0: (150.0, 0.0)}
    assert chosen(speeds, (2, 1), (1, 2)) == (1, "BetterKnown")
    assert chosen(speeds, (1, 2), (1, 2)) == (None, "NotWorthARestart")


def test_what_is_uncertain_is_tried_while_the_horizon_lasts() -> None:
    speeds = {1.0: (100.0, 0.0), 2.0: (95.0, 0.4)}
    assert chosen(speeds, (1,), (1, 2), horizon=8 * 1800.0) == (1, "WorthTrying")
    assert chosen(speeds, (1,), (1, 2), horizon=1800.0) == (None, "NotWorthARestart")


def test_what_ran_is_no_trial() -> None:
    speeds = {1.0: (100.0, 0.0), 2.0: (95.0, 0.4)}
    assert chosen(speeds, (2, 1), (1, 2), horizon=8 * 1800.0) == (None, "NotWorthARestart")


def test_the_present_size_needs_no_place_among_the_candidates() -> None:
    speeds = {1.0: (100.0, 0.0), 2.0: (150.0, 0.0), 9.0: (400.0, 0.0)}
    assert chosen(speeds, (1,), (2,)) == (0, "WorthTrying")
    assert chosen(speeds, (9,), (1, 2)) == (None, "NotWorthARestart")


def test_sizes_that_differ_in_anything_known_arent_the_same() -> None:
    model = Known({1.0: (100.0, 0.0)})
    observed = sizes(1).assign(ps=1.0, worker_cpu=np.nan, throughput=100.0)
    there = pd.DataFrame({"workers": [1, 1], "ps": [2, 1], "worker_cpu": [2.0, 2.0]})
    assert next_configuration(model, observed, there.iloc[1:], 7200.0, 90.0, 1800.0, 0) == (None, "OnlyCandidate")
    assert next_configuration(model, observed, there, 7200.0, 90.0, 1800.0, 0) == (None, "NotWorthARestart")


def test_nothing_to_choose_by_is_called_so() -> None:
    fast = {1.0: (100.0, 0.0), 2.0: (150.0, 0.0)}
    assert chosen(fast, (1,), ()) == (None, "NoCandidates")
    assert chosen(fast, (), (1, 2)) == (None, "NoObservations")
    assert chosen(fast, (1,), (1,)) == (None, "OnlyCandidate")
    assert chosen({}, (1,), (1, 2)) == (None, "NothingKnown")
    assert chosen({2.0: (150.0, 0.0)}, (1,), (1, 2)) == (None, "NothingKnown")
    assert chosen({1.0: (150.0, 0.0)}, (1,), (1, 2)) == (None, "NothingKnown")
    assert chosen(fast, (1,), (1, 2), horizon=90.0) == (None, "HorizonTooShort")
    assert chosen(fast, (1,), (1, 2), restart=math.inf, horizon=math.inf) == (None, "HorizonTooShort")
    assert chosen(fast, (1,), (1, 2), horizon=math.inf) == (1, "WorthTrying")


@pytest.mark.parametrize("seconds", [(-1.0, 1.0, 1.0), (1.0, math.nan, 1.0), (1.0, 1.0, -5.0)])
def test_seconds_that_cant_be_are_named(seconds: tuple[float, float, float]) -> None:
    with pytest.raises(InvalidInput, match="_seconds is "):
        next_configuration(Known({}), sizes(1), sizes(1, 2), *seconds, 0)


@pytest.mark.parametrize(("observed", "candidates"), [({}, {"workers": [1.0]}), ({"workers": [1.0]}, {})])
def test_frames_without_workers_are_named(observed: dict[str, object], candidates: dict[str, object]) -> None:
    frames = [pd.DataFrame({"ps": [1.0], **columns}) for columns in (observed, candidates)]
    with pytest.raises(InvalidInput, match="no column workers"):
        next_configuration(Known({}), *frames, 7200.0, 90.0, 1800.0, 0)


def test_by_hand() -> None:
    speeds = np.array([[100.0, 200.0], [100.0, 50.0]])
    # staying: 100,000; the trial: 100 s lost, 200 s at 125, then 700 s at 200, or 600 s at 100
    assert trial_values(speeds, 0, 1000.0, 100.0, 200.0)[1] == pytest.approx(200 * 125 + (140_000 + 60_000) / 2 - 1e5)
    assert move_values(speeds, 0, 1000.0, 100.0)[1] == pytest.approx(900 * 125 - 1e5)


SPEEDS = st.dictionaries(
    st.integers(1, 8).map(float), st.tuples(st.floats(0.1, 1e6), st.sampled_from([0.0, 0.1, 0.5, 2.0])), max_size=8
)
PLACES = st.lists(st.integers(1, 9).map(float), max_size=6).map(tuple)
SECONDS = st.sampled_from([0.0, 1.0, 90.0, 1800.0, 14400.0, 1e7, math.inf])


@settings(max_examples=200)
@given(SPEEDS, PLACES, PLACES, SECONDS, SECONDS)
def test_the_answer_is_another_defined_candidate_or_none(
    speeds: dict[float, tuple[float, float]],
    ran: tuple[float, ...],
    candidates: tuple[float, ...],
    horizon: float,
    restart: float,
) -> None:
    place, reason = chosen(speeds, ran, candidates, horizon, restart)
    assert chosen(speeds, ran, candidates, horizon, restart) == (place, reason)
    assert (place is None) == (reason not in GO)
    if horizon <= restart:
        assert place is None
    if place is not None:
        assert 0 <= place < len(candidates)
        assert candidates[place] in speeds
        assert candidates[place] != ran[-1]
        assert (reason == "BetterKnown") == (candidates[place] in ran)


@given(st.lists(st.floats(0.1, 100.0), min_size=1, max_size=7), SECONDS, SECONDS)
def test_nothing_moves_where_nothing_is_faster(slower: list[float], horizon: float, restart: float) -> None:
    speeds = {float(place + 2): (speed, 0.0) for place, speed in enumerate(slower)}
    speeds[1.0] = (100.0, 0.0)
    assert chosen(speeds, (1.0,), tuple(speeds), horizon, restart)[0] is None


@given(SPEEDS.filter(lambda found: len(found) >= 2), st.sampled_from([0.0, 90.0]), st.floats(0.0, 1e5))
def test_rows_that_are_undefined_change_nothing(
    speeds: dict[float, tuple[float, float]], restart: float, horizon: float
) -> None:
    there = tuple(speeds)
    alone = chosen(speeds, there[:1], there, horizon, restart)
    assert chosen(speeds, there[:1], (*there, 50.0, 51.0), horizon, restart) == alone


@given(st.floats(0.0, 1e4), st.floats(0.0, 1e4), st.floats(0.0, 1e4), st.integers(0, 99))
def test_a_trial_is_worth_no_less_than_going_for_good_and_no_more_the_dearer_a_restart(
    horizon: float, restart: float, trial: float, seed: int
) -> None:
    speeds = np.exp(np.random.default_rng(seed).standard_normal((64, 4)))
    tried = trial_values(speeds, 0, horizon, restart, trial)
    assert np.all(tried >= move_values(speeds, 0, horizon, restart) - 1e-6 * (1.0 + horizon))
    dearer = trial_values(speeds, 0, horizon, 1.5 * restart, trial)
    assert np.all(dearer <= tried + 1e-6 * (1.0 + horizon))


def test_with_the_model_a_job_ends_near_its_best_size() -> None:
    model = ThroughputModel().fit(simulated_history(12, seed=5, per_node=1))
    job = simulated_history(1, seed=77, noise=0.0, prefix="new", per_node=1)
    rows = job[job["batch_size"] == 32].drop(columns="window_seconds").reset_index(drop=True)
    candidates = rows.drop(columns="throughput")
    path = [0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for round_ in range(1, 8):
            asked = (model, rows.iloc[list(dict.fromkeys(reversed(path)))[::-1]], candidates)
            place, _ = next_configuration(*asked, (8 - round_) * 1800.0, 90.0, 1800.0, round_)
            path.append(path[-1] if place is None else place)
    assert rows["throughput"][path[-1]] >= 0.9 * rows["throughput"].max()
    assert np.count_nonzero(np.diff(path)) <= 3
