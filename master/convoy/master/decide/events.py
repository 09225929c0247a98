"""What a master observes; times of observation are handed to the decision beside the event."""

from __future__ import annotations

from dataclasses import dataclass

from convoy.core.api.plan import PlanPhase
from convoy.core.api.pod import Pod
from convoy.master.decide.state import Advice, Cause, Facts, GroupState, Launcher, Window


@dataclass(frozen=True, slots=True)
class JobObserved:
    """The ElasticJob, as it is now."""

    facts: Facts


@dataclass(frozen=True, slots=True)
class PodsListed:
    """All pods of the job's nodes, as they are now."""

    pods: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class PodObserved:
    """One pod, as it is now."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class PodGone:
    """A pod's object is no more."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class AgentRegistered:
    """An agent said who it is and what it still holds. ``round`` is 0 where its workers are in none."""

    rank: int
    node_id: int
    incarnation: int
    host: str
    processes: int
    max_restarts: int
    launcher: Launcher
    round: int
    step: int


@dataclass(frozen=True, slots=True)
class AgentJoined:
    """An agent waits for the next round's world; ``call`` tells its calls apart."""

    rank: int
    node_id: int
    incarnation: int
    host: str
    store_port: int
    processes: int
    last_round: int
    call: int


@dataclass(frozen=True, slots=True)
class AgentStoppedWaiting:
    """Its call ended without an answer."""

    rank: int
    call: int


@dataclass(frozen=True, slots=True)
class ProcessFailure:
    """How a worker process ended; ``exit_code`` is negative for a signal."""

    local_rank: int
    exit_code: int
    peer_lost: bool
    message: str


@dataclass(frozen=True, slots=True)
class AgentReported:
    """A heartbeat with the state of its workers, and speed where it holds process rank 0."""

    rank: int
    node_id: int
    incarnation: int
    round: int
    group: GroupState
    step: int
    failure: ProcessFailure | None = None
    windows: tuple[Window, ...] = ()


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed."""


@dataclass(frozen=True, slots=True)
class PlanObserved:
    """Where one of our plans stands; ``reason`` and ``message`` are its last condition's."""

    name: str
    phase: PlanPhase
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class ManualPlanObserved:
    """A person's plan that nobody has answered. ``problem`` says why it can't be carried out, if so; ``advice`` what
    the Brain recommended, where the plan is a recommendation that was accepted."""

    name: str
    uid: str
    replicas: int
    problem: str = ""
    advice: Cause | None = None


@dataclass(frozen=True, slots=True)
class BrainAnswered:
    """The Brain's recommendation; ``capacity`` is the most nodes that fitted when it was asked, 0 where unknown."""

    advice: Advice
    capacity: int = 0


@dataclass(frozen=True, slots=True)
class BrainSilent:
    """A question to the Brain wasn't answered."""

    stage: str
    message: str


Event = (
    JobObserved
    | PodsListed
    | PodObserved
    | PodGone
    | AgentRegistered
    | AgentJoined
    | AgentStoppedWaiting
    | AgentReported
    | Tick
    | PlanObserved
    | ManualPlanObserved
    | BrainAnswered
    | BrainSilent
)
