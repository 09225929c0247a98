"""One job with parameter servers: a known truth is found, limits hold, a shortage of cores is seen."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convoy.brain.models import ThroughputModel
from convoy.brain.plan import (
    ADJUSTABLE,
    Decision,
    JobRecommendation,
    JobRequest,
    Limits,
    Prices,
    Size,
    Stage,
    plan_job,
)
from convoy.brain.plan.sizes import MOST_SIZES, fits, sizes_within
from support.known_speeds import KnownSpeeds, served

MODEL = KnownSpeeds(served)
LIMITS = Limits(1, 10, max_ps=10, worker_cpu=2.0, ps_cpu=2.0, free_cpu=24.0, largest_node_cpu=8.0)


def seen(workers: int = 2, ps: int = 1, **columns: float) -> pd.DataFrame:
    row = {"job": "mine", "strategy": "ps", "workers": workers, "nodes": workers, "ps": ps, "batch_size": 32.0}
    speed = served(pd.Series(row))
    return pd.DataFrame([{**row, "throughput": speed, "window_seconds": 60.0, **columns}] * 3)


def asking(workers: int = 2, ps: int = 1, limits: Limits = LIMITS, **changes: object) -> JobRequest:
    request = JobRequest(
        "mine", workers, limits, strategy="ps", current_ps=ps, restart_seconds=20.0, adjustable=ADJUSTABLE
    )
    return replace(request, **changes)  # type: ignore[arg-type]


def target(answer: JobRecommendation) -> Size:
    return Size(answer.target_workers, answer.target_ps)


def best(limits: Limits) -> float:
    return max(served(pd.Series({"workers": s.workers, "ps": s.ps})) for s in sizes_within(limits, served=True).sizes)


@given(st.integers(2, 10), st.integers(1, 10), st.sampled_from([0.0, 12.0, 16.0, 24.0, 40.0]))
@settings(max_examples=25)
def test_the_best_pair_within_limits_is_found(most: int, most_ps: int, cores: float) -> None:
    limits = replace(LIMITS, max_workers=most, max_ps=most_ps, free_cpu=cores)
    answer = plan_job(MODEL, seen(), asking(limits=limits), Prices(per_core=0.05))
    found = target(answer)
    assert fits(limits, found)
    assert 1 <= found.workers <= most
    assert 1 <= found.ps <= most_ps
    speed = served(pd.Series({"workers": found.workers, "ps": found.ps}))
    assert speed >= 0.93 * best(limits)  # a gain below the hysteresis isn't worth a restart
    if answer.moves:
        assert speed > served(pd.Series({"workers": 2, "ps": 1}))


def test_the_answer_says_both_numbers() -> None:
    answer = plan_job(MODEL, seen(), asking(), Prices(per_core=0.05, currency="EUR"))
    assert (answer.decision, answer.reason) == (Decision.CHANGE, "MoreSpeed")
    assert (
        f"from 2 workers and 1 server to {answer.target_workers} workers and {answer.target_ps} servers"
        in answer.message
    )
    assert answer.price_per_hour == pytest.approx(0.05 * 2 * (answer.target_workers + answer.target_ps))
    assert all(option.verdict for option in answer.options)


def test_a_real_model_plans_servers_from_the_jobs_own_measurements() -> None:
    sizes = [(2, 1), (2, 3), (4, 2), (8, 4), (6, 2)]
    own = pd.concat([seen(*size) for size in sizes] + [seen(2, 1)], ignore_index=True)
    answer = plan_job(ThroughputModel().fit(pd.DataFrame()), own, asking(limits=replace(LIMITS, free_cpu=0.0)))
    assert answer.moves, answer.message
    assert answer.target_ps > 1
    speed = served(pd.Series({"workers": answer.target_workers, "ps": answer.target_ps}))
    assert speed > 1.5 * served(pd.Series({"workers": 2, "ps": 1}))


def test_grids_stay_small_and_keep_the_present_size_and_the_ends() -> None:
    limits = Limits(1, 5000, max_ps=500)
    caps = sizes_within(limits, served=True, present=Size(1234, 77))
    assert len(caps.sizes) <= MOST_SIZES
    assert {Size(1, 1), Size(1234, 77), Size(1233, 77), Size(5000, 500)} <= set(caps.sizes)


def test_what_cant_be_adjusted_stays() -> None:
    answer = plan_job(MODEL, seen(), asking(adjustable=("workers",)))
    assert {option.ps for option in answer.options} == {1}
    assert answer.target_ps == 1
    answer = plan_job(MODEL, seen(), asking(adjustable=("ps",)))
    assert {option.workers for option in answer.options} == {2}


def test_a_job_that_doesnt_say_its_servers_has_those_it_was_measured_with() -> None:
    answer = plan_job(MODEL, seen(2, 3), asking(ps=0, limits=replace(LIMITS, max_workers=2, max_ps=3)))
    assert target(answer).ps == 3


def test_a_hot_server_gets_more_cores() -> None:
    """Workers and servers can't be more: cores can."""
    limits = replace(LIMITS, max_workers=6, max_ps=2)
    own = seen(6, 2, ps_cpu_used=0.9, ps_cpu_used_max=1.95, ps_cpu=2.0)
    answer = plan_job(MODEL, own, asking(6, 2, limits))
    assert (answer.decision, answer.reason) == (Decision.CHANGE, "HotServer")
    assert "the busiest server uses 1.95 of 2 cores" in answer.message
    [server] = [role for role in answer.roles if role.role == "ps"]
    assert (server.cpu, server.decided) == (4.0, True)
    advice = plan_job(MODEL, own, asking(6, 2, limits, adjustable=("workers", "ps")))
    [server] = [role for role in advice.roles if role.role == "ps"]
    assert (advice.decision, server.cpu, server.decided) == (Decision.KEEP, 3.0, False)
    assert any("isn't carried out by itself" in note for note in advice.notes)


