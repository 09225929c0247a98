"""Carrying out scale plans: one plan, the job's pods and the job in; actions out. Pure.

A plan names its pods, so what is there already is left alone. Plans are carried out one at a time, oldest first: the
next one is judged by pods that were observed after this one's. A manual plan is left to the master, which turns it
into an exact one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from convoy.core.api import names
from convoy.core.api.errors import ConvoyError
from convoy.core.api.job import ElasticJob
from convoy.core.api.meta import Condition, Manifest
from convoy.core.api.plan import PlanPhase, PlanStatus, PodMeta, ScalePlan
from convoy.operator.actions import Action, ApplyJobReplicas, ApplyPlanStatus, Decision, DeletePlan, DeletePod, Reason
from convoy.operator.observe import Observed, PlanView
from convoy.operator.pods import Site, node_pod

LOST_GRACE_SECONDS = 2.0
"""How long a pod may take to end whose rank the same plan gives to another: its node was lost, and while it lasts the
rank is in no round."""
KEPT_PLANS = 20
_NAME_RETRY_SECONDS = 0.2


def carry_out(seen: Observed, job: ElasticJob, service: Manifest, site: Site, now: datetime) -> Decision:
    """Decide about the plans of a job whose training goes on."""
    decision = Decision()
    pending = [plan for plan in seen.plans if plan.phase is PlanPhase.PENDING]
    for position, view in enumerate(pending):
        refusal = _refusal(view, job, whole=seen.job.error is None)
        if refusal is not None:
            decision = decision.then(_finish(view, PlanPhase.FAILED, refusal, now))
        elif view.plan is not None and not _is_for_the_master(view.plan):
            more = Decision(requeue_after=0.0) if position + 1 < len(pending) else Decision()
            return decision.then(_change_pods(seen, job, service, site, view, view.plan, now)).then(more)
    return decision


def planned(seen: Observed, job: ElasticJob) -> list[PodMeta]:
    """Return the pods that plans ask for and that aren't there yet."""
    present = {pod.name for pod in seen.nodes}
    whole = seen.job.error is None
    pending = [view for view in seen.plans if view.phase is PlanPhase.PENDING]
    asked = [view for view in pending if _refusal(view, job, whole=whole) is None]
    wanted = {pod.name: pod for view in asked if view.plan for pod in view.plan.spec.create_pods}
    return [pod for name, pod in wanted.items() if name not in present]


def supersede(plans: Sequence[PlanView], now: datetime) -> Decision:
    """Finish the plans of a job that has ended."""
    decision = Decision()
    for view in plans:
        if view.phase is PlanPhase.PENDING:
            reason = Reason("JobFinished", "the job ended before the plan was carried out")
            decision = decision.then(_finish(view, PlanPhase.SUPERSEDED, reason, now))
    return decision


def without_job(plans: Sequence[PlanView], now: datetime) -> Decision:
    """Say on plans whose job isn't there that it is waited for."""
    decision = Decision()
    for view in plans:
        if view.phase is PlanPhase.PENDING:
            reason = Reason("JobNotFound", "no ElasticJob of that name in this namespace; correct spec.ownerJob")
            decision = decision.then(_wait(view, reason, now))
    return decision


def blocked(seen: Observed, error: ConvoyError, now: datetime) -> Decision:
    """Say on the plan that was being carried out why a pod could not be created; it is tried again."""
    for view in seen.plans:
        if view.phase is PlanPhase.PENDING and view.plan is not None and not _is_for_the_master(view.plan):
            return _wait(view, Reason(error.reason, f"a pod could not be created: {error}; trying again"), now)
    return Decision()


def last_carried_out(plans: Sequence[PlanView]) -> str | None:
    """Return the name of the newest plan that was carried out."""
    return next((plan.name for plan in reversed(plans) if plan.phase is PlanPhase.SUCCEEDED), None)


def forget(plans: Sequence[PlanView], last: str | None) -> tuple[DeletePlan, ...]:
    """Return the deletion of finished plans beyond the newest ``KEPT_PLANS``; the Brain's store keeps their story.

    ``last``: the plan that was carried out last, which its master may not have seen finished yet.
    """
    finished = [plan for plan in plans if plan.phase is not PlanPhase.PENDING]
    old = finished[: max(0, len(finished) - KEPT_PLANS)]
    return tuple(DeletePlan(plan.namespace, plan.name, plan.uid) for plan in old if plan.name != last)


def _is_for_the_master(plan: ScalePlan) -> bool:
    return plan.is_manual and not plan.spec.create_pods and not plan.spec.remove_pods


