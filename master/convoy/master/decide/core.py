"""The decision: ``(state, event, now) -> (state, actions)``, each action that changes something explained beside it.

First what the event says is taken in, then everything that follows from the state as it is now: the job's end, its
size, its round, its plan, each node's directive. Nothing here reads a clock or a file.
"""

from __future__ import annotations

from dataclasses import dataclass

from convoy.master.decide import (
    directives,
    ending,
    heartbeats,
    measured,
    nodes,
    plans,
    rendezvous,
    scaling,
    speed,
    trial,
)
from convoy.master.decide.actions import Action, Explain, FinishJob, SetDirective, WriteScalePlan
from convoy.master.decide.draft import Draft
from convoy.master.decide.events import (
    AgentJoined,
    AgentRegistered,
    AgentReported,
    AgentStoppedWaiting,
    BrainAnswered,
    BrainSilent,
    Event,
    JobObserved,
    ManualPlanObserved,
    PlanObserved,
    PodGone,
    PodObserved,
    PodsListed,
    Tick,
)
from convoy.master.decide.policy import Policy
from convoy.master.decide.state import State


@dataclass(frozen=True, slots=True)
class Decided:
    """The state after an event, and what is to be done."""

    state: State
    actions: tuple[Action, ...]

    @property
    def reasons(self) -> tuple[Explain, ...]:
        """Why."""
        return tuple(action for action in self.actions if isinstance(action, Explain))


def decide(state: State, event: Event, now: float, policy: Policy) -> Decided:
    """Return the state after the event, and what is to be done."""
    draft = Draft(state, now, policy)
    if not _take_in(draft, event):
        return Decided(draft.state, tuple(draft.actions))
    ending.advance(draft)
    trial.advance(draft)
    scaling.advance(draft)
    measured.advance(draft)
    rendezvous.advance(draft)
    plans.advance(draft)
    _direct(draft, state)
    return Decided(draft.state, tuple(draft.actions))


def resume(state: State, now: float, policy: Policy) -> tuple[Action, ...]:
    """Return what a new master does again of what the state says: it may have been cut off before it did."""
    if state.job.verdict is not None:
        return (FinishJob(state.job.verdict),)
    draft = Draft(state, now, policy)
    if state.job.plan is not None:
        draft.act(WriteScalePlan(state.job.plan))
    for rank in sorted(state.job.nodes):
        draft.act(SetDirective(rank, directives.direction(draft, rank)))
    return tuple(draft.actions)


def _take_in(draft: Draft, event: Event) -> bool:
    """Take in what the event says; return whether anything may follow from it."""
    match event:
        case AgentReported():
            if nodes.is_stale(draft.state, event.rank, event.node_id, event.incarnation):
                return False  # it was given up while the report was on its way
            news = heartbeats.on_report(draft, event)
            fresh = speed.take_in(draft, event.windows) if draft.pulse(event.rank) else ()
            trial.on_windows(draft, fresh)
            return news or bool(fresh)
        case Tick():
            nodes.on_tick(draft)
        case AgentRegistered():
            nodes.on_registered(draft, event)
        case AgentJoined():
            rendezvous.on_joined(draft, event)
        case AgentStoppedWaiting():
            rendezvous.on_stopped_waiting(draft, event)
        case PodObserved():
            nodes.on_pod(draft, event.pod)
        case PodGone():
            nodes.on_gone(draft, event.pod)
        case PodsListed():
            nodes.on_listed(draft, event)
        case JobObserved():
            scaling.on_job(draft, event)
        case PlanObserved():
            plans.on_plan(draft, event)
        case ManualPlanObserved():
            scaling.on_manual_plan(draft, event)
        case BrainAnswered():
            scaling.on_answer(draft, event)
        case BrainSilent():
            scaling.on_silence(draft, event)
    return True


def _direct(draft: Draft, before: State) -> None:
    """Tell each node whose directive is another one now; what it was follows from the state before."""
    if draft.state.job is before.job and draft.state.live.pulses is before.live.pulses:
        return
    earlier = Draft(before, draft.now, draft.policy)
    for rank in sorted({*draft.job.nodes, *before.job.nodes}):
        direction = directives.direction(draft, rank)
        if direction != directives.direction(earlier, rank):
            draft.act(SetDirective(rank, direction))
