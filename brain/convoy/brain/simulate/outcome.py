"""What became of each job of a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from convoy.brain.simulate.cluster import Cluster


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """One job's fate.

    Attributes:
        job, application, user: as submitted.
        submitted, started, completed: seconds from zero.
        restarts: changes of placement after the first; each costs the restart's seconds.
        gpu_seconds: accelerators times seconds that it held them, by kind.
        ooms: how often a micro-batch was chosen that fits no accelerator of that kind.
        failures: how often it lost a node.
    """

    job: str
    application: str
    user: str
    submitted: float
    started: float
    completed: float
    restarts: int
    gpu_seconds: Mapping[str, float]
    ooms: int
    failures: int

    @property
    def completion_seconds(self) -> float:
        """From submission to completion."""
        return self.completed - self.submitted


@dataclass(frozen=True, slots=True)
class Outcome:
    """A whole simulation.

    Attributes:
        policy: its name.
        cluster: it ran on.
        jobs: in the order of the workload.
        decisions: how often the policy was asked.
    """

    policy: str
    cluster: Cluster
    jobs: tuple[JobOutcome, ...]
    decisions: int
