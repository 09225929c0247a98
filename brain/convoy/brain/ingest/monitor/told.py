"""What one change of the cluster says, as what is to be stored. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from convoy.brain.ingest.monitor import event, job, node, plan, pod
from convoy.brain.ingest.monitor.event import Subject
from convoy.brain.ingest.monitor.parts import Part, Row, clean
from convoy.core.cluster.port import Change, Kind, api_version

KINDS = (Kind.NODE, Kind.ELASTIC_JOB, Kind.SCALE_PLAN, Kind.POD, Kind.EVENT)
"""What is followed: those first that others refer to."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One object as it is to be stored.

    Attributes:
        kind: of the object.
        uid: of the object.
        name: with its namespace, for messages.
        row: what is told of it; None: it went, and nothing more is known.
        gone_at: when it was found deleted; None: it is there.
        subject: what an event is of.
        faults: a sentence for each value that was left out.
    """

    kind: Kind
    uid: str
    name: str
    row: Row | None
    gone_at: datetime | None = None
    subject: Subject | None = None
    faults: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[Any, ...]:
        """What later entries replace this one by: an object, or one time of an event."""
        return (self.kind, self.uid, self.row["happened_at"] if self.row and self.subject else None)

    def then(self, later: Entry) -> Entry:
        """Return what to store of an object that changed again: of what merely went, its last state stays."""
        return later if later.row is not None else replace(self, gone_at=later.gone_at)


def translate(kind: Kind, change: Change, user_label: str, now: datetime) -> Entry | None:
    """Return what a change says; None where it isn't ours: another's pod, an event of something else.

    Raises:
        Refused: the object can't be stored.
    """
    part = Part(change.object)
    gone_at = now if change.type == "DELETED" else None
    version = part["apiVersion"]
    if version.text(128) != api_version(kind):
        version.fault(f"is {version.text(64)!r}: it is read as {api_version(kind)}")
    if gone_at is not None and (kind is Kind.EVENT or not part["spec"]):
        return None if kind is Kind.EVENT else Entry(kind, _uid(part), named(change.object), None, gone_at)
    of = event.subject(part) if kind is Kind.EVENT else None
    row = _row(kind, part, user_label, of)
    if row is None:
        return None
    return Entry(kind, _uid(part), named(change.object), row, gone_at, of, tuple(part.faults))


def named(manifest: Any) -> str:
    """Return an object's namespace and name, for messages, whatever it holds."""
    metadata = Part(manifest)["metadata"]
    words = (metadata["namespace"].text(63), metadata["name"].text(300) or "(without a name)")
    return "/".join(clean(word) for word in words if word)


def _uid(part: Part) -> str:
    return part["metadata"]["uid"].identifier(64)


def _row(kind: Kind, part: Part, user_label: str, of: Subject | None) -> Row | None:
    match kind:
        case Kind.ELASTIC_JOB:
            return job.row(part, user_label)
        case Kind.SCALE_PLAN:
            return plan.row(part)
        case Kind.POD:
            return pod.row(part) if pod.is_of_job(part) else None
        case Kind.NODE:
            return node.row(part)
        case Kind.EVENT:
            return event.row(part) if of else None
    raise ValueError(f"{kind} isn't followed")
