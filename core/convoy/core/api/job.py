"""ElasticJob: what the user wants, and how far it has come.

Spec fields are DLRover's plus ``minReplicas``/``maxReplicas``. Absent is not the same as zero: it means "the Brain
decides". Fields that DLRover declares and Convoy doesn't honour yet are refused by name rather than ignored.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from convoy.core.api import names, quantity
from convoy.core.api.errors import InvalidQuantity
from convoy.core.api.meta import Condition, Model, ObjectMeta, OpenModel, Resource


class Strategy(StrEnum):
    """How the processes of a job exchange what they learn."""

    ALLREDUCE = "AllreduceStrategy"
    PARAMETER_SERVER = "ParameterServerStrategy"

    @property
    def short(self) -> str:
        """What the Brain calls it."""
        return "allreduce" if self is Strategy.ALLREDUCE else "ps"


class OptimizeMode(StrEnum):
    """Who chooses the job's size."""

    MANUAL = "manual"
    SINGLE_JOB = "single-job"
    CLUSTER = "cluster"


class Phase(StrEnum):
    """status.phase, with DLRover's values; nothing suspends a job, so that one never stands there."""

    CREATED = "Created"
    PENDING = "Pending"
    RUNNING = "Running"
    SCALING = "Scaling"
    RESTARTING = "Restarting"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing follows."""
        return self in (Phase.SUCCEEDED, Phase.FAILED)


def _quantity(value: Any) -> str:
    try:
        quantity.parse(value)
    except InvalidQuantity as error:
        raise ValueError(str(error)) from None
    return str(value)


_QUANTITY_SCHEMA = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
Quantity = Annotated[str, BeforeValidator(_quantity), WithJsonSchema(_QUANTITY_SCHEMA)]


class ResourceRequirements(OpenModel):
    """resources of a container."""

    requests: dict[str, Quantity] = Field(default_factory=dict)
    limits: dict[str, Quantity] = Field(default_factory=dict)


Word = Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=131_000)]
"""One argument or value that a Linux process can be started with."""


class EnvVar(OpenModel):
    """One environment variable of a container."""

    name: str = Field(pattern=r"^[^=\x00]+$", max_length=1000)
    value: Word | None = None


class Container(OpenModel):
    """One container of a pod template; what Convoy doesn't read is kept."""

    name: str
    image: str | None = None
    command: list[Word] | None = None
    args: list[Word] | None = None
    working_dir: str | None = None
    env: list[EnvVar] = Field(default_factory=list)
    resources: ResourceRequirements = Field(default_factory=ResourceRequirements)


class PodSpec(OpenModel):
    """spec of a pod template."""

    containers: list[Container] = Field(min_length=1)
    restart_policy: str | None = Field(
        default=None, description="Taken for Never: a pod that ended is replaced under a new name, or not at all."
    )


class TemplateMeta(OpenModel):
    """metadata of a pod template."""

    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class PodTemplate(OpenModel):
    """A pod template."""

    metadata: TemplateMeta = Field(default_factory=TemplateMeta)
    spec: PodSpec

    def main(self) -> Container:
        """Return the container that trains: the only one, or the one named ``main``, else the first."""
        return self.spec.containers[names.main_container([one.name for one in self.spec.containers])]


class Range(NamedTuple):
    """Fewest and most nodes of a role."""

    fewest: int
    most: int


class ReplicaSpec(Model):
    """One role of a job."""

    replicas: int | None = Field(default=None, ge=0, le=100_000)
    min_replicas: int | None = Field(default=None, ge=0, le=100_000)
    max_replicas: int | None = Field(default=None, ge=0, le=100_000)
    template: PodTemplate
    restart_policy: Literal["Always", "OnFailure", "Never"] | None = Field(
        default=None,
        description="Whether a node that is lost is relaunched. Never: it isn't, and the job fails with it, whatever "
        "restartCount says. OnFailure, Always, absent: it is, restartCount times; all alike, since a node whose work "
        "isn't done is lost also where its pod ended well. A launcher restarts its processes in place in any case.",
    )
    restart_count: int | None = Field(
        default=None, ge=0, le=1000, description="Relaunches of a node, under restartPolicy; absent: 3."
    )
    auto_scale: bool | None = None

    @model_validator(mode="after")
    def _ordered(self) -> ReplicaSpec:
        if self.min_replicas is not None and self.max_replicas is not None and self.min_replicas > self.max_replicas:
            raise ValueError(f"minReplicas {self.min_replicas} is more than maxReplicas {self.max_replicas}")
        if self.replicas is not None and self.max_replicas is not None and self.replicas > self.max_replicas:
            raise ValueError(f"replicas {self.replicas} is more than maxReplicas {self.max_replicas}")
        if self.replicas is not None and self.min_replicas is not None and self.replicas < self.min_replicas:
            raise ValueError(f"replicas {self.replicas} is less than minReplicas {self.min_replicas}")
        return self

    def range(self, launcher: Range | None = None) -> Range:
        """Return the role's range: from the spec, else the launcher's ``--nnodes``, else ``replicas`` for both."""
        wanted = 1 if self.replicas is None else self.replicas
        fallback = launcher or Range(wanted, wanted)
        fewest = fallback.fewest if self.replicas is None else min(fallback.fewest, wanted)
        most = max(fallback.most, self.replicas or 0)
        if self.min_replicas is not None:
            fewest, most = self.min_replicas, max(most, self.min_replicas)
        if self.max_replicas is not None:
            fewest, most = min(fewest, self.max_replicas), self.max_replicas
        return Range(fewest, most)


