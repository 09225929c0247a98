"""Pods as the reconcilers and the master see them: slim records read from a pod's manifest."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from convoy.core.api import names
from convoy.core.api.meta import Manifest


class PodPhase(StrEnum):
    """status.phase of a pod."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    @property
    def is_over(self) -> bool:
        """Whether its processes have ended."""
        return self in (PodPhase.SUCCEEDED, PodPhase.FAILED)


@dataclass(frozen=True, slots=True)
class Pod:
    """What a decision needs to know of a pod.

    ``exit_code`` is 128 + signal where a signal ended it; ``unplaced`` says why no node has taken it yet.
    """

    name: str
    namespace: str
    uid: str
    job: str
    role: str
    id: int
    rank: int
    relaunches: int
    phase: PodPhase
    deleting: bool = False
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    node: str = ""
    unplaced: str = ""

    @property
    def alive(self) -> bool:
        """Whether it runs or will, and nobody asked it to end."""
        return not self.deleting and not self.phase.is_over

    @classmethod
    def from_manifest(cls, manifest: Manifest) -> Pod:
        """Read a pod of a job; labels that are missing or malformed leave -1, never an exception."""
        metadata: dict[str, Any] = manifest.get("metadata") or {}
        labels: dict[str, str] = metadata.get("labels") or {}
        status: dict[str, Any] = manifest.get("status") or {}
        terminated = _terminated(status)
        return cls(
            name=metadata.get("name", ""),
            namespace=metadata.get("namespace", "default"),
            uid=metadata.get("uid", ""),
            job=labels.get(names.LABEL_JOB, ""),
            role=labels.get(names.LABEL_ROLE, ""),
            id=_number(labels.get(names.LABEL_ID)),
            rank=_number(labels.get(names.LABEL_RANK)),
            relaunches=max(0, _number(labels.get(names.LABEL_RELAUNCHES))),
            phase=_phase(status.get("phase")),
            deleting=bool(metadata.get("deletionTimestamp")),
            exit_code=terminated.get("exitCode"),
            reason=terminated.get("reason") or status.get("reason") or "",
            message=terminated.get("message") or status.get("message") or "",
            node=(manifest.get("spec") or {}).get("nodeName") or "",
            unplaced=_unplaced(status),
        )


def _state(status: dict[str, Any], state: str) -> dict[str, Any]:
    statuses = status.get("containerStatuses") or []
    found = ((item.get("state") or {}).get(state) for item in statuses if item)
    return next((item for item in found if item is not None), {}) or {}


def _terminated(status: dict[str, Any]) -> dict[str, Any]:
    return _state(status, "terminated")


def _unplaced(status: dict[str, Any]) -> str:
    conditions = [one for one in status.get("conditions") or [] if one]
    why = (one for one in conditions if one.get("type") == "PodScheduled" and one.get("status") == "False")
    return next((one.get("message") or one.get("reason") or "" for one in why), "")


def _phase(text: Any) -> PodPhase:
    return PodPhase(text) if text in set(PodPhase) else PodPhase.PENDING if text is None else PodPhase.UNKNOWN


def _number(text: str | None) -> int:
    try:
        return int(text) if text is not None else -1
    except ValueError:
        return -1
