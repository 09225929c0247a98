"""What a reconciler sees of one job, read anew from the cluster each time.

The order of the reads matters: plans, then pods, then the job, so that the job's epoch and the operator's own record
of masters are never older than the plans and pods that are judged by them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from convoy.core.api import admission, names
from convoy.core.api.errors import InvalidManifest, NotFound
from convoy.core.api.job import ElasticJob, JobSpec, PodTemplate, ReplicaSpec, Strategy
from convoy.core.api.job_status import JobStatus, Phase
from convoy.core.api.meta import Manifest, ObjectMeta, controller_uid, validate
from convoy.core.api.ownership import says_owners
from convoy.core.api.plan import PlanPhase, ScalePlan
from convoy.core.api.pod import Pod
from convoy.core.api.resources import Capacity
from convoy.core.cluster.port import Cluster, Kind


@dataclass(frozen=True, slots=True)
class JobView:
    """A job: typed where its spec is right; else the field that is wrong, and what can be read all the same.

    ``readable`` holds the roles whose template can be read, with what else is needed to keep a running job going.
    ``scalable``: the cluster serves /scale, and says whose the job's numbers are.
    """

    metadata: ObjectMeta
    status: JobStatus
    job: ElasticJob | None = None
    error: InvalidManifest | None = None
    readable: ElasticJob | None = None
    managed_by: Any = None
    scalable: bool = False

    @property
    def ours(self) -> bool:
        """Whether Convoy carries it out."""
        return self.managed_by in (None, names.MANAGED_BY)

    @property
    def refused(self) -> bool:
        """Whether it failed because its manifest was wrong, before anything of it was started."""
        status = self.status
        never_started = status.master_keeping is None and status.training.state == "Waiting"
        return status.phase is Phase.FAILED and never_started

    def anew(self) -> JobView:
        """Return it as if it had just been created."""
        fresh = {"phase": None, "start_time": None, "completion_time": None}
        return replace(self, status=self.status.model_copy(update=fresh))


@dataclass(frozen=True, slots=True)
class PlanView:
    """A scale plan: typed where it is pending and can be read, else the field that is wrong.

    ``order`` sorts plans by age; ``waiting`` is the reason that stands on its condition while it isn't carried out.
    """

    namespace: str
    name: str
    order: tuple[str, int, str]
    phase: PlanPhase
    created: datetime | None = None
    waiting: str = ""
    plan: ScalePlan | None = None
    error: InvalidManifest | None = None
    uid: str = ""


@dataclass(frozen=True, slots=True)
class SecretView:
    """The job's token Secret. ``current``: it holds the Brain's token, or there is none to hold."""

    current: bool
    has_brain_token: bool


@dataclass(frozen=True, slots=True)
class Observed:
    """All that a job's reconcilers look at.

    Attributes:
        pods: the job's own pods, masters included.
        service: manifest of the master's service; None where it is missing.
        secret: the token Secret; None where it is missing.
        plans: the job's plans, oldest first.
        capacity: what the nodes have; None where nobody knows.
        taken: names of pods, service and secret that belong to someone else, such as an earlier job of the same name.
    """

    job: JobView
    pods: Sequence[Pod] = ()
    service: Manifest | None = None
    secret: SecretView | None = None
    plans: Sequence[PlanView] = ()
    capacity: Capacity | None = None
    taken: frozenset[str] = field(default_factory=frozenset)

    @property
    def masters(self) -> list[Pod]:
        """The master's pods, lowest index first."""
        return sorted((pod for pod in self.pods if pod.role == names.MASTER), key=lambda pod: pod.id)

    @property
    def nodes(self) -> list[Pod]:
        """The pods that train."""
        return [pod for pod in self.pods if pod.role != names.MASTER]


def observe(
    cluster: Cluster, namespace: str, name: str, capacity: Capacity | None = None
) -> tuple[Observed | None, list[PlanView]]:
    """Read a job and what belongs to it; None for a job that is gone, with the plans that name it all the same."""
    plans = _plans(cluster, namespace, name)
    pods = cluster.list(Kind.POD, namespace, {names.LABEL_JOB: name}).items
    try:
        job = read_job(cluster.get(Kind.ELASTIC_JOB, namespace, name))
    except NotFound:
        return None, plans
    uid = job.metadata.uid
    service = _find(cluster, Kind.SERVICE, namespace, names.master_service(name))
    secret = _find(cluster, Kind.SECRET, namespace, names.token_secret(name))
    brain = _find(cluster, Kind.SECRET, names.SYSTEM_NAMESPACE, names.BRAIN_TOKEN_SECRET)
    taken = {pod["metadata"]["name"] for pod in pods if controller_uid(pod) != uid}
    taken |= {one["metadata"]["name"] for one in (service, secret) if one and controller_uid(one) not in (uid, None)}
    observed = Observed(
        job=job,
        pods=[Pod.from_manifest(pod) for pod in pods if controller_uid(pod) == uid],
        service=service if service and names.master_service(name) not in taken else None,
        secret=_secret(secret, brain) if secret and names.token_secret(name) not in taken else None,
        plans=plans,
        capacity=capacity,
        taken=frozenset(taken),
    )
    return observed, plans


