"""An event of Kubernetes as a row of ``job_event`` or ``node_event``, and of what it is. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from convoy.brain.ingest.monitor.parts import Part, Refused, Row
from convoy.core.api import names
from convoy.core.cluster.port import Kind, api_version


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that an event is of. Of nodes the uid is whatever its writer took for one, often the name."""

    kind: Kind
    namespace: str
    name: str
    uid: str


_SUBJECTS = (Kind.ELASTIC_JOB, Kind.SCALE_PLAN, Kind.POD, Kind.NODE)


def subject(event: Part) -> Subject | None:
    """Return what the event is of; None where that is nothing that is followed.

    Raises:
        Refused: the subject's name or uid can't be used.
    """
    of = event["involvedObject"]
    kind = next((kind for kind in _SUBJECTS if kind.value == of["kind"].text(64)), None)
    if kind is None or of["apiVersion"].text(128) not in ("", api_version(kind), *_other_versions(kind)):
        return None
    namespace = "" if kind is Kind.NODE else of["namespace"].identifier(63)
    uid = of["uid"].text(64) if kind is Kind.NODE else of["uid"].identifier(64)
    return Subject(kind, namespace, of["name"].identifier(253), uid)


def row(event: Part) -> Row:
    """Return what happened. Of one that is repeated under one name each last time is a row of its own.

    Raises:
        Refused: it has no reason, or no time.
    """
    happened_at = _happened_at(event)
    if happened_at is None:
        raise Refused("it says no time: lastTimestamp, eventTime and metadata.creationTimestamp are empty")
    count = event["series"]["count"].whole() or event["count"].whole()
    said_by = event["reportingComponent"].text(128) or event["source"]["component"].text(128)
    evidence = {"type": event["type"].text(32), "component": said_by, "count": str(count or 1)}
    return {
        "happened_at": happened_at,
        "reason": event["reason"].identifier(128),
        "message": event["message"].text(),
        "evidence": {name: value for name, value in evidence.items() if value},
    }


def _happened_at(event: Part) -> datetime | None:
    """Return its last time; the newer API has a series, the older one lastTimestamp."""
    told = (
        event["series"]["lastObservedTime"],
        event["lastTimestamp"],
        event["eventTime"],
        event["firstTimestamp"],
        event["metadata"]["creationTimestamp"],
    )
    return next((moment for part in told if (moment := part.moment()) is not None), None)


def _other_versions(kind: Kind) -> tuple[str, ...]:
    """Return how else writers of events name the version: without the group."""
    return (names.VERSION,) if kind in (Kind.ELASTIC_JOB, Kind.SCALE_PLAN) else ()
