"""How many processes load the data: enough where steps wait, bounded by what is idle, taken back where in vain."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.brain.plan import Decision, JobRecommendation, JobRequest, Limits, Loaders, with_loaders
from convoy.brain.plan.guards import MIN_GAIN

START = datetime(2026, 3, 1, tzinfo=UTC)
ANSWER = JobRecommendation(Decision.KEEP, "AlreadyBest", "nothing is better", 2)


def request(cores: float = 8.0, memory: int = 0, processes: int = 1, adjustable: tuple[str, ...] = ("loaders",)):
    limits = Limits(worker_cpu=cores, worker_memory=memory, max_workers=4)
    return JobRequest("job", 2, limits, processes_per_worker=processes, adjustable=adjustable)


def own(used: float = math.nan, memory: float = math.nan, processes: int = 1) -> pd.DataFrame:
    row = {"workers": 2.0 * processes, "worker_cpu_used": used, "worker_memory_used": memory}
    return pd.DataFrame([row])


def told(*steps: tuple[float, float, float], seconds: float = 60.0, workers: float = 2.0) -> pd.DataFrame:
    """Rows of (processes, seconds of a step, seconds of it that it waits), an hour each."""
    return pd.DataFrame(
        [
            {
                "job": "job",
                "observed_at": START + timedelta(hours=hour),
                "window_seconds": seconds,
                "workers": workers,
                "batch_size": 8.0,
                "accumulation_steps": 1.0,
                "loader_workers": loaders,
                "loader_wait": wait,
                "step_seconds": step,
            }
            for hour, (loaders, step, wait) in enumerate(steps)
        ]
    )


def said(loading: pd.DataFrame, at: JobRequest | None = None, used: pd.DataFrame | None = None) -> Loaders:
    found = with_loaders(ANSWER, at or request(), own() if used is None else used, loading)
    assert replace(found, loaders=None, notes=()) == ANSWER  # a size is another matter
    assert found.loaders is not None
    return found.loaders


def test_steps_that_wait_get_as_many_as_hide_the_wait() -> None:
    """One process needs 0.4 s for what is trained in 0.1 s: four."""
    loaders = said(told((1, 0.4, 0.3)))
    assert (loaders.before, loaders.workers, loaders.reason, loaders.decided) == (1, 4, "WaitsForData", True)
    assert loaders.expected == pytest.approx(0.1)
    assert loaders.message == (
        "a step of 0.4 s waits 0.3 s (75%) for its data, which 1 process of each worker loads; "
        "4 are expected to make it 0.1 s"
    )


def test_a_process_that_loads_its_own_data_gets_help() -> None:
    """0.2 s of loading before 0.2 s of training: one that does it meanwhile is enough."""
    loaders = said(told((0, 0.4, 0.2)))
    assert (loaders.workers, loaders.expected) == (1, pytest.approx(0.2))


def test_steps_that_do_not_wait_keep_even_many() -> None:
    loaders = said(told((16, 0.4, 0.01)))
    assert (loaders.workers, loaders.reason, loaders.decided) == (16, "NoWait", False)


def test_cores_and_memory_that_are_idle_bound_them() -> None:
    waits = told((1, 0.4, 0.35))
    assert said(waits, request(cores=4)).workers == 3  # use isn't known: one core each, and one that trains
    assert said(waits, request(cores=4), own(used=0.2)).workers == 4
    busy = said(waits, request(cores=4), own(used=3.5))
    assert (busy.workers, busy.reason) == (1, "CoresInUse")
    large = said(waits, request(memory=10 * 2**30), own(used=0.2, memory=4 * 2**30))
    assert large.workers == 3  # each of two takes 2 GiB, and four of them 8 of 9
    full = said(waits, request(memory=10 * 2**30), own(used=0.2, memory=9 * 2**30))
    assert (full.workers, full.reason) == (1, "MemoryInUse")


def test_what_did_not_help_is_taken_back_and_remembered() -> None:
    before, after = (2, 0.4, 0.3), (8, 0.395, 0.29)
    back = said(told(before, after))
    assert (back.workers, back.reason, back.decided) == (2, "MoreDidNotHelp", True)
    kept = said(told(before, after, before))
    assert (kept.workers, kept.reason, kept.decided) == (2, "MoreDidNotHelp", False)
    assert said(told((2, 0.4, 0.3), (8, 0.1, 0.0))).workers == 8


def test_nothing_is_said_where_nothing_tells() -> None:
    for loading in (told(), told((1, 0.4, 0.3), workers=3.0), told((math.nan, 0.4, 0.001))):
        assert with_loaders(ANSWER, request(), own(), loading) == ANSWER
    young = said(told((1, 0.4, 0.3), seconds=5.0))
    assert (young.workers, young.reason) == (1, "NotMeasuredYet")


def test_a_script_that_does_not_leave_it_to_convoy_is_told_so() -> None:
    found = with_loaders(ANSWER, request(), own(), told((math.nan, 0.4, 0.3)))
    assert found.loaders is None
    assert "waits 0.3 s (75%)" in found.notes[0]
    assert "trainer.loaded" in found.notes[0]


def test_what_cannot_be_carried_out_is_advice() -> None:
    waits = told((1, 0.4, 0.3))
    advice = with_loaders(ANSWER, request(adjustable=("workers",)), own(), waits)
    assert advice.loaders is not None
    assert advice.loaders.workers == 4
    assert not advice.loaders.decided
    assert advice.notes[0].startswith("advice that isn't carried out by itself: a step of 0.4 s waits")
    pinned = with_loaders(ANSWER, replace(request(), pinned=True), own(), waits)
    assert pinned.loaders is not None
    assert not pinned.loaders.decided
    assert pinned.notes[0].startswith("loaders stay as they are: the job is pinned")


@given(
    compute=st.floats(0.001, 10.0),
    load=st.floats(0.0, 100.0),
    cores=st.integers(1, 64),
    disk=st.integers(1, 64),
    before=st.integers(0, 64),
)
def test_a_job_that_heeds_it_settles_and_is_never_slower_for_it(
    compute: float, load: float, cores: int, disk: int, before: int
) -> None:
    """Steps as they'd be with a disk that serves so many at once; what is said is heeded until nothing is."""

    def step(workers: int) -> tuple[float, float, float]:
        if workers == 0:
            return 0, compute + load, load
        takes = max(compute, load / min(workers, disk))
        return workers, takes, takes - compute

    seen = [step(before)]
    for _ in range(6):
        loaders = said(told(*seen), request(cores=cores), own(used=0.0))
        assert loaders.workers <= max(cores, loaders.before)
        if loaders.workers == loaders.before:
            break
        seen.append(step(loaders.workers))
    else:
        raise AssertionError(seen)
    first, last = seen[0], seen[-1]
    assert last[1] <= min(one[1] for one in seen) * (1.0 + MIN_GAIN)
    assert len({one[0] for one in seen}) == len(seen) or loaders.reason == "MoreDidNotHelp"
    possible = max(compute, load / min(cores, disk))
    if loaders.reason == "CoresInUse" and before <= cores and disk >= cores:
        assert last[1] <= possible * (1.0 + MIN_GAIN) ** 2
    if loaders.reason == "NoWait":
        assert last[2] <= MIN_GAIN * compute * 1.001
    assert first[1] * (1.0 + MIN_GAIN) >= last[1]
