from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convoy.brain.models import ThroughputModel
from convoy.brain.plan import Decision, JobRequest, Limits, Prices, Stage, plan_job
from support.simulated_jobs import simulated_history

EMPTY = ThroughputModel().fit(pd.DataFrame())
LEARNED = ThroughputModel().fit(simulated_history(8, seed=31, per_node=1, alike=0.3))


def seen(speeds: dict[int, float], batch: float = 32.0) -> pd.DataFrame:
    rows = [(size, size, batch / size, speed) for size, speed in speeds.items() for _ in range(3)]
    frame = pd.DataFrame(rows, columns=["workers", "nodes", "batch_size", "throughput"])
    return frame.assign(job="mine", window_seconds=5.0)


def asking(current: int = 1, **changes: object) -> JobRequest:
    limits = Limits(min_workers=1, max_workers=4, free_cpu=4.0, largest_node_cpu=4.0, global_batch=32)
    request = JobRequest("mine", current, limits, horizon_seconds=3600, restart_seconds=3.0, batch_size=32.0)
    return replace(request, **changes)  # type: ignore[arg-type]


def test_an_empty_history_is_explored_and_called_so() -> None:
    answer = plan_job(EMPTY, seen({1: 100.0}), asking())
    assert (answer.decision, answer.reason) == (Decision.EXPLORE, "NoHistoryYet")
    assert "exploring" in answer.message
    assert answer.target_workers > 1
    assert answer.history_jobs == 0
    assert answer.observations == 3


def test_no_observation_and_no_history_is_undefined() -> None:
    answer = plan_job(EMPTY, pd.DataFrame(), asking())
    assert (answer.decision, answer.reason, answer.target_workers) == (Decision.UNDEFINED, "NothingKnown", 1)
    assert math.isnan(answer.predicted)


def test_a_job_not_yet_measured_waits() -> None:
    answer = plan_job(LEARNED, pd.DataFrame(), asking())
    assert (answer.decision, answer.reason) == (Decision.UNDEFINED, "NoObservations")


def test_history_makes_it_a_change_with_its_numbers() -> None:
    answer = plan_job(LEARNED, seen({1: 100.0, 2: 150.0}), asking(), Prices(per_core=0.05, currency="EUR"))
    assert (answer.decision, answer.reason) == (Decision.CHANGE, "MoreSpeed")
    assert answer.lower99 < answer.lower90 < answer.predicted < answer.upper90 < answer.upper99
    assert answer.price_per_hour == pytest.approx(0.05 * answer.target_workers)
    for part in ("from 1 worker to", "samples/s (90 % interval", "probability", "EUR/h"):
        assert part in answer.message
    verdicts = {option.workers: option.verdict for option in answer.options}
    assert list(verdicts) == [1, 2, 3, 4]
    assert verdicts[answer.target_workers] == "chosen"
    assert all(verdicts.values())


def test_observed_gains_are_taken_and_observed_losses_given_back() -> None:
    falling = seen({1: 100.0, 2: 70.0, 3: 60.0, 4: 50.0})
    answer = plan_job(LEARNED, falling, asking(current=4))
    assert (answer.decision, answer.target_workers) == (Decision.CHANGE, 1)
    stay = plan_job(LEARNED, falling, asking(current=1))
    assert (stay.decision, stay.target_workers) == (Decision.KEEP, 1)
    rising = seen({1: 100.0, 2: 190.0, 4: 350.0})
    assert plan_job(EMPTY, rising, asking(current=1)).target_workers == 4


def test_a_small_gain_isnt_worth_moving() -> None:
    flat = seen({1: 100.0, 2: 98.0, 3: 98.0, 4: 98.0})
    answer = plan_job(LEARNED, flat, asking())
    assert (answer.decision, answer.target_workers) == (Decision.KEEP, 1)
    assert answer.reason in ("GainTooSmall", "AlreadyBest")