def test_overloaded_servers_get_one_more_where_cores_are_at_their_most() -> None:
    limits = replace(LIMITS, max_workers=6, max_ps=4, largest_node_cpu=2.0)
    own = seen(6, 2, ps_cpu_used=1.9, ps_cpu_used_max=1.95, ps_cpu=2.0)
    answer = plan_job(MODEL, own, asking(6, 2, limits))
    assert (answer.decision, answer.reason) == (Decision.CHANGE, "ServersOverloaded")
    assert answer.target_ps > 2


def test_a_start_without_history_begins_as_it_is_written() -> None:
    nothing = KnownSpeeds(lambda row: math.nan, history_jobs=0)
    answer = plan_job(nothing, pd.DataFrame(), asking(0, 0, stage=Stage.START))
    assert (answer.decision, answer.reason) == (Decision.UNDEFINED, "NothingKnown")
    written = plan_job(nothing, pd.DataFrame(), asking(2, 1, stage=Stage.START))
    assert (written.decision, written.reason, target(written)) == (Decision.KEEP, "ReplicasGiven", Size(2, 1))


@given(st.floats(0.0, 1e5), st.floats(0.0, 1e5))
@settings(max_examples=30)
def test_a_costlier_restart_never_makes_a_change_likelier(one: float, other: float) -> None:
    cheap, dear = sorted((one, other))
    moves = [
        plan_job(MODEL, seen(), asking(restart_seconds=restart)).decision is Decision.CHANGE
        for restart in (max(cheap, 1e-3), max(dear, 1e-3))
    ]
    assert moves[0] or not moves[1]


@given(st.integers(2, 8), st.integers(0, 6), st.integers(1, 6), st.integers(0, 4))
@settings(max_examples=30)
def test_larger_limits_never_lower_what_is_predicted(most: int, more: int, most_ps: int, more_ps: int) -> None:
    found = [
        plan_job(MODEL, seen(), asking(limits=replace(LIMITS, max_workers=w, max_ps=p))).predicted
        for w, p in ((most, most_ps), (most + more, most_ps + more_ps))
    ]
    assert found[1] >= found[0] * (1 - 0.0201)  # within CLOSE, what takes least is taken
