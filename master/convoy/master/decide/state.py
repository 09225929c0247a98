"""What a master knows of its job: the durable part, written before anything of it is told, and the live part.

All of it is immutable; a decision returns a new one. The durable part is JSON by way of ``dump`` and ``load``, at
``SCHEMA``. Ranks are the worker role's node ranks, from 0; times are seconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter, ValidationError

from convoy.core.api import names
from convoy.core.api.errors import CorruptState
from convoy.core.api.job import OptimizeMode, Range, ReplicaSpec
from convoy.core.api.pod import Pod

SCHEMA = 1


class NodeStatus(StrEnum):
    """Where a node stands."""

    EXPECTED = "Expected"  # its pod is planned or there; no agent registered yet
    LIVE = "Live"  # its agent registered
    LEAVING = "Leaving"  # no longer wanted: leaves at the next step boundary, then its pod is removed
    LOST = "Lost"  # its pod or its agent is gone; to be replaced
    DONE = "Done"  # its workers ended well, and so did its pod

    @property
    def is_live(self) -> bool:
        """Whether an agent is believed to run there that should be in the world."""
        return self is NodeStatus.LIVE


@dataclass(frozen=True, slots=True)
class Node:
    """One node: a rank, and the pod that holds it now (``id`` grows with every relaunch)."""

    rank: int
    id: int
    status: NodeStatus = NodeStatus.EXPECTED
    since: float = 0.0  # when it came to that status
    role: str = names.WORKER
    incarnation: int = 0  # of the agent that registered last; 0: none did
    host: str = ""
    processes: int = 1
    max_restarts: int = 0
    restarts: int = 0  # of its processes, by their own fault, since this pod began
    relaunches: int = 0
    lost_reason: str = ""

    def pod(self, job: str) -> str:
        """Return the name of its pod."""
        return names.pod(job, self.role, self.id)


@dataclass(frozen=True, slots=True)
class Member:
    """One node of a round's world, and where it can host the store."""

    rank: int
    node_id: int
    incarnation: int
    processes: int
    host: str
    store_port: int


class RoundState(StrEnum):
    """Where the current round stands."""

    NONE = "None"  # there was no round yet
    ACTIVE = "Active"
    YIELDING = "Yielding"  # members leave at a step boundary; the next round forms
    ABORTED = "Aborted"  # members leave at once; the next round forms


@dataclass(frozen=True, slots=True)
class Round:
    """The last round that was completed, and how it ended if it did."""

    number: int = 0
    state: RoundState = RoundState.NONE
    members: tuple[Member, ...] = ()  # in rank order
    completed_at: float = 0.0
    step: int = -1  # last step known to be finished when it was completed
    ended_at: float = 0.0
    reason: str = ""  # why it ends
    message: str = ""
    faulty: bool = False  # a fault ended it
    blamed: int = -1  # rank to which the fault was counted; -1: none (yet)
    blame_is_certain: bool = False  # a signal or a lost node, not an exit status that a victim may have too
    blamed_at: float = 0.0
    adopted: bool = False  # known only from what agents hold

    def member(self, rank: int) -> Member | None:
        """Return the member of that rank, if it is one."""
        return next((one for one in self.members if one.rank == rank), None)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The members' ranks."""
        return tuple(one.rank for one in self.members)


@dataclass(frozen=True, slots=True)
class Launcher:
    """What the agents' command line says; 0 where it says nothing."""

    min_nodes: int = 0
    max_nodes: int = 0
    node_unit: int = 1


@dataclass(frozen=True, slots=True)
class Cause:
    """Why the job has its target size, with what was predicted of it (0: nothing)."""

    reason: str
    message: str = ""
    recommendation: str = ""
    predicted: float = 0.0
    lower: float = 0.0
    upper: float = 0.0
    price_per_hour: float = 0.0


@dataclass(frozen=True, slots=True)
class PodOrder:
    """One pod that a plan creates or removes."""

    name: str
    id: int
    rank: int
    relaunches: int = 0
    role: str = names.WORKER


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan that was decided and isn't known to be carried out."""

    name: str
    created_at: float
    replicas: int
    create: tuple[PodOrder, ...]
    remove: tuple[PodOrder, ...]
    cause: Cause


