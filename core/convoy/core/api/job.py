"""ElasticJob: what the user wants, and how far it has come.

Spec fields are DLRover's, of all its versions, plus ``minReplicas``, ``maxReplicas`` and ``managedBy``. Absent is not
the same as zero: it means "the Brain decides". Fields that DLRover declares and Convoy doesn't honour are refused by
name rather than ignored.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from convoy.core.api import names, quantity
from convoy.core.api.errors import InvalidQuantity
from convoy.core.api.job_status import JobStatus
from convoy.core.api.meta import Manifest, Model, ObjectMeta, OpenModel, Resource, WrongField
from convoy.core.api.ownership import as_asked
from convoy.core.api.rules import Rule, Unsupported, ruled, worded


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


def _quantity(value: Any) -> str:
    try:
        quantity.parse(value)
    except InvalidQuantity as error:
        raise ValueError(str(error)) from None
    return str(value)


_QUANTITY_SCHEMA = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
    "pattern": r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$",
    "minimum": 0,
    "maxLength": 64,
}
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


PRIORITY = r"^(high|low|0?\.[0-9]{1,6}|0|1|1\.0{1,6})$"
"""A role's priority: of all its nodes, or the fraction of them that is high."""


class ReplicaSpec(Model):
    """One role of a job. A master has a template and a priority; the rest says nothing of it: it is always kept."""

    model_config = ConfigDict(
        json_schema_extra=ruled(
            Rule(
                "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
                "must not be more than maxReplicas",
                "minReplicas",
            ),
            Rule(
                "!has(self.replicas) || !has(self.maxReplicas) || self.replicas <= self.maxReplicas",
                "must not be more than maxReplicas",
                "replicas",
            ),
            Rule(
                "!has(self.replicas) || !has(self.minReplicas) || self.replicas >= self.minReplicas",
                "must not be less than minReplicas",
                "replicas",
            ),
        )
    )

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
    auto_scale: bool | None = Field(
        default=None, description="false: the role keeps its size also where optimizeMode is cluster."
    )
    priority: str | None = Field(
        default=None,
        pattern=PRIORITY,
        max_length=32,
        description="high or low: priorityClassName of the role's pods; a fraction such as 0.5: high for so many of "
        "the nodes, the first ones, and low for the others.",
        json_schema_extra=worded("must be high, low, or a fraction such as 0.5"),
    )
    restart_timeout: Annotated[None, Unsupported("no time limit is held for a relaunch; leave it out", "integer")] = (
        None
    )
    batch_scheduler: Annotated[
        None, Unsupported("gang scheduling is not carried out by this version; leave it out", "string")
    ] = Field(default=None, alias="BatchScheduler")
    critical_nodes: Annotated[
        None, Unsupported("every node counts alike; use restartCount and restartPolicy", "string")
    ] = None

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


LIMITED = ("cpu", "memory")
"""Resources that ``spec.resourceLimits`` may name."""
_ROLES = (*names.NODE_ROLES, names.MASTER)