def test_a_restart_that_the_horizon_cant_pay_back_isnt_made() -> None:
    rising = seen({1: 100.0, 2: 150.0})
    limits = Limits(1, 2, global_batch=32)
    kept = plan_job(EMPTY, rising, asking(limits=limits, horizon_seconds=60.0, restart_seconds=40.0))
    assert (kept.decision, kept.reason) == (Decision.KEEP, "RestartNotPaidBack")
    assert "40 s" in kept.message
    changed = plan_job(EMPTY, rising, asking(limits=limits, horizon_seconds=600.0, restart_seconds=40.0))
    assert (changed.decision, changed.target_workers) == (Decision.CHANGE, 2)


@pytest.mark.parametrize("model", [EMPTY, LEARNED])
def test_an_infinite_restart_cost_keeps_the_size(model: ThroughputModel) -> None:
    answer = plan_job(model, seen({1: 100.0, 2: 190.0}), asking(restart_seconds=math.inf))
    assert (answer.decision, answer.target_workers) == (Decision.KEEP, 1)


def test_too_many_changes_an_hour_keep_the_size() -> None:
    often = asking(changes_last_hour=12)
    answer = plan_job(LEARNED, seen({1: 100.0}), often)
    assert (answer.decision, answer.reason) == (Decision.KEEP, "ChangedTooOften")
    for allowed in (13, 0):  # 0: no limit
        limits = replace(often.limits, changes_per_hour=allowed)
        assert plan_job(LEARNED, seen({1: 100.0}), replace(often, limits=limits)).reason != "ChangedTooOften"


def test_never_more_than_the_machine_has() -> None:
    limits = Limits(min_workers=1, max_workers=4, free_cpu=2.0, largest_node_cpu=2.0, global_batch=32)
    answer = plan_job(LEARNED, seen({1: 100.0}), asking(limits=limits))
    assert [option.workers for option in answer.options] == [1, 2]
    assert answer.target_workers == 2


def test_a_size_outside_the_limits_is_brought_back() -> None:
    answer = plan_job(EMPTY, seen({1: 100.0}), asking(current=9))
    assert (answer.decision, answer.reason, answer.target_workers) == (Decision.CHANGE, "BackWithinLimits", 4)


def test_nothing_fits() -> None:
    answer = plan_job(LEARNED, seen({1: 100.0}), asking(limits=Limits(1, 4, largest_node_cpu=1.0, worker_cpu=2.0)))
    assert (answer.decision, answer.reason, answer.target_workers) == (Decision.UNDEFINED, "NothingFits", 1)
    assert "no node has 2 cores" in answer.message


def test_at_the_start_what_the_user_wrote_stands() -> None:
    answer = plan_job(LEARNED, pd.DataFrame(), asking(current=1, stage=Stage.START))
    assert (answer.decision, answer.reason, answer.target_workers) == (Decision.KEEP, "ReplicasGiven", 1)


def test_at_the_start_history_proposes_a_size_where_none_was_written() -> None:
    answer = plan_job(LEARNED, pd.DataFrame(), asking(current=0, stage=Stage.START))
    assert (answer.decision, answer.reason) == (Decision.CHANGE, "StartFromHistory")
    assert 1 <= answer.target_workers <= 4
    nothing = plan_job(EMPTY, pd.DataFrame(), asking(current=0, stage=Stage.START))
    assert (nothing.decision, nothing.reason) == (Decision.UNDEFINED, "NothingKnown")


def test_a_strategy_that_isnt_known_is_named() -> None:
    answer = plan_job(LEARNED, seen({1: 100.0}), asking(strategy="gossip"))
    assert (answer.decision, answer.reason) == (Decision.UNDEFINED, "StrategyNotPlanned")


def test_an_objective_that_isnt_known_is_named() -> None:
    answer = plan_job(LEARNED, seen({1: 100.0}), asking(objective="beauty"))
    assert (answer.decision, answer.reason) == (Decision.UNDEFINED, "UnknownObjective")


def test_a_fixed_global_batch_is_split_among_workers() -> None:
    limits = Limits(1, 4, global_batch=32)
    split = plan_job(LEARNED, seen({1: 100.0}), asking(limits=limits))
    whole = plan_job(LEARNED, seen({1: 100.0}), asking(limits=Limits(1, 4)))
    assert split.options[3].predicted < whole.options[3].predicted


