"""The status of an ElasticJob: how far it has come, in the words of its operator and of its master."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from convoy.core.api.meta import Condition, Model, OpenModel


class Phase(StrEnum):
    """status.phase, with DLRover's values."""

    CREATED = "Created"
    PENDING = "Pending"
    RUNNING = "Running"
    SCALING = "Scaling"
    RESTARTING = "Restarting"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing follows."""
        return self in (Phase.SUCCEEDED, Phase.FAILED)


class ReplicaStatus(OpenModel):
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
    progress: float | None = Field(
        default=None, ge=0, le=1, description="How much of its samples it trained on, where the job says how many."
    )
    estimated_completion_time: datetime | None = Field(
        default=None, description="When it will have trained on all of them, at the present speed; to the minute."
    )
    restarts: int | None = Field(default=None, description="Restarts of worker processes in place, counted.")
    relaunches: int | None = Field(default=None, description="Nodes that were replaced.")


class JobStatus(OpenModel):
    """status of an ElasticJob. The operator writes all but ``master`` and ``training``, which are the master's.

    It is open: what another operator wrote there, of an earlier time, stays.
    """

    phase: Phase | None = None
    observed_generation: int | None = None
    conditions: list[Condition] = Field(default_factory=list)
    replica_statuses: dict[str, ReplicaStatus] = Field(default_factory=dict)
    ready: str | None = Field(default=None, description="Nodes that run, of how many are there: 4/5.")
    selector: str | None = Field(default=None, description="Selects the workers' pods, for what scales the job.")
    start_time: datetime | None = None
    completion_time: datetime | None = None
    scale_plan: str | None = Field(default=None, description="Name of the last scale plan carried out.")
    master_keeping: MasterKeeping | None = None
    master: MasterStatus = Field(default_factory=MasterStatus)
    training: TrainingStatus = Field(default_factory=TrainingStatus)
