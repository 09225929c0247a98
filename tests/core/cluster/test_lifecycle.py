"""The kubelet's decisions: which step follows from what is seen, whether a pod fits, how long to back off."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.core.api import resources
from convoy.core.api.resources import Room
from convoy.core.cluster.local import lifecycle, podstatus
from convoy.core.cluster.local.lifecycle import Seen, ShimState, Step, decide

NOW = "2026-01-01T00:00:00.000000Z"
LATER = "2026-01-01T00:00:40.000000Z"


def pod(policy: str = "Never", deleting: bool = False, **resources: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "p", "namespace": "n", "uid": "u"}
    if deleting:
        metadata |= {"deletionTimestamp": NOW, "deletionGracePeriodSeconds": 5}
    spec = {"restartPolicy": policy, "containers": [{"name": "main", "resources": resources}]}
    return podstatus.pending({"kind": "Pod", "metadata": metadata, "spec": spec})


def deleted(manifest: dict[str, Any]) -> dict[str, Any]:
    return {**manifest, "metadata": pod(deleting=True)["metadata"]}


BOUND = podstatus.bound(pod(), NOW)
RUNNING = podstatus.running(BOUND, 42, NOW)
FAILED = podstatus.terminated(RUNNING, 1, "Error", "", NOW)
ALWAYS_ENDED = podstatus.terminated(
    podstatus.running(podstatus.bound(pod("Always"), NOW), 42, NOW), 0, "Completed", "", LATER
)
BACKED_OFF = podstatus.waiting(ALWAYS_ENDED, podstatus.CRASH_LOOP, "")


def seen(manifest: dict[str, Any], shim: ShimState, **more: Any) -> Seen:
    return Seen(pod=manifest, shim=shim, grace=5.0, **more)


@pytest.mark.parametrize(
    ("state", "now", "expected"),
    [
        (seen(pod(), ShimState.UNKNOWN), 0.0, (Step.ADMIT, None)),
        (seen(BOUND, ShimState.UNKNOWN), 0.0, (Step.START, None)),
        (seen(BOUND, ShimState.RUNNING, started_at=10.0), 11.0, (Step.NOTHING, 40.0)),
        (seen(BOUND, ShimState.RUNNING, started_at=10.0), 40.0, (Step.KILL_SHIM, None)),
        (seen(BOUND, ShimState.ENDED), 0.0, (Step.DECLARE_LOST, None)),
        (seen(RUNNING, ShimState.RUNNING), 99.0, (Step.NOTHING, None)),
        (seen(RUNNING, ShimState.UNKNOWN), 0.0, (Step.DECLARE_LOST, None)),
        (seen(RUNNING, ShimState.ENDED), 0.0, (Step.DECLARE_LOST, None)),
        (seen(FAILED, ShimState.ENDED), 0.0, (Step.NOTHING, None)),
        (seen(ALWAYS_ENDED, ShimState.ENDED), 0.0, (Step.BACK_OFF, None)),
        (seen(ALWAYS_ENDED, ShimState.UNKNOWN), 0.0, (Step.BACK_OFF, None)),
        (seen(BACKED_OFF, ShimState.ENDED, retry_at=7.0), 6.0, (Step.NOTHING, 7.0)),
        (seen(BACKED_OFF, ShimState.ENDED, retry_at=7.0), 7.0, (Step.START_AGAIN, None)),
        (seen(deleted(RUNNING), ShimState.RUNNING), 0.0, (Step.ASK_TO_END, None)),
        (seen(deleted(RUNNING), ShimState.RUNNING, asked_at=1.0, asked_grace=5.0), 2.0, (Step.NOTHING, 11.0)),
        (seen(deleted(RUNNING), ShimState.RUNNING, asked_at=1.0, asked_grace=30.0), 2.0, (Step.ASK_TO_END, None)),
        (seen(deleted(RUNNING), ShimState.RUNNING, asked_at=1.0, asked_grace=5.0), 11.0, (Step.KILL_SHIM, None)),
        (seen(deleted(RUNNING), ShimState.ENDED), 0.0, (Step.REMOVE, None)),
        (seen(deleted(BACKED_OFF), ShimState.UNKNOWN), 0.0, (Step.REMOVE, None)),
        (seen(deleted(pod()), ShimState.UNKNOWN), 0.0, (Step.REMOVE, None)),
    ],
)
def test_the_next_step(state: Seen, now: float, expected: tuple[Step, float | None]) -> None:
    assert decide(state, now) == expected


@given(
    st.sampled_from([pod(), BOUND, RUNNING, FAILED, ALWAYS_ENDED, BACKED_OFF]),
    st.booleans(),
    st.sampled_from(ShimState),
    st.floats(0, 100),
)
def test_a_pod_whose_shim_may_run_is_neither_started_nor_declared_lost_nor_removed(
    manifest: dict[str, Any], deleting: bool, shim: ShimState, now: float
) -> None:
    step, again = decide(seen(deleted(manifest) if deleting else manifest, shim), now)
    if shim is ShimState.RUNNING:
        assert step in (Step.NOTHING, Step.ASK_TO_END, Step.KILL_SHIM)
    if deleting:
        assert step not in (Step.ADMIT, Step.START, Step.START_AGAIN, Step.BACK_OFF)
    assert again is None or again > now


def test_restart_policies() -> None:
    def phase(policy: str, code: int) -> str:
        ended = podstatus.terminated(podstatus.bound(pod(policy), NOW), code, "", "", NOW)
        return str(ended["status"]["phase"])

    assert [phase("Never", 0), phase("Never", 1)] == ["Succeeded", "Failed"]
    assert [phase("OnFailure", 0), phase("OnFailure", 1)] == ["Succeeded", "Running"]
    assert [phase("Always", 0), phase("Always", 1)] == ["Running", "Running"]


def test_a_deleted_pod_doesnt_restart() -> None:
    ended = podstatus.terminated(podstatus.bound(pod("Always", deleting=True), NOW), 1, "", "", NOW)
    assert ended["status"]["phase"] == "Failed"


def test_a_restart_is_counted_and_the_last_end_remembered() -> None:
    again = podstatus.starting_again(BACKED_OFF)
    status = podstatus.container_status(podstatus.running(again, 43, LATER))
    assert status["restartCount"] == 1
    assert status["lastState"]["terminated"]["reason"] == "Completed"
    assert lifecycle.ran_for(ALWAYS_ENDED) == 40.0


def test_conditions_keep_the_time_at_which_they_turned() -> None:
    first = podstatus.unschedulable(pod(), "no room", NOW)
    again = podstatus.unschedulable(first, "no room", LATER)
    assert again == first
    placed = podstatus.bound(again, LATER)["status"]["conditions"]
    assert placed == [{"type": "PodScheduled", "status": "True", "lastTransitionTime": LATER}]


@given(st.integers(1, 10_000))
def test_pauses_grow_to_a_bound(failures: int) -> None:
    assert lifecycle.BACKOFF_FIRST <= lifecycle.pause(failures) <= lifecycle.pause(failures + 1)
    assert lifecycle.pause(failures + 1) <= lifecycle.BACKOFF_MOST


NODE = Room(2.0, 4 * 2**30)


@pytest.mark.parametrize(
    ("resources", "named"),
    [
        ({"requests": {"cpu": "1500m", "memory": "1Gi"}}, ""),
        ({"requests": {"cpu": "2"}}, ""),
        ({}, ""),
        ({"requests": {"cpu": "2001m"}}, "cpu requested 2001m, free 2 of 2"),
        ({"limits": {"cpu": "3"}}, "cpu requested 3, free 2 of 2"),
        ({"limits": {"cpu": "3"}, "requests": {"cpu": "1"}}, ""),
        ({"requests": {"memory": "5Gi"}}, "memory requested 5368709120"),
        ({"requests": {"cpu": "many"}}, "'many' is not a quantity"),
    ],
)
def test_what_fits_and_what_the_refusal_says(resources: dict[str, Any], named: str) -> None:
    why_not = lifecycle.refusal(pod(**resources), NODE, NODE)
    assert named in why_not
    assert bool(why_not) == bool(named)


def test_pods_on_the_node_hold_their_requests_until_they_are_over() -> None:
    resources: dict[str, Any] = {"requests": {"cpu": "1"}}
    waiting, running = pod(**resources), podstatus.running(podstatus.bound(pod(**resources), NOW), 1, NOW)
    over = podstatus.terminated(running, 0, "Completed", "", NOW)
    assert lifecycle.free(NODE, [waiting, running, over]) == Room(1.0, NODE.memory)


def test_a_pod_that_yields_the_cpu_holds_none() -> None:
    master = pod(requests={"cpu": "100m", "memory": "1Gi"})
    master["metadata"]["annotations"] = {"convoy/nice": "5"}
    assert resources.held(master) == Room(0.0, 2**30)
    assert resources.requested(master["spec"]) == Room(0.1, 2**30)
