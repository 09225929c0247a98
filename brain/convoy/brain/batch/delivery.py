"""From an accepted recommendation to a change: a ScalePlan, or the answer to the job's master.

Where the job's cluster can be written to, a ScalePlan is created as a person would: it names replicas alone and
carries no epoch, so that the job's master makes it exact under its own; what may not be, the master refuses on the
plan's condition. Its name follows from the recommendation: creating it again meets what is there. Elsewhere the
recommendation stands, and the master is given it when it asks next (``convoy.brain.serve.standing``).
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.engine import Engine

from convoy.brain.store import advice as decisions
from convoy.brain.store.advice import Advice
from convoy.core.api import names
from convoy.core.api.errors import AlreadyExists, Conflict, NotFound
from convoy.core.api.job import ElasticJob
from convoy.core.api.meta import Manifest
from convoy.core.cluster.port import Cluster, Kind
from convoy.core.process.crashpoint import crash_point

_OTHERS = ("ps", "worker_cpu", "worker_memory", "ps_cpu", "ps_memory")
WRITTEN, NEXT_ANSWER, PINNED = "PlanWritten", "NextAnswer", "Pinned"


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of an accepted recommendation.

    Attributes:
        reason: stable: ``PlanWritten``, ``NextAnswer``, ``Pinned``.
        message: a sentence.
        plan: the ScalePlan's name; empty: none was written.
    """

    reason: str
    message: str
    plan: str = ""


def deliver(engine: Engine, cluster: Cluster | None, advice: Advice, *, manager: str) -> Delivery:
    """Write the ScalePlan of an accepted recommendation, if its job's cluster is the one that is given.

    Args:
        engine: of the store, which is told the plan's name.
        cluster: that can be written to; None: there is none.
        advice: the recommendation.
        manager: who writes: one of ``names.MANAGER_*``.

    Raises:
        ClusterError: the cluster refuses the plan.
        Unavailable: the database can't be reached.
    """
    job = None if cluster is None else _job(cluster, advice)
    if cluster is None or job is None or not _is_of_workers_alone(advice):
        return _next_answer(advice)
    manifest = plan_manifest(job, advice)
    name = manifest["metadata"]["name"]
    try:
        cluster.create(manifest, field_manager=manager)
    except AlreadyExists:
        _require_ours(cluster.get(Kind.SCALE_PLAN, advice.namespace, name), advice)
    crash_point("batch.delivery.after-plan")
    decisions.set_plan(engine, advice.id, name)
    return Delivery(WRITTEN, f"ScalePlan {advice.namespace}/{name} asks for {advice.row['workers']} workers", name)


def is_pinned(cluster: Cluster | None, advice: Advice) -> bool:
    """Return whether the job is in that cluster, and pinned there."""
    job = None if cluster is None else _job(cluster, advice)
    return job is not None and job.metadata.annotations.get(names.ANNOTATION_PIN, "").lower() == "true"


def plan_manifest(job: ElasticJob, advice: Advice) -> Manifest:
    """Return the ScalePlan: of the job, for its master to make exact, with the numbers that speak for it."""
    row = advice.row
    numbers = {
        "predictedSamplesPerSecond": row["predicted"],
        "predictedLower": row["lower90"],
        "predictedUpper": row["upper90"],
        "pricePerHour": row["price_per_hour"],
    }
    return {
        "apiVersion": names.API_VERSION,
        "kind": "ScalePlan",
        "metadata": {
            "name": names.advised_plan(job.metadata.name, advice.id),
            "namespace": job.metadata.namespace,
            "labels": {names.LABEL_JOB: job.metadata.name, names.LABEL_SCALE_TYPE: names.SCALE_MANUAL},
            "ownerReferences": [job.owner_reference()],
        },
        "spec": {
            "ownerJob": job.metadata.name,
            "replicaResourceSpecs": {names.WORKER: {"replicas": row["workers"]}},
            "explanation": {
                "reason": row["reason"],
                "message": row["message"],
                "recommendation": advice.id,
                **{name: value for name, value in numbers.items() if value is not None},
            },
        },
    }


def _job(cluster: Cluster, advice: Advice) -> ElasticJob | None:
    """Return the job in the cluster; None where that is another cluster's."""
    try:
        found = cluster.get(Kind.ELASTIC_JOB, advice.namespace, advice.job)
    except NotFound:
        return None
    return ElasticJob.from_manifest(found) if found["metadata"].get("uid") == advice.uid else None


def _is_of_workers_alone(advice: Advice) -> bool:
    """Return whether nothing but the number of workers changes: a plan of a person's can say no more."""
    row, current = advice.row, advice.row["request"].get("current", {})
    same = all(float(row[name] or 0) == float(current.get(name) or 0) for name in _OTHERS)
    return same and row["workers"] != row["workers_before"]


def _require_ours(found: Manifest, advice: Advice) -> None:
    explained = (found.get("spec") or {}).get("explanation") or {}
    if explained.get("recommendation") != advice.id:
        raise Conflict(
            f"ScalePlan {advice.namespace}/{found['metadata']['name']} is there and isn't this recommendation's; "
            "delete it, or scale the job by a plan of your own",
            reason="PlanNameTaken",
        )


def _next_answer(advice: Advice) -> Delivery:
    if advice.optimize_mode == "cluster":
        message = "its master is answered with it when it asks next, which it does while it trains"
    else:
        mode = advice.optimize_mode or "manual"
        message = (
            f"its master asks no Brain (optimizeMode {mode}), and its cluster can't be written to from here: scale "
            "it by a ScalePlan of your own"
        )
    return Delivery(NEXT_ANSWER, message)
