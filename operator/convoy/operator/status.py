"""The operator's part of a job's status, from what is observed. Pure.

Exactly one phase's condition is True; a job that ran never goes back to Created or Pending, and one that ended stays
so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from convoy.core.api import names
from convoy.core.api.job_status import JobStatus, MasterKeeping, Phase, ReplicaStatus
from convoy.core.api.meta import Condition, Manifest, set_condition
from convoy.core.api.plan import PodMeta
from convoy.core.api.pod import Pod, PodPhase
from convoy.operator.actions import ApplyJobStatus, Reason
from convoy.operator.keeper import MASTER_AVAILABLE
from convoy.operator.observe import Observed

MANIFEST_VALID = "ManifestValid"
MASTER_TEMPLATE_REPLACED = "MasterTemplateReplaced"
RESTART_POLICY_REPLACED = "RestartPolicyReplaced"
SCHEDULABLE = "Schedulable"
_OWN_CONDITIONS = frozenset(
    {*Phase, MASTER_AVAILABLE, MANIFEST_VALID, MASTER_TEMPLATE_REPLACED, RESTART_POLICY_REPLACED, SCHEDULABLE}
)
_MASTERS_FIELDS = {"master", "training"}
_HAS_RUN = (Phase.RUNNING, Phase.SCALING, Phase.RESTARTING)


def outcome(seen: Observed) -> Reason | None:
    """Return how the training ended, as its master says; None while it goes on."""
    training = seen.job.status.training
    if training.state == "Succeeded":
        return Reason(training.reason or "JobSucceeded", training.message or "the training ended")
    if training.state == "Failed":
        return Reason(training.reason or "JobFailed", training.message or "the training failed")
    return None


def phase_of(seen: Observed, *, refused: bool = False, suspended: bool = False) -> Phase:
    """Return the phase that follows from what is observed.

    ``refused``: the manifest can't be carried out; ``suspended``: nothing is to be started yet.
    """
    status = seen.job.status
    previous, training = status.phase, status.training
    if previous is not None and previous.is_terminal:
        return previous
    if training.state in ("Succeeded", "Failed"):
        return Phase(training.state)
    if refused:
        return Phase.FAILED
    if suspended:
        return Phase.SUSPENDED
    living = [pod for pod in seen.nodes if pod.alive]
    running = any(pod.phase is PodPhase.RUNNING for pod in living)
    if not (running or training.state == "Running" or previous in _HAS_RUN):
        return Phase.PENDING if living or previous is Phase.PENDING else Phase.CREATED
    if not running:
        return Phase.RESTARTING
    waiting = any(pod.phase is PodPhase.PENDING for pod in living)
    return Phase.SCALING if waiting and training.state == "Running" else Phase.RUNNING


def next_status(
    seen: Observed,
    now: datetime,
    *,
    keeping: MasterKeeping | None = None,
    conditions: Sequence[Condition] = (),
    refusal: Reason | None = None,
    scale_plan: str | None = None,
    planned: Sequence[PodMeta] = (),
    suspended: bool = False,
) -> JobStatus:
    """Return the status that should stand.

    Args:
        seen: what is observed.
        now: the time.
        keeping: the record of the master; None: as it was.
        conditions: conditions besides the phase's.
        refusal: why the manifest can't be carried out; it fails the job.
        scale_plan: the last plan that was carried out; None: as it was.
        planned: pods that a plan is about to create.
        suspended: nothing is to be started yet.
    """
    old = seen.job.status
    phase = phase_of(seen, refused=refusal is not None, suspended=suspended)
    replicas = _replica_statuses(seen, phase, planned)
    reason = refusal or outcome(seen) or Reason(f"Job{phase}", "")
    own = [condition for condition in old.conditions if condition.type in _OWN_CONDITIONS]
    if refusal is not None or not (old.phase is not None and old.phase.is_terminal):
        own = _turn(own, phase, reason, now)
    for condition in conditions:
        own = set_condition(own, condition, now)
    return JobStatus(
        phase=phase,
        observed_generation=seen.job.metadata.generation,
        conditions=sorted(own, key=lambda condition: condition.type),
        replica_statuses=replicas,
        ready=_ready(replicas),
        selector=f"{names.LABEL_JOB}={seen.job.metadata.name},{names.LABEL_ROLE}={names.WORKER}",
        start_time=old.start_time or (None if suspended else now),
        completion_time=(old.completion_time or now) if phase.is_terminal else None,
        scale_plan=scale_plan or old.scale_plan,
        master_keeping=keeping or old.master_keeping,
    )


def changes(seen: Observed, new: JobStatus) -> tuple[ApplyJobStatus, ...]:
    """Return the write that brings the status there; nothing where it stands already."""
    wanted = _part(new)
    old = seen.job.status
    kept = sorted((one for one in old.conditions if one.type in _OWN_CONDITIONS), key=lambda one: one.type)
    if wanted == _part(old.model_copy(update={"conditions": kept})):
        return ()
    metadata = seen.job.metadata
    return (ApplyJobStatus(metadata.namespace, metadata.name, metadata.uid, wanted),)


def condition_of(seen: Observed, kind: str) -> Condition | None:
    """Return the job's condition of a type."""
    return next((condition for condition in seen.job.status.conditions if condition.type == kind), None)


