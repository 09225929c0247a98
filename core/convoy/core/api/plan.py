"""ScalePlan: what the master, or a person, asks the operator to make of a job's pods.

A plan is absolute where it names replicas and exact where it names pods, so carrying it out twice does nothing more.
``status.phase`` is where it stands: Pending -> Succeeded | Failed | Superseded.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from convoy.core.api import names
from convoy.core.api.job import Quantity
from convoy.core.api.meta import Condition, Model, ObjectMeta, OpenModel, Resource
from convoy.core.api.rules import Rule, Unsupported, ruled


class PlanPhase(StrEnum):
    """Where a plan stands."""

    PENDING = "Pending"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    SUPERSEDED = "Superseded"


MOST = 1_000_000_000
"""More than any pod is relaunched or any number of a pod gets to."""


class ReplicaResource(Model):
    """Replicas and resources of a role."""

    replicas: int | None = Field(default=None, ge=0, le=100_000)
    resource: dict[str, Quantity] = Field(default_factory=dict, max_length=32)


class PodMeta(Model):
    """One pod to create or remove; its name follows from (job, type, id)."""

    name: str = Field(max_length=253)
    type: str = Field(max_length=63)
    id: int = Field(ge=0, le=MOST)
    rank_index: int = Field(ge=0, le=MOST)
    relaunch_count: int = Field(default=0, ge=0, le=MOST)
    resource: dict[str, Quantity] = Field(default_factory=dict, max_length=32)
    service: Annotated[None, Unsupported("services follow from role and rank; leave it out", "string")] = None


class Explanation(Model):
    """Why the plan was made: the decision's stable reason, a sentence, and the numbers behind it."""

    reason: str
    message: str = ""
    recommendation: str | None = Field(default=None, description="Identifier of the Brain's recommendation.")
    predicted_samples_per_second: float | None = None
    predicted_lower: float | None = Field(default=None, description="Lower end of the 90 % interval.")
    predicted_upper: float | None = Field(default=None, description="Upper end of the 90 % interval.")
    price_per_hour: float | None = None


class PlanSpec(Model):
    """spec of a ScalePlan. ``replicaResourceSpecs`` alone is how a person scales; the master names pods too."""

    model_config = ConfigDict(
        json_schema_extra=ruled(Rule("self == oldSelf", "a plan is immutable: write another one"))
    )

    owner_job: str = Field(min_length=1, max_length=253)
    epoch: int | None = Field(
        default=None, ge=0, description="Epoch of the master that wrote it; a lower one is refused."
    )
    replica_resource_specs: dict[str, ReplicaResource] = Field(default_factory=dict, max_length=8)
    create_pods: list[PodMeta] = Field(default_factory=list, max_length=10_000)
    remove_pods: list[PodMeta] = Field(default_factory=list, max_length=10_000)
    migrate_pods: Annotated[
        None, Unsupported("name the new pod in createPods and the old one in removePods", "array")
    ] = None
    ps_hosts: Annotated[None, Unsupported("hosts follow from the pods' services; leave it out", "array")] = None
    explanation: Explanation | None = None


class PlanStatus(OpenModel):
    """status of a ScalePlan, written by the operator."""

    phase: PlanPhase = PlanPhase.PENDING
    create_time: datetime | None = None
    finish_time: datetime | None = None
    conditions: list[Condition] = Field(default_factory=list)


class ScalePlan(Resource):
    """A change of a job's pods."""

    KIND: ClassVar[str] = "ScalePlan"
    API_VERSION: ClassVar[str] = names.API_VERSION

    api_version: Literal["elastic.iml.github.io/v1alpha1"] = "elastic.iml.github.io/v1alpha1"
    kind: Literal["ScalePlan"] = "ScalePlan"
    metadata: ObjectMeta
    spec: PlanSpec
    status: PlanStatus = Field(default_factory=PlanStatus)

    @property
    def is_manual(self) -> bool:
        """Whether a person wrote it (label ``scale-type: manual``); the master carries those out first."""
        return self.metadata.labels.get(names.LABEL_SCALE_TYPE) == names.SCALE_MANUAL
