"""Whatever is asked: an answer with its reason, within the limits, never of nothing, the same when asked again."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convoy.brain.models import ThroughputModel
from convoy.brain.plan import Decision, JobRequest, Limits, Prices, Stage, plan_job
from convoy.brain.plan.sizes import Size, fits
from support.known_speeds import KnownSpeeds, reduced, served

URGENT = ("BackWithinLimits", "OutOfMemory")


def broken(row: pd.Series) -> float:
    """Return a speed that isn't known at odd sizes."""
    return math.nan if row["workers"] % 2 else served(row) if row.get("ps", 0.0) > 0 else reduced(row)


def undefined(row: pd.Series) -> float:
    return math.nan


def right(row: pd.Series) -> float:
    return served(row) if row.get("ps", 0.0) > 0 else reduced(row)


def seldom(usual: object, *others: object) -> st.SearchStrategy[object]:
    """Return a strategy that takes what forbids most only now and then: else nothing fits, and no more is tested."""
    return st.sampled_from([usual] * 9 + list(others))


LIMITS = st.builds(
    Limits,
    min_workers=seldom(1, -1, 3),
    max_workers=seldom(8, 0, 2),
    node_unit=seldom(1, 0, 2, 3),
    free_cpu=seldom(0.0, 0.5, 6.0, 24.0),
    free_memory=seldom(0, 2**30, 2**36),
    largest_node_cpu=seldom(8.0, 0.0, 1.0),
    largest_node_memory=seldom(0, 2**34),
    worker_cpu=seldom(2.0, 0.0, 1.0),
    worker_memory=seldom(2**30, 0),
    global_batch=seldom(64, 0, 1),
    changes_per_hour=seldom(0, 3),
    allowed_workers=seldom((), (1, 2, 4), (3,), (100,)),
    min_ps=seldom(0, 1, 3),
    max_ps=seldom(4, 0, 1),
    ps_cpu=seldom(2.0, 0.0),
    quota_cpu=seldom(0.0, 5.0),
    worker_accelerators=seldom(0.0, 1.0),
    quota_accelerators=seldom(0.0, 3.0),
    max_batch=seldom(0, 200),
)
REQUESTS = st.builds(
    JobRequest,
    job=st.just("mine"),
    current_workers=st.integers(0, 9),
    current_ps=st.integers(0, 5),
    limits=LIMITS,
    stage=seldom(Stage.RUNNING, Stage.START, Stage.START),
    horizon_seconds=seldom(3600.0, 0.0, 60.0),
    restart_seconds=seldom(5.0, 0.0, 1e9, math.inf, math.nan),
    changes_last_hour=st.integers(0, 5),
    strategy=st.sampled_from(["allreduce", "ps"] * 9 + ["gossip"]),
    objective=st.sampled_from(["throughput", "cost", "deadline"] * 9 + ["beauty"]),
    deadline_seconds=seldom(600.0, math.nan, -5.0, 0.0, 1e5, math.inf),
    remaining_samples=st.sampled_from([1e5, 4e5, 1e6, math.nan, -5.0, 0.0, 1.0, math.inf]),
    pinned=seldom(False, True),
    frozen_seconds=seldom(0.0, 30.0),
    adjustable=st.sampled_from([("workers", "ps"), ("workers", "ps", "resources"), ("workers",), ("ps",), ()]),
)


def seen(request: JobRequest, truth: Callable[[pd.Series], float], used: float, rows: int) -> pd.DataFrame:
    row = {"job": "mine", "workers": float(max(request.current_workers, 1)), "ps": float(max(request.current_ps, 1))}
    row |= {"ps_cpu": 2.0, "ps_cpu_used": used, "ps_cpu_used_max": 1.2 * used, "worker_cpu_used": used}
    row |= {"nodes": row["workers"], "throughput": truth(pd.Series(row))}
    return pd.DataFrame([row] * rows)


@settings(max_examples=300, deadline=None)
@given(
    REQUESTS,
    st.sampled_from([right, right, broken, undefined]),
    st.sampled_from(["Interpolated", "Interpolated", "Extrapolated", "NoHistory", "HistoryOnly"]),
    st.sampled_from([0.01, 0.6]),
    st.sampled_from([0.1, 1.9]),
    st.integers(0, 2),
    st.sampled_from([Prices(), Prices(per_core=0.05, per_gib=0.01, per_accelerator=1.0)]),
)
def test_every_request_has_an_answer_within_its_limits(
    request: JobRequest,
    truth: Callable[[pd.Series], float],
    basis: str,
    sd: float,
    used: float,
    rows: int,
    prices: Prices,
) -> None:
    model, own = KnownSpeeds(truth, sd, basis=basis), seen(request, truth, used, rows)
    answer = plan_job(model, own, request, prices)
    assert answer.reason
    assert answer.message
    assert "nan" not in answer.message.split()
    limits = request.limits
    if answer.moves:
        if "workers" not in request.adjustable and request.current_workers > 0:
            assert answer.target_workers == request.current_workers  # whatever the limits say: it can't be moved
        else:
            assert max(1, limits.min_workers) <= answer.target_workers <= limits.max_workers
        assert answer.target_workers % max(1, limits.node_unit) == 0
        assert not limits.allowed_workers or answer.target_workers in limits.allowed_workers
        if request.strategy == "ps":
            assert answer.target_ps >= max(1, limits.min_ps if "ps" in request.adjustable else 1)
        chosen = [option for option in answer.options if option.verdict.startswith("chosen")]
        assert len(chosen) == 1
        assert request.stage is Stage.START or fits(limits, chosen[0].size)
        started = request.stage is Stage.START or request.current_workers <= 0
        assert started or not (request.pinned or request.frozen_seconds > 0)
        often = 0 < limits.changes_per_hour <= request.changes_last_hour
        assert started or not often or answer.reason in URGENT
    else:
        assert answer.target_workers == request.current_workers
    assert all(role.cpu >= 0 and role.memory >= 0 for role in answer.roles)
    if "workers" not in request.adjustable and 0 < request.current_workers <= limits.max_workers:
        assert {option.workers for option in answer.options} <= {request.current_workers}
    assert repr(plan_job(model, own, request, prices)) == repr(answer)


@pytest.mark.parametrize("ps", [1, 2])
def test_a_job_with_servers_and_no_history_explores_in_both(ps: int) -> None:
    row = {"job": "mine", "strategy": "ps", "workers": 1.0, "nodes": 1.0, "ps": float(ps), "batch_size": 64.0}
    own = pd.DataFrame([{**row, "throughput": served(pd.Series(row)), "window_seconds": 60.0}] * 2)
    request = JobRequest("mine", 1, Limits(1, 6, max_ps=4), strategy="ps", current_ps=ps, restart_seconds=5.0)
    answer = plan_job(ThroughputModel().fit(pd.DataFrame()), own, request)
    assert (answer.decision, answer.reason) == (Decision.EXPLORE, "NoHistoryYet")
    assert Size(answer.target_workers, answer.target_ps) != Size(1, ps)
    assert "server" in answer.message
