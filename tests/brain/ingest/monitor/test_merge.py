"""Merging: told again, nothing changes; whatever the order, what is told last of an object is what stands."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from convoy.brain.ingest.monitor import merge
from convoy.brain.ingest.monitor.parts import Row

START = datetime(2026, 2, 1, tzinfo=UTC)

moments = st.integers(0, 9).map(lambda seconds: START + timedelta(seconds=seconds))
maybe = st.none() | moments


def rows(**columns: st.SearchStrategy[Any]) -> st.SearchStrategy[Row]:
    return st.fixed_dictionaries(columns)


def texts(*choices: str) -> st.SearchStrategy[str]:
    return st.sampled_from(("", *choices))


numbers = st.none() | st.integers(1, 3)
pods = rows(
    uid=texts("a", "b"),
    phase=texts("Pending", "Running", "Failed"),
    reason=texts("OOMKilled"),
    role=texts("worker"),
    restarts=st.integers(0, 2),
    gone_at=maybe,
    **dict.fromkeys(("rank", "node_id", "cpu_allotted", "memory_allotted", "accelerators", "exit_code"), numbers),
    **dict.fromkeys(("created_at", "started_at", "ended_at"), maybe),
)
jobs = rows(
    uid=st.just("a"),
    state=texts("Waiting", "Running", "Succeeded", "Failed"),
    first_seen=moments,
    last_seen=moments,
    gone_at=maybe,
    **dict.fromkeys(
        [
            "name",
            "namespace",
            "template",
            "image",
            "user",
            "model",
            "dataset",
            "strategy",
            "optimize_mode",
            "accelerator",
            "cluster",
        ],
        texts("x", "y"),
    ),
)
plans = rows(
    uid=texts("a", "b"),
    phase=texts("Pending", "Succeeded"),
    reason=texts("FasterAt"),
    message=texts("because"),
    created_at=moments,
    workers_after=st.integers(0, 3),
    gone_at=maybe,
    **dict.fromkeys(("recommendation_id", "predicted", "predicted_lower", "predicted_upper"), numbers),
)
nodes = rows(uid=texts("a", "b"), ready=st.booleans(), first_seen=moments, last_seen=moments, gone_at=maybe)
merging = st.sampled_from([(merge.pod, pods), (merge.job, jobs), (merge.plan, plans), (merge.node, nodes)])


def with_uid(row: Row) -> Row:
    return {**row, "uid": row["uid"] or "a"}


@given(merging.flatmap(lambda kind: st.tuples(st.just(kind[0]), kind[1], kind[1].map(with_uid))))
def test_told_twice_is_told_once(given: Any) -> None:
    merged, stored, told = given
    once = merged(stored, told)
    assert merged(once, told) == once


@given(
    merging.flatmap(lambda kind: st.tuples(st.just(kind[0]), kind[1], st.lists(kind[1].map(with_uid), max_size=4)))
)
def test_a_monitor_that_lags_behind_leads_to_the_same_row(given: Any) -> None:
    merged, row, told = given
    for one in told:
        row = merged(row, one)
    settled = row
    for one in told:  # the other one, later
        row = merged(row, one)
    for one in told:
        row = merged(row, one)
    again = row
    for one in told:
        row = merged(row, one)
    assert row == again
    if told:
        assert (again["gone_at"] is None) == (settled["gone_at"] is None)


@given(jobs, jobs)
def test_no_job_returns_from_its_end(stored: Row, told: Row) -> None:
    over = ("Succeeded", "Failed")
    if stored["state"] in over:
        assert merge.job(stored, told)["state"] in over


@given(st.tuples(pods, pods.map(with_uid)))
def test_what_isnt_told_of_a_pod_stays(given: tuple[Row, Row]) -> None:
    stored, told = given
    if stored["uid"] in ("", told["uid"]):
        merged = merge.pod(stored, told)
        kept = ("rank", "node_id", "cpu_allotted", "memory_allotted", "created_at", "started_at", "exit_code")
        assert all(merged[name] == (told[name] if told[name] is not None else stored[name]) for name in kept)
