"""What an agent does under its master: decided here, carried out by ``loop``. No clock, no I/O.

joining  -- Joined --> running -- the group ended --> joining | waiting (succeeded) | ...
running  -- YIELD --> yielding -- the group ended --> joining
running, yielding, waiting  -- ABORT of the round --> stopping --> joining
any      -- STOP, a signal --> stopping --> ended
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from convoy.agent.outcome import End, Outcome
from convoy.agent.world import World


class Phase(StrEnum):
    """Where an agent is."""

    JOINING = "joining"
    RUNNING = "running"
    YIELDING = "yielding"
    STOPPING = "stopping"
    WAITING = "waiting"
    ENDED = "ended"


class Order(StrEnum):
    """What a directive says."""

    TRAIN = "train"
    YIELD = "yield"
    ABORT = "abort"
    STOP = "stop"


@dataclass(frozen=True)
class State:
    """An agent's state.

    Attributes:
        round: the round that its workers are, or were last, in; 0 if none yet.
        epoch, version: of the last directive that was heeded.
        restarts: of its workers, by their own fault.
        outcome: how the last group ended, None while one runs or none has.
        exit_code: with which it ends once stopped, None where it goes on.
        loaders: processes that are to load each worker's data; None: as the script says.
    """

    phase: Phase = Phase.JOINING
    round: int = 0
    epoch: int = 0
    version: int = 0
    restarts: int = 0
    outcome: Outcome | None = None
    exit_code: int | None = None
    loaders: int | None = None


# -- events


@dataclass(frozen=True)
class Started:
    """The agent is up."""


@dataclass(frozen=True)
class Directed:
    """A directive of a master of that epoch."""

    epoch: int
    version: int
    order: Order
    round: int
    reason: str = ""
    message: str = ""
    exit_code: int = 0
    loaders: int | None = None


@dataclass(frozen=True)
class Joined:
    """The next round's world."""

    world: World


@dataclass(frozen=True)
class GroupEnded:
    """The workers of a round ended by themselves."""

    round: int
    outcome: Outcome


@dataclass(frozen=True)
class GroupStopped:
    """The workers of a round were ended, as asked; ``outcome`` where they had failed before."""

    round: int
    outcome: Outcome | None = None


@dataclass(frozen=True)
class Signalled:
    """A signal asks the agent to end."""

    number: int


@dataclass(frozen=True)
class GaveUp:
    """The agent can't go on: no master, no world, no workers, or it was replaced."""

    message: str
    exit_code: int = 1


Event = Started | Directed | Joined | GroupEnded | GroupStopped | Signalled | GaveUp

# -- actions


@dataclass(frozen=True)
class Join:
    """Wait for the next world; what became of the last group is told first."""

    last_round: int


@dataclass(frozen=True)
class Start:
    """Start the workers."""

    world: World
    restarts: int


@dataclass(frozen=True)
class AskToYield:
    """Ask the workers to end the round at a step boundary."""

    round: int


@dataclass(frozen=True)
class StopGroup:
    """End the workers; ``signal`` is handed on and the whole shutdown timeout given, 0: they are only in the way."""

    signal: int = 0


@dataclass(frozen=True)
class SetLoaders:
    """Have each worker, and those that start later, load its data with so many processes."""

    workers: int


@dataclass(frozen=True)
class Tell:
    """Report at once."""


@dataclass(frozen=True)
class Exit:
    """End the agent; an empty message is nothing to speak of."""

    code: int
    message: str = ""


Action = Join | Start | AskToYield | StopGroup | SetLoaders | Tell | Exit

_HOLDING = (Phase.RUNNING, Phase.YIELDING)


def decide(state: State, event: Event) -> tuple[State, list[Action]]:
    """Return the next state and what is to be done. Nothing follows an end."""
    if state.phase is Phase.ENDED:
        return state, []
    match event:
        case Started():
            return state, [Join(state.round)]
        case Directed():
            return _directed(state, event)
        case Joined():
            if state.phase is not Phase.JOINING or event.world.round <= state.round:
                return state, []
            running = replace(state, phase=Phase.RUNNING, round=event.world.round, outcome=None)
            return running, [Start(event.world, state.restarts)]
        case GroupEnded():
            return _group_ended(state, event)
        case GroupStopped():
            return _group_stopped(state, event)
        case Signalled():
            code = 128 + event.number
            if state.phase is Phase.STOPPING:
                return replace(state, exit_code=code), []
            if state.phase in _HOLDING:
                return replace(state, phase=Phase.STOPPING, exit_code=code), [StopGroup(event.number)]
            return replace(state, phase=Phase.ENDED, exit_code=code), [Exit(code)]
        case GaveUp():
            ended = replace(state, phase=Phase.ENDED, exit_code=event.exit_code)
            return ended, [Exit(event.exit_code, event.message)]


def _directed(state: State, event: Directed) -> tuple[State, list[Action]]:
    if (event.epoch, event.version) <= (state.epoch, state.version):
        return state, []  # an older master's, or older than one that was heeded
    state = replace(state, epoch=event.epoch, version=event.version)
    if event.order is Order.STOP:
        return _told_to_stop(state, event)
    if event.loaders is not None and event.loaders != state.loaders:
        state, actions = _ordered(replace(state, loaders=event.loaders), event)
        return state, [SetLoaders(event.loaders), *actions]
    return _ordered(state, event)


def _ordered(state: State, event: Directed) -> tuple[State, list[Action]]:
    if event.round != state.round:
        return state, []
    if event.order is Order.YIELD and state.phase is Phase.RUNNING:
        return replace(state, phase=Phase.YIELDING), [AskToYield(state.round)]
    if event.order is Order.ABORT and state.phase in _HOLDING:
        return replace(state, phase=Phase.STOPPING), [StopGroup()]
    if event.order in (Order.ABORT, Order.YIELD) and state.phase is Phase.WAITING:
        return replace(state, phase=Phase.JOINING), [Join(state.round)]
    return state, []


def _told_to_stop(state: State, event: Directed) -> tuple[State, list[Action]]:
    code, outcome = event.exit_code, state.outcome
    if code and outcome is not None and outcome.end is End.FAILED and not outcome.peer_lost:
        code = outcome.exit_code or code
    if state.phase is Phase.STOPPING:
        return replace(state, exit_code=code if state.exit_code is None else state.exit_code), []
    if state.phase in _HOLDING:
        return replace(state, phase=Phase.STOPPING, exit_code=code), [StopGroup()]
    message = f"{event.reason}: {event.message}" if code else ""
    return replace(state, phase=Phase.ENDED, exit_code=code), [Exit(code, message)]


def _group_ended(state: State, event: GroupEnded) -> tuple[State, list[Action]]:
    if event.round != state.round or state.phase not in _HOLDING:
        return state, []
    outcome = event.outcome
    if outcome.end is End.SUCCEEDED:
        return replace(state, phase=Phase.WAITING, outcome=outcome), [Tell()]
    return _join_again(state, outcome)


def _group_stopped(state: State, event: GroupStopped) -> tuple[State, list[Action]]:
    if event.round != state.round or state.phase not in (Phase.YIELDING, Phase.STOPPING):
        return state, []
    if state.exit_code is not None:
        return replace(state, phase=Phase.ENDED), [Exit(state.exit_code)]
    return _join_again(state, event.outcome)


def _join_again(state: State, outcome: Outcome | None) -> tuple[State, list[Action]]:
    own_fault = outcome is not None and outcome.end is End.FAILED and not outcome.peer_lost
    state = replace(state, phase=Phase.JOINING, outcome=outcome, restarts=state.restarts + own_fault)
    return state, [Join(state.round)]