class JobSpec(Model):
    """spec of an ElasticJob."""

    model_config = ConfigDict(
        json_schema_extra=ruled(
            Rule(
                "has(self.managedBy) == has(oldSelf.managedBy)"
                " && (!has(self.managedBy) || self.managedBy == oldSelf.managedBy)",
                "is immutable",
                "managedBy",
            ),
        )
    )

    distribution_strategy: Strategy = Field(json_schema_extra=ruled(Rule("self == oldSelf", "is immutable")))
    optimize_mode: OptimizeMode | None = None
    enable_elastic_scheduling: bool | None = Field(
        default=None, description="false: the job keeps its size, as with optimizeMode manual."
    )
    enable_dynamic_sharding: bool | None = Field(
        default=None,
        description="true, if anything.",
        json_schema_extra=ruled(
            Rule("self", "can't be turned off: shards are handed out to who asks for them; leave it out")
        ),
    )
    brain_service: str | None = Field(
        default=None,
        pattern=r"^[^\s/]+:[0-9]{1,5}$",
        max_length=262,
        description="host:port of the Brain; absent: the operator's.",
        json_schema_extra=worded("must be host:port, such as convoy-brain.convoy-system.svc:50001"),
    )
    resource_limits: dict[str, Quantity] | None = Field(
        default=None,
        max_length=8,
        description="What the job's workers may request together: cpu, memory.",
        json_schema_extra=ruled(
            Rule(f"self.all(name, name in {list(LIMITED)})", f"can be of {' and '.join(LIMITED)} alone")
        ),
    )
    envs: dict[str, EnvVar] | None = Field(
        default=None,
        max_length=256,
        description="Variables of all nodes' main containers, by their names; a template's own prevail.",
        json_schema_extra=ruled(
            Rule("self.all(name, self[name].name == name)", "each key must be its variable's name")
        ),
    )
    suspend: bool | None = Field(
        default=None, description="true at the job's creation: nothing is started until it is false or gone."
    )
    managed_by: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/\S+$",
        max_length=63,
        description=f"Which controller carries the job out: {names.MANAGED_BY}, or absent, is Convoy; it leaves "
        "alone what names another.",
        json_schema_extra=worded("must be a domain and a path, such as example.com/controller"),
    )
    replica_specs: dict[str, ReplicaSpec] = Field(
        min_length=1,
        max_length=len(_ROLES),
        json_schema_extra=ruled(
            Rule(f"self.all(role, role in {list(_ROLES)})", f"no such role; expected one of {', '.join(_ROLES)}"),
            Rule(f"'{names.WORKER}' in self", "the role worker is required, and is absent"),
        ),
    )

    @model_validator(mode="after")
    def _held(self) -> JobSpec:
        for role in self.replica_specs:
            if role not in _ROLES:
                raise WrongField(f"replicaSpecs.{role}", f"no such role; expected one of {', '.join(_ROLES)}")
        if names.WORKER not in self.replica_specs:
            raise WrongField(f"replicaSpecs.{names.WORKER}", "is required, and is absent")
        for name, variable in (self.envs or {}).items():
            if variable.name != name:
                raise WrongField(f"envs.{name}", f"names the variable {variable.name!r}; the key must be its name")
        if self.enable_dynamic_sharding is False:
            raise WrongField("enableDynamicSharding", "can't be turned off; leave it out")
        return self

    @property
    def mode(self) -> OptimizeMode:
        """How the job is sized; DLRover's default where absent."""
        if self.enable_elastic_scheduling is False:
            return OptimizeMode.MANUAL
        return self.optimize_mode or OptimizeMode.SINGLE_JOB


class ElasticJob(Resource):
    """A training job whose size and processes change while it runs."""

    model_config = ConfigDict(
        json_schema_extra=ruled(
            Rule(
                f"self.metadata.name.size() <= {names.LONGEST_JOB}",
                f"must have no more than {names.LONGEST_JOB} characters: names of pods and services are made from it",
                "metadata.name",
                created=True,
            ),
            Rule(
                f"self.metadata.name.matches('{names.JOB_NAME}')",
                "must be lower-case letters, digits and '-', with no '-' at either end: it is part of host names",
                "metadata.name",
                created=True,
            ),
        )
    )

    KIND: ClassVar[str] = "ElasticJob"
    API_VERSION: ClassVar[str] = names.API_VERSION

    api_version: Literal["elastic.iml.github.io/v1alpha1"] = "elastic.iml.github.io/v1alpha1"
    kind: Literal["ElasticJob"] = "ElasticJob"
    metadata: ObjectMeta
    spec: JobSpec
    status: JobStatus = Field(default_factory=JobStatus)

    @classmethod
    def from_manifest(cls, manifest: Manifest) -> Self:
        """Read a manifest as its user asked for it (see ``ownership``).

        Raises:
            InvalidManifest: with the path of the first wrong field, its value and what was expected.
        """
        return super().from_manifest(as_asked(manifest) if isinstance(manifest, dict) else manifest)

    def key(self) -> tuple[str, str]:
        """Return (namespace, name)."""
        return self.metadata.namespace, self.metadata.name