def test_the_surroundings_of_observations_are_those_of_the_request() -> None:
    limits = Limits(1, 2, free_cpu=2.0, global_batch=32)
    bare = plan_job(LEARNED, seen({1: 100.0, 2: 150.0}), asking(limits=limits))
    assert bare.options[1].basis == "Observed"
    assert bare.options[1].predicted == pytest.approx(150, rel=0.1)


SPEEDS = st.dictionaries(st.integers(1, 6), st.floats(1, 1e4), max_size=4)
REQUESTS = st.builds(
    JobRequest,
    job=st.just("mine"),
    current_workers=st.integers(0, 8),
    limits=st.builds(
        Limits,
        min_workers=st.integers(0, 4),
        max_workers=st.integers(0, 8),
        node_unit=st.integers(0, 3),
        free_cpu=st.sampled_from([0.0, 0.5, 2.0, 5.0, 64.0]),
        largest_node_cpu=st.sampled_from([0.0, 0.5, 2.0, 64.0]),
        global_batch=st.sampled_from([0, 1, 32, 512]),
    ),
    stage=st.sampled_from(Stage),
    horizon_seconds=st.sampled_from([0.0, 1.0, 60.0, 3600.0, 1e7]),
    restart_seconds=st.sampled_from([0.0, 1.0, 30.0, 1e9, math.inf, math.nan]),
    batch_size=st.sampled_from([0.0, 32.0]),
)


@settings(max_examples=15)
@given(SPEEDS, REQUESTS, st.booleans())
def test_every_request_has_an_answer_within_its_limits(
    speeds: dict[int, float], request: JobRequest, learned: bool
) -> None:
    model = LEARNED if learned else EMPTY
    answer = plan_job(model, seen(speeds), request)
    assert answer.reason
    assert answer.message
    if answer.decision in (Decision.CHANGE, Decision.EXPLORE):
        limits = request.limits
        assert max(1, limits.min_workers) <= answer.target_workers <= limits.max_workers
        assert answer.target_workers % max(1, limits.node_unit) == 0
        assert limits.free_cpu == 0 or answer.target_workers <= limits.free_cpu
        assert math.isfinite(answer.predicted) or answer.reason == "BackWithinLimits"
    else:
        assert answer.target_workers == request.current_workers
    assert repr(plan_job(model, seen(speeds), request)) == repr(answer)


@settings(max_examples=8)
@given(
    st.floats(0.05, 1.0),
    st.integers(2, 6),
    st.integers(0, 4),
    st.booleans(),
)
def test_more_room_never_gives_fewer_workers(efficiency: float, most: int, more: int, learned: bool) -> None:
    model = LEARNED if learned else EMPTY
    observed = seen({1: 100.0, 2: 100.0 * (1 + efficiency)})
    sizes = [
        plan_job(model, observed, asking(current=1, limits=Limits(1, room, global_batch=32))).target_workers
        for room in (most, most + more)
    ]
    assert sizes[0] <= sizes[1]


@given(st.floats(1.0, 1e6), st.floats(1.0, 1e6))
@settings(max_examples=8)
def test_a_costlier_restart_never_makes_a_change_likelier(cheap: float, dear: float) -> None:
    cheap, dear = sorted((cheap, dear))
    observed = seen({1: 100.0, 2: 160.0})
    requests = [asking(limits=Limits(1, 2, global_batch=32), restart_seconds=restart) for restart in (cheap, dear)]
    decisions = [plan_job(LEARNED, observed, request).decision is Decision.CHANGE for request in requests]
    assert decisions[0] or not decisions[1]


def test_numbers_of_options_are_finite_or_undefined_together() -> None:
    answer = plan_job(LEARNED, seen({1: 100.0, 3: 240.0}), asking(), Prices(per_core=1.0))
    for option in answer.options:
        numbers = [option.predicted, option.lower90, option.upper99, option.price_per_hour]
        assert np.isfinite(numbers).all()
