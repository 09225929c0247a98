"""Cores and memory of each role: more where a pod was killed, fewer where they are idle, and what a start needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convoy.brain.models import LoadModel
from convoy.brain.models.memory import MemoryModel
from convoy.brain.plan import (
    ADJUSTABLE,
    Decision,
    JobRecommendation,
    JobRequest,
    Limits,
    Needs,
    Prices,
    RoleAdvice,
    Stage,
    plan_job,
)
from support.known_speeds import KnownSpeeds, reduced

GIB = 2**30
MODEL = KnownSpeeds(reduced)
LIMITS = Limits(1, 4, global_batch=256, worker_cpu=8.0, worker_memory=8 * GIB, largest_node_memory=32 * GIB)
PRICES = Prices(per_core=0.05, per_gib=0.01)
MEMORY = MemoryModel().fit(pd.DataFrame(columns=["container", "time", "used_bytes"]))
LOAD = LoadModel().fit(pd.DataFrame())


def seen(workers: int = 4, cores: float = 8.0, used: float = math.nan) -> pd.DataFrame:
    speed = reduced(pd.Series({"workers": workers}))
    row = {"job": "mine", "workers": workers, "nodes": workers, "throughput": speed, "window_seconds": 60.0,
           "batch_size": 256 / workers, "worker_cpu": cores, "worker_cpu_used": used}  # fmt: skip
    return pd.DataFrame([row] * 3)


def usage(used: Sequence[float], limit: float, *, killed: bool = False, role: str = "worker") -> pd.DataFrame:
    """Hourly readings of one pod, in bytes, and that it was killed at last."""
    frame = pd.DataFrame({"used_bytes": list(used), "oom": False})
    frame["time"] = pd.Timestamp("2026-01-01", tz="UTC") + pd.to_timedelta(np.arange(len(frame)), "h")
    if killed:
        last = {"used_bytes": limit, "oom": True, "time": frame["time"].max() + pd.Timedelta("1h")}
        frame = pd.concat([frame, pd.DataFrame([last])], ignore_index=True)
    return frame.assign(container=f"mine/{role}-0", template="t", role=role, rank=0, limit_bytes=limit)


def plan(
    needs: Needs, limits: Limits = LIMITS, own: pd.DataFrame | None = None, **changes: object
) -> JobRecommendation:
    request = JobRequest("mine", 4, limits, restart_seconds=20.0, adjustable=ADJUSTABLE)
    rows = seen() if own is None else own
    return plan_job(MODEL, rows, replace(request, **changes), PRICES, needs)  # type: ignore[arg-type]


def worker(answer: JobRecommendation) -> RoleAdvice:
    return next(role for role in answer.roles if role.role == "worker")


@dataclass
class Limit:
    """A model of memory that asks for so much, and remembers what it was asked."""

    limit: float
    reason: str = "OwnHistory: 3 horizons of its own"
    asked: list[tuple[float, float | None]] = field(default_factory=list)

    def recommend(
        self, usage: pd.DataFrame, oom_rate: float = 0.01, horizon: str = "1d", node_bytes: float | None = None
    ) -> pd.DataFrame:
        self.asked.append((oom_rate, node_bytes))
        limit = self.limit if node_bytes is None else min(self.limit, node_bytes)
        return pd.DataFrame({"container": ["mine/worker-0"], "limit_bytes": [limit], "reason": [self.reason]})


def test_a_killed_pod_gets_more_memory_at_once() -> None:
    killed = usage([4 * GIB] * 48, 8 * GIB, killed=True)
    answer = plan(Needs(memory=MEMORY, usage=killed))
    assert (answer.decision, answer.reason, answer.target_workers) == (Decision.CHANGE, "OutOfMemory", 4)
    assert "a pod was killed at 8 GiB of memory" in answer.message
    assert 1.25 * 8 * GIB <= worker(answer).memory <= 32 * GIB
    assert worker(answer).decided


def test_a_job_killed_before_it_was_measured_gets_more_memory_too() -> None:
    killed = usage([4 * GIB] * 2, 8 * GIB, killed=True)
    answer = plan(Needs(memory=Limit(6 * GIB), usage=killed), own=pd.DataFrame())
    assert (answer.decision, answer.reason) == (Decision.CHANGE, "OutOfMemory")


def test_no_pod_gets_more_than_a_node_has() -> None:
    full = replace(LIMITS, worker_memory=32 * GIB)
    answer = plan(Needs(memory=Limit(60 * GIB), usage=usage([30 * GIB], 32 * GIB, killed=True)), full)
    assert not answer.moves
    assert (worker(answer).reason, worker(answer).memory) == ("OutOfMemoryAtNode", 32 * GIB)
    assert "no node has more" in worker(answer).message


def test_a_kill_at_a_limit_that_was_raised_since_is_no_reason() -> None:
    answer = plan(Needs(memory=Limit(7 * GIB), usage=usage([3 * GIB] * 30, 4 * GIB, killed=True)))
    assert answer.reason != "OutOfMemory"


def test_memory_that_is_too_little_for_the_asked_rate_is_said_so_but_costs_no_restart() -> None:
    memory = Limit(10 * GIB)
    answer = plan(Needs(memory=memory, usage=usage([7 * GIB] * 48, 8 * GIB), oom_rate=0.02))
    assert (answer.decision, worker(answer).reason, worker(answer).memory) == (Decision.KEEP, "LowMemory", 10 * GIB)
    assert not worker(answer).decided
    assert memory.asked == [(0.02, 32 * GIB)]


def test_what_is_idle_is_given_back_where_that_pays_a_restart() -> None:
    needs = Needs(load=LOAD, memory=Limit(2 * GIB), usage=usage([GIB] * 48, 8 * GIB))
    own = seen(used=1.0)
    answer = plan(needs, own=own)
    assert (answer.decision, answer.reason, answer.target_workers) == (Decision.CHANGE, "IdleResources", 4)
    assert worker(answer).cpu < 8.0
    assert worker(answer).memory == 2 * GIB
    assert worker(answer).cpu >= worker(answer).cpu_used
    assert answer.price_per_hour < PRICES.per_hour(4, 8.0, 8 * GIB)
    dear = plan(needs, own=own, restart_seconds=3000.0)
    assert dear.decision is Decision.KEEP
    assert (worker(dear).reason, worker(dear).decided) == ("IdleCpu+IdleMemory", False)
    pinned = plan(needs, own=own, pinned=True)
    assert (pinned.decision, pinned.reason) == (Decision.KEEP, "Pinned")
    assert not worker(pinned).decided


def test_what_is_idle_goes_with_a_change_of_size() -> None:
    needs = Needs(load=LOAD, memory=Limit(2 * GIB), usage=usage([GIB] * 48, 8 * GIB))
    answer = plan(needs, own=seen(2, used=1.0), current_workers=2)
    assert (answer.decision, answer.reason) == (Decision.CHANGE, "MoreSpeed")
    assert (worker(answer).replicas_before, worker(answer).replicas) == (2, answer.target_workers)
    assert worker(answer).decided
    assert worker(answer).memory == 2 * GIB
    assert worker(answer).cpu == 8.0  # no history says what is used at a size that never ran


def test_cores_that_speed_needs_arent_taken_though_they_are_idle_in_the_mean() -> None:
    burst = KnownSpeeds(lambda row: reduced(row) * min(row["worker_cpu"] / 8.0, 1.0))
    request = JobRequest("mine", 4, LIMITS, restart_seconds=20.0, adjustable=ADJUSTABLE)
    answer = plan_job(burst, seen(used=1.0), request, PRICES, Needs(load=LOAD))
    assert worker(answer).cpu == 8.0


def test_without_models_nothing_is_said_of_roles() -> None:
    answer = plan(Needs())
    assert (worker(answer).reason, worker(answer).cpu, worker(answer).memory) == ("AsItIs", 8.0, 8 * GIB)


@dataclass(frozen=True)
class Begins:
    """A model of starts."""

    workers: float
    cpu: float
    memory: float
    reason: str = "TemplateMedian"

    def recommend(self, jobs: pd.DataFrame) -> pd.DataFrame:
        told = {"workers": self.workers, "ps": 0.0, "worker_cpu": self.cpu, "worker_memory": self.memory,
                "ps_cpu": math.nan, "ps_memory": math.nan, "reason": self.reason}  # fmt: skip
        return pd.DataFrame([told])


UNWRITTEN = replace(LIMITS, worker_cpu=0.0, worker_memory=0, largest_node_cpu=6.0)
DESCRIBED = pd.DataFrame([{"job": "mine", "template": "t"}])
NO_SPEED = KnownSpeeds(lambda row: math.nan, history_jobs=0)


def starting(model: KnownSpeeds, startup: Begins, limits: Limits = UNWRITTEN, workers: int = 0) -> JobRecommendation:
    request = JobRequest("mine", workers, limits, Stage.START, adjustable=ADJUSTABLE)
    return plan_job(model, pd.DataFrame(), request, PRICES, Needs(startup=startup, described=DESCRIBED))


def test_a_start_takes_what_jobs_like_it_needed() -> None:
    answer = starting(NO_SPEED, Begins(3.0, 2.0, 3.0 * GIB))
    assert (answer.decision, answer.reason, answer.target_workers) == (Decision.CHANGE, "StartLikeOthers", 3)
    assert "TemplateMedian" in answer.message
    assert (worker(answer).cpu, worker(answer).memory, worker(answer).decided) == (2.0, 3 * GIB, True)
    known = starting(MODEL, Begins(3.0, 2.0, 3.0 * GIB))
    assert (known.reason, worker(known).cpu) == ("StartFromHistory", 2.0)


def test_a_start_leaves_what_is_written_and_stays_within_limits() -> None:
    answer = starting(NO_SPEED, Begins(30.0, 12.0, 64.0 * GIB))
    assert (answer.target_workers, worker(answer).cpu, worker(answer).memory) == (4, 6.0, 32 * GIB)
    written = starting(NO_SPEED, Begins(3.0, 2.0, 3.0 * GIB), LIMITS, workers=2)
    assert (written.reason, written.target_workers, worker(written).cpu) == ("ReplicasGiven", 2, 8.0)
    assert not worker(written).differs
    nothing = starting(NO_SPEED, Begins(math.nan, math.nan, math.nan, "NothingKnown"))
    assert (nothing.decision, nothing.reason) == (Decision.UNDEFINED, "NothingKnown")


@given(
    st.lists(st.floats(0.01 * GIB, 40 * GIB), min_size=1, max_size=60),
    st.sampled_from([0.0, 2.0 * GIB, 8.0 * GIB, 32.0 * GIB]),
    st.booleans(),
    st.sampled_from([0.1, 3.0, 8.0]),
    st.sampled_from([0.005, 0.05]),
)
@settings(max_examples=20, deadline=None)
def test_no_role_is_ever_without_memory_or_beyond_a_node(
    used: list[float], limit: float, killed: bool, cores: float, rate: float
) -> None:
    limits = replace(LIMITS, worker_memory=int(limit))
    readings = usage(used, limit or math.nan, killed=killed and limit > 0)
    needs = Needs(load=LOAD, memory=MEMORY, usage=readings, oom_rate=rate)
    answer = plan(needs, limits, seen(used=cores))
    advised = worker(answer)
    assert answer.target_workers == 4 or answer.moves
    assert advised.cpu > 0
    assert limit == 0 or 0 < advised.memory <= max(32 * GIB, limit)
    if killed and limit and limit < 32 * GIB:
        assert advised.memory > limit
    assert advised.reason
    assert advised.message


@pytest.mark.parametrize("column", ["throughput", "worker_cpu_used"])
def test_readings_of_nothing_are_no_trouble(column: str) -> None:
    own = seen(used=1.0).assign(**{column: 0.0})
    answer = plan(Needs(load=LOAD, memory=MEMORY, usage=usage([0.0], 0.0)), own=own)
    assert answer.reason
    assert answer.target_workers == 4
