"""One job: everything that is observed of it in, all actions out. Pure.

What is needed for the rest comes first (token, service, folder), then the status (so that a master's index is on
record before its pod is made), then the master, then the plans.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from convoy.core.api import admission, names
from convoy.core.api.errors import InvalidManifest
from convoy.core.api.job import ElasticJob
from convoy.core.api.job_status import Phase
from convoy.core.api.meta import Condition, Manifest
from convoy.core.api.pod import Pod
from convoy.operator import keeper, plan, status
from convoy.operator.actions import Action, Decision, DeletePod, EnsureDirectory, EnsureTokenSecret, Reason
from convoy.operator.observe import Observed
from convoy.operator.pods import Site, master_pod, master_rights, master_service, service_address, service_port

FAREWELL = timedelta(seconds=10)
"""After its end, how long a job's master and nodes have to end by themselves."""
_LOOK_AGAIN_SECONDS = 0.05
_SUSPENDED_TOO_LATE = Reason(
    "SuspendedTooLate", "spec.suspend: a job that was started can't be suspended by this version; scale it instead"
)


def decide(seen: Observed, site: Site, now: datetime) -> Decision:
    """Return what to do about a job. Deciding again after it was done asks for nothing more."""
    if seen.job.metadata.deletion_timestamp is not None or not seen.job.ours:
        return Decision()  # what it owns goes with it; what another controller carries out is left alone
    refusal = Reason("InvalidManifest", str(seen.job.error or "can't be read"))
    if seen.job.refused and seen.job.job is None:
        return _refuse(seen, refusal, now)
    if seen.job.refused:
        seen = replace(seen, job=seen.job.anew())
    phase = seen.job.status.phase
    if (phase is not None and phase.is_terminal) or status.outcome(seen) is not None:
        return _end(seen, now)
    if seen.job.job is not None and not seen.job.job.spec.suspend:
        return _run(seen, seen.job.job, site, now)
    if seen.job.job is not None and not seen.pods and seen.job.status.master_keeping is None:
        return Decision(status.changes(seen, status.next_status(seen, now, suspended=True)))
    if seen.job.job is not None:
        return _run(seen, seen.job.job, site, now, _SUSPENDED_TOO_LATE)
    if phase in (None, Phase.SUSPENDED) or seen.job.readable is None:
        return _refuse(seen, refusal, now)
    return _run(seen, seen.job.readable, site, now, refusal)


def _run(seen: Observed, job: ElasticJob, site: Site, now: datetime, refusal: Reason | None = None) -> Decision:
    """Keep a job going. ``refusal``: what is wrong about it since it was accepted; ``job`` is what can be read."""
    needed = _prerequisites(seen, job, site)
    if needed.actions or needed.requeue_after is not None or seen.service is None or seen.secret is None:
        new = status.next_status(seen, now, conditions=status.template_conditions(seen))
        return needed.then(Decision(status.changes(seen, new)))
    kept = keeper.keep_master(seen, now)
    schedulable = () if refusal is not None else _schedulable(seen, job)
    conditions = (kept.condition, *status.template_conditions(seen), *_validity(seen, refusal), *schedulable)
    new = status.next_status(
        seen,
        now,
        keeping=kept.record,
        conditions=conditions,
        scale_plan=plan.last_carried_out(seen.plans),
        planned=plan.planned(seen, job),
    )
    actions: list[Action] = [*status.changes(seen, new)]
    reasons = [refusal] if refusal is not None and actions else []
    if kept.create is not None:
        actions += _directory(job, site)
        actions += master_rights(job, site)
        actions.append(master_pod(job, site, kept.create, seen.service, brain_token=seen.secret.has_brain_token))
        reasons.append(Reason(kept.condition.reason, kept.condition.message))
    actions += _deletions(kept.delete)
    actions += plan.forget(seen.plans, new.scale_plan)
    return Decision(tuple(actions), kept.wait, tuple(reasons)).then(
        plan.carry_out(seen, job, seen.service, site, now)
    )


