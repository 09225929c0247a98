"""What a reconciler can ask for: small records that the executor carries out, in order.

Each of them meets a fixed name, so carrying one out twice does nothing more. None shows a secret or a user's
environment when printed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from convoy.core.api.meta import Manifest
from convoy.core.cluster.port import Kind


@dataclass(frozen=True, slots=True)
class CreateObject:
    """Create an object; that it exists already is fine."""

    kind: Kind
    namespace: str
    name: str
    manifest: Manifest = field(repr=False)


@dataclass(frozen=True, slots=True)
class EnsureTokenSecret:
    """Give the job its Secret: a random token made once, and a copy of the Brain's token where there is one."""

    namespace: str
    name: str
    owner: Manifest = field(repr=False)


@dataclass(frozen=True, slots=True)
class EnsureDirectory:
    """Make the folder that the job's pods share on one machine."""

    path: Path


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Ask a pod to end; ``uid`` keeps a namesake safe. That it is gone already is fine.

    ``grace_seconds``: how long it may take; None: what its spec says.
    """

    namespace: str
    name: str
    uid: str
    grace_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ApplyJobStatus:
    """Write the operator's part of a job's status; ``uid`` keeps a later job of the same name safe."""

    namespace: str
    name: str
    uid: str
    status: Manifest


@dataclass(frozen=True, slots=True)
class ApplyJobReplicas:
    """Write a role's number into a job whose user gave none, for ``/scale``; ``uid`` as above.

    That somebody else owns it by now, or that it isn't in the user's range, is fine.
    """

    namespace: str
    name: str
    uid: str
    role: str
    replicas: int


@dataclass(frozen=True, slots=True)
class ApplyPlanStatus:
    """Write a plan's status."""

    namespace: str
    name: str
    status: Manifest


@dataclass(frozen=True, slots=True)
class DeletePlan:
    """Delete a plan that is long finished; ``uid`` keeps a namesake safe. That it is gone already is fine."""

    namespace: str
    name: str
    uid: str


Action = (
    CreateObject
    | EnsureTokenSecret
    | EnsureDirectory
    | DeletePod
    | DeletePlan
    | ApplyJobStatus
    | ApplyJobReplicas
    | ApplyPlanStatus
)


class Reason(NamedTuple):
    """Why: a stable CamelCase word and a sentence."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now, when to look again (seconds; None: at the next change), and why."""

    actions: tuple[Action, ...] = ()
    requeue_after: float | None = None
    reasons: tuple[Reason, ...] = ()

    def then(self, other: Decision) -> Decision:
        """Return both, this one's actions first."""
        waits = [wait for wait in (self.requeue_after, other.requeue_after) if wait is not None]
        return Decision(self.actions + other.actions, min(waits) if waits else None, self.reasons + other.reasons)