def _refusal(view: PlanView, job: ElasticJob, *, whole: bool) -> Reason | None:
    """Return why a plan can't be carried out. ``whole``: the job is right, so a role that it lacks isn't there."""
    if view.plan is None:
        return Reason("InvalidManifest", str(view.error))
    plan, spec = view.plan, view.plan.spec
    if _is_for_the_master(plan):
        return None
    if spec.epoch is None:
        return Reason(
            "EpochMissing",
            "spec.epoch: is required of a plan that names pods, and is absent; a plan of yours names replicas in "
            f"spec.replicaResourceSpecs and carries the label {names.LABEL_SCALE_TYPE}: {names.SCALE_MANUAL}",
        )
    if spec.epoch < job.status.master.epoch:
        return Reason(
            "StaleEpoch",
            f"spec.epoch: {spec.epoch}, but a newer master holds the job (epoch {job.status.master.epoch})",
        )
    for index, pod in enumerate(spec.create_pods):
        unread = not whole and pod.type in names.NODE_ROLES and pod.type not in job.spec.replica_specs
        problem = None if unread else _problem(pod, job)
        if problem is not None:
            return Reason("InvalidManifest", f"spec.createPods[{index}].{problem}")
    return None


def _problem(pod: PodMeta, job: ElasticJob) -> str | None:
    if pod.type not in names.NODE_ROLES or pod.type not in job.spec.replica_specs:
        roles = ", ".join(role for role in job.spec.replica_specs if role in names.NODE_ROLES)
        return f"type: the job has no role {pod.type!r}; expected one of {roles}"
    expected = names.pod(job.metadata.name, pod.type, pod.id)
    return None if pod.name == expected else f"name: expected {expected!r} of that type and id, not {pod.name!r}"


def _change_pods(
    seen: Observed, job: ElasticJob, service: Manifest, site: Site, view: PlanView, plan: ScalePlan, now: datetime
) -> Decision:
    unread = sorted({pod.type for pod in plan.spec.create_pods} - job.spec.replica_specs.keys())
    if unread:
        reason = Reason(
            "InvalidManifest", f"a {unread[0]}'s pod can't be made until the job is right: {seen.job.error}"
        )
        return _wait(view, reason, now)
    present = {pod.name: pod for pod in seen.nodes}
    taken = sorted(pod.name for pod in plan.spec.create_pods if pod.name in seen.taken)
    if taken:
        reason = Reason("NameTaken", f"pod {taken[0]} of another owner is still there; waiting for its end")
        return _wait(view, reason, now).then(Decision(requeue_after=_NAME_RETRY_SECONDS))
    removed = [present[pod.name] for pod in plan.spec.remove_pods if pod.name in present]
    leaving = {pod.name for pod in removed}
    wanted = [pod for pod in plan.spec.create_pods if pod.name not in present]
    actions: list[Action] = []
    for node in wanted:
        stated = plan.spec.replica_resource_specs.get(node.type)
        staying = sum(pod.alive and pod.role == node.type and pod.name not in leaving for pod in seen.nodes)
        coming = sum(one.type == node.type for one in wanted)
        nodes = stated.replicas if stated and stated.replicas is not None else staying + coming
        actions.append(node_pod(job, site, node, service, nodes=nodes))
    gone = {pod.name: pod for pod in removed if not pod.deleting}
    replaced = {(pod.type, pod.rank_index) for pod in plan.spec.create_pods}
    for pod in gone.values():
        grace = LOST_GRACE_SECONDS if (pod.role, pod.rank) in replaced else None
        actions.append(DeletePod(pod.namespace, pod.name, pod.uid, grace))
    actions += _numbers(seen, job, plan)
    explained = plan.spec.explanation
    why = f": {explained.reason}" if explained else ""
    reason = Reason("CarriedOut", f"{len(wanted)} pods created, {len(gone)} removed{why}")
    return Decision(tuple(actions)).then(_finish(view, PlanPhase.SUCCEEDED, reason, now))


def _numbers(seen: Observed, job: ElasticJob, plan: ScalePlan) -> list[Action]:
    """Return the writing of the workers' number into the job, where /scale is served and the user gave none."""
    stated = plan.spec.replica_resource_specs.get(names.WORKER)
    asked = job.spec.replica_specs.get(names.WORKER)
    if (
        not seen.job.scalable
        or stated is None
        or stated.replicas is None
        or asked is None
        or asked.replicas is not None
    ):
        return []
    metadata = seen.job.metadata
    return [ApplyJobReplicas(metadata.namespace, metadata.name, metadata.uid, names.WORKER, stated.replicas)]


def _finish(view: PlanView, phase: PlanPhase, reason: Reason, now: datetime) -> Decision:
    return Decision((_status(view, phase, "True", reason, now),), reasons=(reason,))


def _wait(view: PlanView, reason: Reason, now: datetime) -> Decision:
    if view.waiting == reason.reason:
        return Decision()
    return Decision((_status(view, PlanPhase.PENDING, "False", reason, now),), reasons=(reason,))


def _status(view: PlanView, phase: PlanPhase, finished: str, reason: Reason, now: datetime) -> ApplyPlanStatus:
    condition = Condition.model_validate(
        {"type": names.CONDITION_FINISHED, "status": finished, "reason": reason.reason, "message": reason.message}
    ).model_copy(update={"last_transition_time": now})
    status = PlanStatus(
        phase=phase,
        create_time=view.created or now,
        finish_time=None if phase is PlanPhase.PENDING else now,
        conditions=[condition],
    )
    return ApplyPlanStatus(view.namespace, view.name, status.to_json())