class JobSpec(Model):
    """spec of an ElasticJob."""

    distribution_strategy: Strategy
    optimize_mode: OptimizeMode | None = None
    brain_service: str | None = Field(default=None, description="host:port of the Brain; absent: the operator's.")
    resource_limits: dict[str, Quantity] | None = Field(
        default=None, description="What the job's workers may request together: cpu, memory."
    )
    replica_specs: dict[str, ReplicaSpec] = Field(min_length=1)

    @model_validator(mode="after")
    def _roles(self) -> JobSpec:
        known = (*names.NODE_ROLES, names.MASTER)
        for role in self.replica_specs:
            if role not in known:
                raise ValueError(f"replicaSpecs.{role}: no such role; expected one of {', '.join(known)}")
        if names.WORKER not in self.replica_specs:
            raise ValueError("replicaSpecs.worker is required, and is absent")
        return self

    @property
    def mode(self) -> OptimizeMode:
        """How the job is sized; DLRover's default where absent."""
        return self.optimize_mode or OptimizeMode.SINGLE_JOB


class ReplicaStatus(Model):
    """How many pods of a role are in which state; ``initial``: planned, and not created yet."""

    initial: int = 0
    pending: int = 0
    active: int = 0
    succeeded: int = 0
    failed: int = 0


class MasterStatus(Model):
    """The job's master, as it says itself; ``epoch`` is taken by compare-and-swap and only grows."""

    epoch: int = 0
    pod: str | None = None


class MasterKeeping(Model):
    """How the operator keeps the master: no pod's name is used twice, and a crash loop slows down."""

    index: int = Field(ge=0, description="Index of the last master pod that was made.")
    created_time: datetime = Field(description="When it was made.")
    quick_losses: int = Field(default=0, ge=0, description="Masters before it, in a row, that lived under a minute.")


class TrainingStatus(Model):
    """What the master says of the training; ``state`` is the job's outcome once it is Succeeded or Failed."""

    state: Literal["Waiting", "Running", "Succeeded", "Failed"] = "Waiting"
    reason: str | None = None
    message: str | None = None
    nodes: int | None = None
    round: int | None = None
    step: int | None = None
    samples_per_second: float | None = None
    restarts: int | None = Field(default=None, description="Restarts of worker processes in place, counted.")
    relaunches: int | None = Field(default=None, description="Nodes that were replaced.")


class JobStatus(Model):
    """status of an ElasticJob. The operator writes all but ``master`` and ``training``, which are the master's."""

    phase: Phase | None = None
    observed_generation: int | None = None
    conditions: list[Condition] = Field(default_factory=list)
    replica_statuses: dict[str, ReplicaStatus] = Field(default_factory=dict)
    start_time: datetime | None = None
    completion_time: datetime | None = None
    scale_plan: str | None = Field(default=None, description="Name of the last scale plan carried out.")
    master_keeping: MasterKeeping | None = None
    master: MasterStatus = Field(default_factory=MasterStatus)
    training: TrainingStatus = Field(default_factory=TrainingStatus)


class ElasticJob(Resource):
    """A training job whose size and processes change while it runs."""

    KIND: ClassVar[str] = "ElasticJob"
    API_VERSION: ClassVar[str] = names.API_VERSION

    api_version: Literal["elastic.iml.github.io/v1alpha1"] = "elastic.iml.github.io/v1alpha1"
    kind: Literal["ElasticJob"] = "ElasticJob"
    metadata: ObjectMeta
    spec: JobSpec
    status: JobStatus = Field(default_factory=JobStatus)

    def key(self) -> tuple[str, str]:
        """Return (namespace, name)."""
        return self.metadata.namespace, self.metadata.name