def read_job(manifest: Manifest) -> JobView:
    """Read a job leniently: a status that can't be read is taken for absent, field by field; a spec isn't."""
    given: Any = manifest.get("status")
    status = JobStatus()
    fields = {info.alias or name: name for name, info in JobStatus.model_fields.items()}
    for key, value in (given if isinstance(given, dict) else {}).items():
        try:
            one = validate(JobStatus, {key: value}) if key in fields else None
        except InvalidManifest:
            continue
        if one is not None:
            status = status.model_copy(update={fields[key]: getattr(one, fields[key])})
    metadata = _metadata(manifest)
    try:
        job = ElasticJob.from_manifest({key: value for key, value in manifest.items() if key != "status"})
        admission.check_supported(job)
    except InvalidManifest as error:
        return JobView(
            metadata,
            status,
            error=error,
            readable=_readable(manifest, metadata, status),
            managed_by=_spec(manifest).get("managedBy"),
        )
    return JobView(
        metadata,
        status,
        job=job.model_copy(update={"status": status}),
        managed_by=job.spec.managed_by,
        scalable=says_owners(manifest),
    )


def read_plan(manifest: Manifest) -> PlanView:
    """Read a plan; one that is wrong keeps its name and phase. What a finished one asked for isn't read any more."""
    metadata = _metadata(manifest)
    stated: Any = manifest.get("status") or {}
    phase = stated.get("phase") if isinstance(stated, dict) else None
    number = re.search(r"(\d{1,18})$", metadata.name)
    created = metadata.creation_timestamp
    order = (created.isoformat() if created else "", int(number.group(1)) if number else 0, metadata.name)
    known = PlanPhase(phase) if isinstance(phase, str) and phase in set(PlanPhase) else PlanPhase.PENDING
    view = PlanView(
        metadata.namespace, metadata.name, order, known, created, _waiting(stated), uid=metadata.uid or ""
    )
    if known is not PlanPhase.PENDING:
        return view
    try:
        plan = ScalePlan.from_manifest({key: value for key, value in manifest.items() if key != "status"})
    except InvalidManifest as error:
        return replace(view, error=error)
    return replace(view, plan=plan)


def owner_job(plan: Manifest) -> str:
    """Return the name of the job that a plan's manifest names; empty where it names none."""
    spec = plan.get("spec")
    owner = spec.get("ownerJob") if isinstance(spec, dict) else None
    return owner if isinstance(owner, str) else ""


def _waiting(status: Any) -> str:
    conditions = status.get("conditions") if isinstance(status, dict) else None
    first = conditions[0] if isinstance(conditions, list) and conditions else None
    reason = first.get("reason") if isinstance(first, dict) and first.get("status") == "False" else None
    return reason if isinstance(reason, str) else ""


def _plans(cluster: Cluster, namespace: str, name: str) -> list[PlanView]:
    found = cluster.list(Kind.SCALE_PLAN, namespace).items
    return sorted((read_plan(one) for one in found if owner_job(one) == name), key=lambda plan: plan.order)


def _readable(manifest: Manifest, metadata: ObjectMeta, status: JobStatus) -> ElasticJob:
    """Return what can be read of a job that is wrong; it isn't one that would be accepted."""
    spec = _spec(manifest)
    roles: Any = spec.get("replicaSpecs")
    found: dict[str, ReplicaSpec] = {}
    for role, replica in (roles if isinstance(roles, dict) else {}).items():
        with contextlib.suppress(InvalidManifest):
            template = replica.get("template") if isinstance(replica, dict) else None
            found[role] = ReplicaSpec(template=validate(PodTemplate, template))
    brain = spec.get("brainService")
    return ElasticJob.model_construct(
        api_version=names.API_VERSION,
        kind=ElasticJob.KIND,
        metadata=metadata,
        spec=JobSpec.model_construct(
            distribution_strategy=Strategy.ALLREDUCE,
            optimize_mode=None,
            brain_service=brain if isinstance(brain, str) else None,
            resource_limits=None,
            replica_specs=found,
        ),
        status=status,
    )


def _spec(manifest: Manifest) -> Manifest:
    given: Any = manifest.get("spec")
    return given if isinstance(given, dict) else {}


def _metadata(manifest: Manifest) -> ObjectMeta:
    given = manifest.get("metadata") or {}
    try:
        return validate(ObjectMeta, given)
    except InvalidManifest:  # labels and the like are wrong; what the cluster itself wrote is not
        kept = {key: given[key] for key in ("name", "namespace", "uid", "resourceVersion") if key in given}
        return ObjectMeta.model_validate(kept)


def _find(cluster: Cluster, kind: Kind, namespace: str, name: str) -> Manifest | None:
    try:
        return cluster.get(kind, namespace, name)
    except NotFound:
        return None


def _secret(secret: Manifest, brain: Manifest | None) -> SecretView:
    data = secret.get("data") or {}
    wanted = ((brain or {}).get("data") or {}).get("token")
    held = data.get("brain-token")
    return SecretView(current=bool(data.get("token")) and wanted in (None, held), has_brain_token=bool(held))
