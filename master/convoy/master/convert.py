"""Between the wire and the decisions: workers' states, failures, windows, plans and their outcomes. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from convoy.core.api import names
from convoy.core.api.meta import Manifest
from convoy.core.api.moments import timestamp
from convoy.core.api.plan import PlanPhase
from convoy.core.api.v1 import brain_pb2, master_pb2, metrics_pb2
from convoy.master.decide.actions import Explain, RecordPlan
from convoy.master.decide.events import ProcessFailure
from convoy.master.decide.state import Advice, Cause, GroupState, Plan, PodOrder, Window


def group(state: int) -> GroupState:
    """Return a worker group's state; one that isn't known (yet) counts as idle."""
    name = master_pb2.WorkerGroup.State.Name(state) if state in master_pb2.WorkerGroup.State.values() else ""
    return GroupState(name) if name in GroupState.__members__ else GroupState.IDLE


def failure(workers: master_pb2.WorkerGroup) -> ProcessFailure | None:
    """Return how a worker ended, None where none is told."""
    if not workers.HasField("failure"):
        return None
    told = workers.failure
    return ProcessFailure(told.local_rank, told.exit_code, told.peer_lost, told.message)


def to_window(sample: metrics_pb2.SpeedSample) -> Window:
    """Return one window of speed."""
    steps = max(1, sample.last_step - sample.first_step + 1)
    return Window(
        time=sample.time,
        seconds=sample.seconds,
        first_step=sample.first_step,
        last_step=sample.last_step,
        samples=sample.samples,
        nodes=sample.nodes or sample.workers,
        workers=sample.workers,
        batch=round(sample.samples / steps),
        round=sample.round,
        warming=sample.warming,
    )


def to_event(action: Explain, now: float) -> metrics_pb2.JobEvent:
    """Return a decision as an event of the job."""
    return metrics_pb2.JobEvent(
        time=now,
        reason=action.reason,
        node=action.node,
        message=action.message[:2000],
        round=action.round,
        step=action.step,
        evidence={name: value[:500] for name, value in action.evidence.items()},
    )


def to_advice(answer: brain_pb2.Recommendation) -> Advice:
    """Return the Brain's answer; an interval that isn't known is 0."""
    reason = answer.reason or "NoReasonGiven"
    numbers = (answer.predicted, answer.lower90, answer.upper90, answer.price_per_hour)
    return Advice(
        decision=brain_pb2.Recommendation.Decision.Name(answer.decision),
        workers=answer.target.workers,
        cause=Cause(reason, answer.message, answer.id, *numbers),
        loaders=answer.loaders.workers if answer.loaders.decided else None,
        loaders_message=answer.loaders.message,
    )


def to_outcome(action: RecordPlan) -> brain_pb2.PlanOutcome:
    """Return how a change of size fares, as far as it is known."""
    trial, cause = action.trial, action.trial.cause
    return brain_pb2.PlanOutcome(
        plan=trial.plan,
        recommendation=cause.recommendation,
        created=trial.created_at,
        carried_out=trial.carried_out,
        workers_before=trial.before,
        workers_after=trial.after,
        predicted=cause.predicted,
        predicted_lower=cause.lower,
        predicted_upper=cause.upper,
        realized=trial.samples / trial.seconds if trial.seconds else 0.0,
        realized_seconds=trial.seconds,
        restart_seconds=trial.restart_seconds,
        reason=cause.reason,
        message=cause.message[:2000],
        rolled_back=action.rolled_back,
    )


def plan_manifest(plan: Plan, job: str, namespace: str, epoch: int, owner: Manifest) -> Manifest:
    """Return the ScalePlan object."""
    cause = plan.cause
    explanation: dict[str, Any] = {"reason": cause.reason, "message": cause.message}
    if cause.recommendation:
        explanation["recommendation"] = cause.recommendation
    if cause.predicted:
        explanation["predictedSamplesPerSecond"] = cause.predicted
        explanation["predictedLower"] = cause.lower
        explanation["predictedUpper"] = cause.upper
    if cause.price_per_hour:
        explanation["pricePerHour"] = cause.price_per_hour
    return {
        "apiVersion": names.API_VERSION,
        "kind": "ScalePlan",
        "metadata": {
            "name": plan.name,
            "namespace": namespace,
            "labels": {names.LABEL_JOB: job, names.LABEL_SCALE_TYPE: names.SCALE_AUTO},
            "ownerReferences": [owner],
        },
        "spec": {
            "ownerJob": job,
            "epoch": epoch,
            "replicaResourceSpecs": {names.WORKER: {"replicas": plan.replicas}},
            "createPods": [_pod_meta(order) for order in plan.create],
            "removePods": [_pod_meta(order) for order in plan.remove],
            "explanation": explanation,
        },
    }


def answer_manifest(name: str, namespace: str, accepted: bool, reason: str, message: str, now: float) -> Manifest:
    """Return a person's plan's status, answered."""
    moment = timestamp(datetime.fromtimestamp(now, UTC))
    condition = {
        "type": names.CONDITION_FINISHED,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": moment,
    }
    phase = PlanPhase.SUCCEEDED if accepted else PlanPhase.FAILED
    return {
        "apiVersion": names.API_VERSION,
        "kind": "ScalePlan",
        "metadata": {"name": name, "namespace": namespace},
        "status": {
            "phase": phase.value,
            "createTime": moment,
            "finishTime": moment,
            "conditions": [condition],
        },
    }


def _pod_meta(order: PodOrder) -> Manifest:
    return {
        "name": order.name,
        "type": order.role,
        "id": order.id,
        "rankIndex": order.rank,
        "relaunchCount": order.relaunches,
    }