def _part(status: JobStatus) -> Manifest:
    return status.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=_MASTERS_FIELDS)


def _turn(conditions: list[Condition], phase: Phase, reason: Reason, now: datetime) -> list[Condition]:
    """Make the phase's condition the only one of a phase that is True."""
    for other in conditions:
        if other.type in set(Phase) and other.type != phase and other.status == "True":
            left = Condition(type=other.type, status="False", reason=f"Job{phase}", message="")
            conditions = set_condition(conditions, left, now)
    current = Condition(type=phase, status="True", reason=reason.reason, message=reason.message)
    return set_condition(conditions, current, now)


def _replica_statuses(seen: Observed, phase: Phase, planned: Sequence[PodMeta]) -> dict[str, ReplicaStatus]:
    roles = {*seen.job.status.replica_statuses, *(pod.role for pod in seen.pods)}
    roles |= set(seen.job.job.spec.replica_specs) if seen.job.job else set()
    found = {role: _count(pod for pod in seen.pods if pod.role == role) for role in sorted(roles)}
    for role in {pod.type for pod in planned} & roles:
        found[role].initial = sum(pod.type == role for pod in planned)
    if phase.is_terminal:  # the pods are deleted then; how they ended stays
        for role, old in seen.job.status.replica_statuses.items():
            new = found[role]
            found[role] = new.model_copy(
                update={"succeeded": max(new.succeeded, old.succeeded), "failed": max(new.failed, old.failed)}
            )
    return found


def _count(pods: Iterable[Pod]) -> ReplicaStatus:
    count = ReplicaStatus()
    for pod in pods:
        if pod.phase is PodPhase.SUCCEEDED:
            count.succeeded += 1
        elif pod.phase is PodPhase.FAILED:
            count.failed += 1
        elif pod.deleting:
            continue
        elif pod.phase is PodPhase.RUNNING:
            count.active += 1
        else:
            count.pending += 1
    return count


def _ready(replicas: Mapping[str, ReplicaStatus]) -> str:
    """Return how many nodes run, of how many there are or will be."""
    nodes = [count for role, count in replicas.items() if role != names.MASTER]
    running = sum(count.active for count in nodes)
    return f"{running}/{running + sum(count.initial + count.pending for count in nodes)}"


def template_conditions(seen: Observed) -> tuple[Condition, ...]:
    """Return the conditions that tell a user what became of their templates."""
    job = seen.job.job
    if job is None:
        return ()
    found = []
    if names.MASTER in job.spec.replica_specs:
        message = (
            "resources and placement of replicaSpecs.dlrover-master are kept; its image and command are Convoy's"
        )
        found.append(_told(MASTER_TEMPLATE_REPLACED, "ImageAndCommandReplaced", message))
    wanted = {role: spec.template.spec.restart_policy for role, spec in job.spec.replica_specs.items()}
    other = {role: policy for role, policy in wanted.items() if policy not in (None, "Never")}
    if other:
        named = ", ".join(f"{policy} of replicaSpecs.{role}" for role, policy in sorted(other.items()))
        message = (
            f"restartPolicy {named} is taken for Never: a launcher restarts its processes in place, and a pod that "
            "ended is replaced under a new name"
        )
        found.append(_told(RESTART_POLICY_REPLACED, "TakenForNever", message))
    return tuple(found)


def _told(kind: str, reason: str, message: str) -> Condition:
    return Condition(type=kind, status="True", reason=reason, message=message)
