"""What the kubelet does next about a pod: pure decisions from what is seen now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from convoy.core.api import quantity, resources
from convoy.core.api.errors import InvalidQuantity
from convoy.core.api.moments import moment
from convoy.core.api.resources import Room
from convoy.core.cluster.local import podstatus

Manifest = dict[str, Any]

START_SECONDS = 30.0
"""A shim that hasn't started its pod by then is killed."""
OVERDUE_SECONDS = 5.0
"""What a shim gets beyond its pod's grace period before it is killed itself."""
BACKOFF_FIRST = 0.25
BACKOFF_MOST = 60.0
BACKOFF_RESET = 30.0
"""Seconds: the first pause before a restart, the longest one, and how long a run must last to begin anew."""


class Step(StrEnum):
    """What to do."""

    NOTHING = "Nothing"
    ADMIT = "Admit"
    START = "Start"
    ASK_TO_END = "AskToEnd"
    KILL_SHIM = "KillShim"
    DECLARE_LOST = "DeclareLost"
    BACK_OFF = "BackOff"
    START_AGAIN = "StartAgain"
    REMOVE = "Remove"


class ShimState(StrEnum):
    """What the kubelet knows of a pod's shim. UNKNOWN: none runs, and this kubelet started none for this run."""

    UNKNOWN = "Unknown"
    RUNNING = "Running"
    ENDED = "Ended"


@dataclass(frozen=True, slots=True)
class Seen:
    """A pod and its shim at one moment; times are monotonic seconds.

    Attributes:
        grace: seconds that the pod has to end once it is deleted.
        started_at: when this kubelet started, or adopted, the shim.
        asked_at: when the shim was asked to end, and ``asked_grace`` the grace that it was given.
        retry_at: when a pod that restarts is due.
    """

    pod: Manifest
    shim: ShimState
    grace: float
    started_at: float = 0.0
    asked_at: float | None = None
    asked_grace: float | None = None
    retry_at: float = 0.0


def decide(seen: Seen, now: float) -> tuple[Step, float | None]:
    """Return the next step, and when to look again at the latest (None: when something changes)."""
    pod = seen.pod
    deleting = bool(pod["metadata"].get("deletionTimestamp"))
    if seen.shim is ShimState.RUNNING:
        return _while_running(seen, deleting, now)
    if deleting:
        return Step.REMOVE, None
    if podstatus.is_over(pod):
        return Step.NOTHING, None
    if not pod["spec"].get("nodeName"):
        return Step.ADMIT, None
    if podstatus.state(pod, "running") is not None:
        return Step.DECLARE_LOST, None
    if podstatus.state(pod, "terminated") is not None:
        return Step.BACK_OFF, None
    waiting = podstatus.state(pod, "waiting") or {}
    if waiting.get("reason") == podstatus.CRASH_LOOP:
        return (Step.START_AGAIN, None) if now >= seen.retry_at else (Step.NOTHING, seen.retry_at)
    return (Step.START if seen.shim is ShimState.UNKNOWN else Step.DECLARE_LOST), None


def _while_running(seen: Seen, deleting: bool, now: float) -> tuple[Step, float | None]:
    if deleting:
        if seen.asked_at is None or seen.asked_grace != seen.grace:
            return Step.ASK_TO_END, None
        overdue = seen.asked_at + seen.grace + OVERDUE_SECONDS
        return (Step.KILL_SHIM, None) if now >= overdue else (Step.NOTHING, overdue)
    if podstatus.state(seen.pod, "waiting") is not None:
        late = seen.started_at + START_SECONDS
        return (Step.KILL_SHIM, None) if now >= late else (Step.NOTHING, late)
    return Step.NOTHING, None


def pause(failures: int) -> float:
    """Return the seconds to wait before a restart after so many short runs in a row (1: the first)."""
    return min(BACKOFF_MOST, BACKOFF_FIRST * 2.0 ** min(failures - 1, 16))


def ran_for(pod: Manifest) -> float:
    """Return how many seconds the run lasted that ended last; 0 if it never ran."""
    ended = podstatus.state(pod, "terminated") or {}
    if "startedAt" not in ended:
        return 0.0
    return (moment(ended["finishedAt"]) - moment(ended["startedAt"])).total_seconds()


def free(allocatable: Room, pods: Iterable[Manifest]) -> Room:
    """Return what the pods that are on the node, and not over, leave of it."""
    for pod in pods:
        if pod["spec"].get("nodeName") and not podstatus.is_over(pod):
            allocatable = allocatable.minus(resources.held(pod))
    return allocatable


def refusal(pod: Manifest, left: Room, node: Room) -> str:
    """Return why the node can't take the pod; empty where it can."""
    try:
        wanted = resources.held(pod)
    except InvalidQuantity as error:
        return f"0/1 nodes are available: {error}"
    short = []
    if wanted.cores > left.cores + 1e-9:
        asked, there, all_ = (quantity.render_cores(max(0.0, one.cores)) for one in (wanted, left, node))
        short.append(f"cpu requested {asked}, free {there} of {all_}")
    if wanted.memory > left.memory:
        short.append(f"memory requested {wanted.memory}, free {max(0, left.memory)} of {node.memory} bytes")
    return f"0/1 nodes are available: {'; '.join(short)}" if short else ""
