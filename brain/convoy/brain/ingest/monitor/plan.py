"""A ScalePlan as a row of ``scale_plan``. Pure."""

from __future__ import annotations

from convoy.brain.ingest.monitor.parts import Part, Row
from convoy.core.api import names
from convoy.core.api.plan import PlanPhase

_PHASES = {
    **{phase.value: phase.value for phase in PlanPhase},
    **{phase: phase for phase in ("Created", "Running", "Scaling")},  # DLRover's
}


def row(plan: Part) -> Row:
    """Return what the object says of its plan, and whose it is: ``job_uid`` where an owner says so, and ``job_name``.

    How many workers there were before, and what came of it, only the job's master knows. ``made_at`` is None where
    the object doesn't say when it was made.

    Raises:
        Refused: its uid, name, namespace or job can't be used.
    """
    metadata, spec, status = plan["metadata"], plan["spec"], plan["status"]
    because = spec["explanation"]
    ended = status["conditions"].first(lambda one: one["type"].text(64) == names.CONDITION_FINISHED)
    reason = because["reason"].text(128)
    return {
        "uid": metadata["uid"].identifier(64),
        "name": metadata["name"].identifier(253),
        "namespace": metadata["namespace"].identifier(63),
        "job_uid": owner_uid(metadata),
        "job_name": spec["ownerJob"].identifier(253),
        "made_at": metadata["creationTimestamp"].moment(),
        "workers_after": spec["replicaResourceSpecs"][names.WORKER]["replicas"].whole() or 0,
        "recommendation_id": because["recommendation"].text(36) or None,
        "predicted": because["predictedSamplesPerSecond"].number() or None,
        "predicted_lower": because["predictedLower"].number() or None,
        "predicted_upper": because["predictedUpper"].number() or None,
        "reason": reason or ended["reason"].text(128),
        "message": because["message"].text() if reason else ended["message"].text(),
        "phase": status["phase"].choice(_PHASES),
    }


def owner_uid(metadata: Part) -> str:
    """Return the uid of the ElasticJob that controls the object; ``""`` where none does.

    Raises:
        Refused: that uid can't be used.
    """
    owner = metadata["ownerReferences"].first(
        lambda one: one["controller"].flag() and one["kind"].text(64) == "ElasticJob"
    )
    return owner["uid"].identifier(64) if owner else ""
