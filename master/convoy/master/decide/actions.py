"""What a decision asks the edge to do. Each may be carried out twice and does nothing more the second time."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from convoy.master.decide.state import Plan, Round, Trial, Verdict


class Order(StrEnum):
    """What a node is to do."""

    TRAIN = "TRAIN"
    YIELD = "YIELD"
    ABORT = "ABORT"
    STOP = "STOP"


@dataclass(frozen=True, slots=True)
class Direction:
    """A node's directive, without its version."""

    order: Order
    round: int
    reason: str
    message: str = ""
    exit_code: int = 0
    loaders: int | None = None


@dataclass(frozen=True, slots=True)
class SetDirective:
    """Tell the node of that rank what it is to do from now on."""

    rank: int
    direction: Direction


@dataclass(frozen=True, slots=True)
class CompleteRound:
    """Answer those who wait: the members get the world, the others wait on."""

    round: Round


@dataclass(frozen=True, slots=True)
class AnswerJoin:
    """Answer one who missed it: the round's world, again."""

    rank: int
    call: int
    round: Round


@dataclass(frozen=True, slots=True)
class WriteScalePlan:
    """Create the ScalePlan object, unless it is there."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class AnswerManualPlan:
    """Write a person's plan's status."""

    name: str
    accepted: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class AskBrain:
    """Ask for a recommendation. ``workers`` is the present size, 0 before the start."""

    stage: str
    workers: int
    restart_seconds: float
    global_batch: int


@dataclass(frozen=True, slots=True)
class RecordPlan:
    """Tell the Brain how a change of size fares."""

    trial: Trial
    rolled_back: bool = False


@dataclass(frozen=True, slots=True)
class ReleaseShards:
    """Hand out again what the node held."""

    holder: str


@dataclass(frozen=True, slots=True)
class Explain:
    """Log a decision and send it to the Brain: why, a sentence, and the numbers."""

    reason: str
    message: str
    node: str = ""
    round: int = 0
    step: int = -1
    evidence: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FinishJob:
    """The job is over."""

    verdict: Verdict


Action = (
    SetDirective
    | CompleteRound
    | AnswerJoin
    | WriteScalePlan
    | AnswerManualPlan
    | AskBrain
    | RecordPlan
    | ReleaseShards
    | Explain
    | FinishJob
)
