"""How a pod's status moves: pure functions from a pod's manifest to its next one. Times are UTC, as Kubernetes'.

While it runs, ``status.containerStatuses[0]`` has a field that Kubernetes does not know: ``pid``, the main process.
"""

from __future__ import annotations

from typing import Any

from convoy.core.api import names
from convoy.core.cluster.local.environment import POD_IP

Manifest = dict[str, Any]

NODE_NAME = "local"
CREATING = "ContainerCreating"
CRASH_LOOP = "CrashLoopBackOff"
LOST = "ShimLost"
KILLED = 137
DEFAULT_GRACE_SECONDS = 30.0


def container_status(pod: Manifest) -> Manifest:
    """Return what is known of the pod's container; empty before its first start."""
    found = (pod.get("status") or {}).get("containerStatuses") or []
    return found[0] if found else {}


def state(pod: Manifest, name: str) -> Manifest | None:
    """Return the container's state ``running``, ``waiting`` or ``terminated``, None where it is in another."""
    found: Manifest | None = (container_status(pod).get("state") or {}).get(name)
    return found


def grace(pod: Manifest) -> float:
    """Return the seconds that a pod's processes have to end once they were asked to."""
    own = pod["spec"].get("terminationGracePeriodSeconds")
    given = pod["metadata"].get("deletionGracePeriodSeconds", own)
    return DEFAULT_GRACE_SECONDS if given is None else float(given)


def is_over(pod: Manifest) -> bool:
    """Whether the pod has ended for good."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def restarts(pod: Manifest, exit_code: int) -> bool:
    """Whether the pod's restart policy asks for another start after this exit."""
    if pod["metadata"].get("deletionTimestamp"):
        return False
    policy = pod["spec"].get("restartPolicy", "Always")
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def pending(pod: Manifest) -> Manifest:
    """A pod that was just created."""
    return {**pod, "status": {"phase": "Pending"}}


def unschedulable(pod: Manifest, message: str, now: str) -> Manifest:
    """The node has no room; the same message again changes nothing."""
    return _with(pod, _condition(pod, "PodScheduled", "False", now, reason="Unschedulable", message=message))


def bound(pod: Manifest, now: str) -> Manifest:
    """The node took the pod; its shim comes next."""
    placed = {**pod, "spec": {**pod["spec"], "nodeName": NODE_NAME}}
    return waiting(_with(placed, _condition(placed, "PodScheduled", "True", now), startTime=now), CREATING, "")


def waiting(pod: Manifest, reason: str, message: str) -> Manifest:
    """The container waits for a start; how it ended before moves to ``lastState``."""
    old = container_status(pod)
    ended = state(pod, "terminated")
    new = {**_identity(pod, old), "ready": False, "state": {"waiting": {"reason": reason, "message": message}}}
    new["lastState"] = {"terminated": ended} if ended else old.get("lastState") or {}
    return _with(pod, {}, containerStatuses=[new])


def starting_again(pod: Manifest) -> Manifest:
    """The back-off is over; the next shim counts as one more restart."""
    old = container_status(pod)
    again = waiting(pod, CREATING, "")
    again["status"]["containerStatuses"][0]["restartCount"] = old.get("restartCount", 0) + 1
    return again


def running(pod: Manifest, pid: int, now: str) -> Manifest:
    """The main process runs."""
    old = container_status(pod)
    new = {
        **_identity(pod, old),
        "pid": pid,
        "ready": True,
        "state": {"running": {"startedAt": now}},
        "lastState": old.get("lastState") or {},
    }
    return _with(
        pod,
        _condition(pod, "Ready", "True", now),
        phase="Running",
        podIP=POD_IP,
        hostIP=POD_IP,
        containerStatuses=[new],
    )


def terminated(pod: Manifest, exit_code: int, reason: str, message: str, now: str) -> Manifest:
    """All processes of the pod have ended. Where it restarts, the phase stays Running."""
    old = container_status(pod)
    ended: Manifest = {"exitCode": exit_code, "reason": reason, "message": message, "finishedAt": now}
    started = (state(pod, "running") or {}).get("startedAt")
    if started:
        ended["startedAt"] = started
    new = {
        **_identity(pod, old),
        "ready": False,
        "state": {"terminated": ended},
        "lastState": old.get("lastState") or {},
    }
    ready = _condition(pod, "Ready", "False", now, reason=reason)
    if restarts(pod, exit_code):
        return _with(pod, ready, phase="Running", containerStatuses=[new])
    phase = "Succeeded" if exit_code == 0 else "Failed"
    final = _with(pod, ready, phase=phase, containerStatuses=[new])
    if reason == LOST:
        final["status"] |= {"reason": reason, "message": message}
    return final


def _identity(pod: Manifest, old: Manifest) -> Manifest:
    containers = pod["spec"].get("containers") or [{}]
    main = containers[names.main_container([one.get("name", "") for one in containers])]
    return {
        "name": main.get("name", "main"),
        "image": main.get("image", ""),
        "restartCount": old.get("restartCount", 0),
    }


def _with(pod: Manifest, condition: Manifest, **fields: Any) -> Manifest:
    status = {**(pod.get("status") or {}), **fields}
    if condition:
        others = [one for one in status.get("conditions") or [] if one.get("type") != condition["type"]]
        status["conditions"] = [*others, condition]
    return {**pod, "status": status}


def _condition(pod: Manifest, kind: str, value: str, now: str, *, reason: str = "", message: str = "") -> Manifest:
    conditions = (pod.get("status") or {}).get("conditions") or []
    old: Manifest = next((one for one in conditions if one.get("type") == kind), {})
    since = old["lastTransitionTime"] if old.get("status") == value and "lastTransitionTime" in old else now
    new = {"type": kind, "status": value, "lastTransitionTime": since}
    return {**new, **({"reason": reason} if reason else {}), **({"message": message} if message else {})}