def _prerequisites(seen: Observed, job: ElasticJob, site: Site) -> Decision:
    """Return what must be there before a master is made; it is looked at again at once."""
    actions: list[Action] = []
    secret, service = names.token_secret(job.metadata.name), names.master_service(job.metadata.name)
    held = sorted({secret, service} & seen.taken)
    if held:
        reason = Reason("NameTaken", f"{held[0]} of another owner is still there; waiting for its end")
        return Decision((), 4 * _LOOK_AGAIN_SECONDS, (reason,))
    if seen.secret is None or not seen.secret.current:
        actions.append(EnsureTokenSecret(job.metadata.namespace, secret, job.owner_reference()))
    if seen.service is None:
        actions.append(master_service(job, site))
    if actions:
        return Decision(tuple(actions), 0.0)
    return Decision() if _ready(seen.service) else Decision((), _LOOK_AGAIN_SECONDS)


def _ready(service: Manifest | None) -> bool:
    return service is not None and service_port(service) is not None and service_address(service) is not None


def _directory(job: ElasticJob, site: Site) -> list[Action]:
    directory = site.job_dir(job)
    return [EnsureDirectory(directory)] if directory else []


def _end(seen: Observed, now: datetime) -> Decision:
    """Bring a job that ended to rest: its status, then its pods, then its plans."""
    done = Condition(
        type=keeper.MASTER_AVAILABLE, status="False", reason="JobFinished", message="a job that ended needs no master"
    )
    new = status.next_status(seen, now, conditions=(done,), scale_plan=plan.last_carried_out(seen.plans))
    ended = status.outcome(seen)
    first = () if ended is None or seen.job.status.phase is new.phase else (ended,)
    decision = Decision(status.changes(seen, new), reasons=first)
    deadline = (new.completion_time or now) + FAREWELL
    living = [pod for pod in seen.pods if not pod.phase.is_over]
    if living and now < deadline and ended is not None:
        decision = decision.then(Decision(requeue_after=(deadline - now).total_seconds()))
    else:
        # the last master's pod stays for its logs, if it ended by itself
        kept = [pod for pod in seen.masters if pod.phase.is_over][-1:]
        decision = decision.then(Decision(tuple(_deletions(pod for pod in seen.pods if pod not in kept))))
    return decision.then(plan.supersede(seen.plans, now))


def _refuse(seen: Observed, reason: Reason, now: datetime) -> Decision:
    """Fail a job that can't be carried out as it is; when it is corrected, it begins."""
    message = f"{reason.message}; nothing is started until it is corrected"
    valid = Condition(type=status.MANIFEST_VALID, status="False", reason=reason.reason, message=message)
    changes = status.changes(seen, status.next_status(seen, now, conditions=(valid,), refusal=reason))
    return Decision(changes, reasons=(reason,) if changes else ()).then(plan.supersede(seen.plans, now))


def _validity(seen: Observed, refusal: Reason | None) -> tuple[Condition, ...]:
    if refusal is not None:
        message = f"{refusal.message}; what runs goes on as it was accepted until it is corrected"
        return (Condition(type=status.MANIFEST_VALID, status="False", reason=refusal.reason, message=message),)
    if status.condition_of(seen, status.MANIFEST_VALID) is None:
        return ()
    return (Condition(type=status.MANIFEST_VALID, status="True", reason="Corrected", message=""),)


def _schedulable(seen: Observed, job: ElasticJob) -> tuple[Condition, ...]:
    """Say so where a pod of the job fits on no node; it is known only where the nodes are."""
    if seen.capacity is None:
        return ()
    try:
        admission.check_capacity(job, seen.capacity)
    except InvalidManifest as error:
        return (Condition(type=status.SCHEDULABLE, status="False", reason="ExceedsNodes", message=str(error)),)
    if status.condition_of(seen, status.SCHEDULABLE) is None:
        return ()
    return (Condition(type=status.SCHEDULABLE, status="True", reason="FitsNodes", message=""),)


def _deletions(pods: Iterable[Pod]) -> list[DeletePod]:
    return [DeletePod(pod.namespace, pod.name, pod.uid) for pod in pods if not pod.deleting]