@dataclass(frozen=True, slots=True)
class Trial:
    """A change of size under watch: what it was to bring and what it brought. ``plan`` is its name, reserved."""

    plan: str
    cause: Cause
    created_at: float
    before: int
    after: int
    speed_before: float = 0.0  # samples/s; 0: not known
    reversible: bool = True  # a person's change, or a rollback itself, isn't rolled back
    rolls_back: bool = False
    written: bool = False
    left_at: float = 0.0  # last step seen before the change
    carried_out: float = 0.0
    first_round: int = 0  # the first round at the new size
    restart_seconds: float = 0.0
    samples: float = 0.0  # after warm-up
    seconds: float = 0.0
    windows: int = 0
    worse: int = 0  # windows in a row after which the mean was worse than it may be


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the job ended."""

    state: str  # Succeeded | Failed
    reason: str
    message: str
    at: float


@dataclass(frozen=True, slots=True)
class JobState:
    """The durable part."""

    epoch: int = 0
    nodes: dict[int, Node] = field(default_factory=dict)
    round: Round = Round()
    next_id: int = 0
    next_plan: int = 1
    plan: Plan | None = None
    plan_failures: int = 0
    target: int = 0  # nodes wanted; 0: not decided yet
    asked_replicas: int = 0  # what the spec asked for when it was last followed; 0: nothing
    cause: Cause = Cause("Undecided")
    launcher: Launcher | None = None
    trial: Trial | None = None
    rejected: dict[int, float] = field(default_factory=dict)  # sizes that were rolled back, and until when they count
    manual_plans: tuple[str, ...] = ()  # uids of people's plans that were answered, the last few
    restarts: int = 0
    relaunches: int = 0
    quick_failures: int = 0  # faults in a row without progress between them
    hopeless: int = 0  # restart budgets that such faults used up
    not_before: float = 0.0  # no round completes earlier: back-off
    restart_seconds: float = 0.0  # measured: last step before to first step after a change
    loaders: int | None = None  # processes that load each worker's data, as the Brain said; None: as the script says
    unmeasured: bool = False  # it was said that the script reports nothing to size the job by
    verdict: Verdict | None = None


class GroupState(StrEnum):
    """What an agent says of its workers."""

    IDLE = "IDLE"
    RUNNING = "RUNNING"
    YIELDED = "YIELDED"
    FAILED = "FAILED"
    SUCCEEDED = "SUCCEEDED"

    @property
    def is_over(self) -> bool:
        """Whether the workers of the round that it names have ended."""
        return self in (GroupState.YIELDED, GroupState.FAILED, GroupState.SUCCEEDED)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call of JoinRendezvous that is held open."""

    host: str
    store_port: int
    processes: int
    since: float
    call: int


@dataclass(frozen=True, slots=True)
class Pulse:
    """What was last heard of a node."""

    seen: float
    round: int = 0
    group: GroupState = GroupState.IDLE
    step: int = -1
    waiting: Waiting | None = None
    waited_at: float = 0.0  # when a call of JoinRendezvous ended without an answer; the next one follows


@dataclass(frozen=True, slots=True)
class Window:
    """One window of training speed."""

    time: float
    seconds: float
    first_step: int
    last_step: int
    samples: float
    nodes: int
    workers: int
    batch: int  # samples a step, all workers together
    round: int
    warming: bool


@dataclass(frozen=True, slots=True)
class Advice:
    """What the Brain last said."""

    decision: str  # UNDEFINED | KEEP | CHANGE | EXPLORE
    workers: int
    cause: Cause
    loaders: int | None = None  # processes that are to load each worker's data; None: as it is
    loaders_message: str = ""


@dataclass(frozen=True, slots=True)
class Live:
    """The part that heartbeats and watches rebuild."""

    started_at: float = 0.0
    ticked_at: float = 0.0
    pulses: dict[int, Pulse] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    pods_listed: bool = False
    windows: tuple[Window, ...] = ()  # the last ones, in order
    step: int = -1
    step_at: float = 0.0
    asking: str = ""  # the stage of the question that is open
    asked_at: float = 0.0
    ask_after: float = 0.0
    start_asked: bool = False
    advice: Advice | None = None
    obstacle: str = ""  # why the last change that was recommended wasn't carried out
    plan_after: float = 0.0  # back-off after a plan that failed


@dataclass(frozen=True, slots=True)
class Facts:
    """What the ElasticJob says, as it is read from it."""

    name: str
    namespace: str
    uid: str
    worker: ReplicaSpec
    mode: OptimizeMode = OptimizeMode.MANUAL
    brain: bool = False  # one is configured
    pinned: bool = False
    refusal: str = ""  # why this job can't be run at all
    most_allowed: int | None = None  # workers that spec.resourceLimits allows
    total_samples: float = 0.0  # that the job trains on in all, where it says so

    @property
    def automatic(self) -> bool:
        """Whether the Brain's recommendations are carried out."""
        return self.mode is OptimizeMode.CLUSTER and self.worker.auto_scale is not False

    @property
    def relaunch_limit(self) -> int:
        """How often one rank may be relaunched."""
        if self.worker.restart_policy == "Never":
            return 0
        return 3 if self.worker.restart_count is None else self.worker.restart_count


@dataclass(frozen=True, slots=True)
class State:
    """Everything that a decision sees."""

    facts: Facts
    job: JobState = JobState()
    live: Live = Live()

    def range(self) -> Range:
        """Return the fewest and the most nodes of the role; a target beyond it was a person's will and counts."""
        launcher = self.job.launcher
        told = Range(launcher.min_nodes, launcher.max_nodes) if launcher and launcher.min_nodes else None
        fewest, most = self.facts.worker.range(told)
        if self.facts.most_allowed is not None:
            fewest, most = min(fewest, self.facts.most_allowed), min(most, self.facts.most_allowed)
        if self.job.target:
            fewest, most = min(fewest, self.job.target), max(most, self.job.target)
        return Range(max(fewest, 1), max(most, 1))

    @property
    def unit(self) -> int:
        """The world is a multiple of it."""
        return max(1, self.job.launcher.node_unit) if self.job.launcher else 1


_ADAPTER = TypeAdapter(JobState)


def dump(job: JobState) -> dict[str, Any]:
    """Return the durable part as JSON."""
    document: dict[str, Any] = _ADAPTER.dump_python(job, mode="json")
    return document


def load(document: dict[str, Any]) -> JobState:
    """Read what ``dump`` wrote.

    Raises:
        CorruptState: it isn't that.
    """
    try:
        return _ADAPTER.validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise CorruptState(f"master state: {place}: {first['msg']}; move the file away to start anew") from None
