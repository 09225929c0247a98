"""What is done to the current round: end it, ask who left it, believe the agents that hold one."""

from __future__ import annotations

from dataclasses import replace

from convoy.master.decide.draft import Draft
from convoy.master.decide.state import GroupState, Member, Round, RoundState


def has_left(draft: Draft, rank: int) -> bool:
    """Whether the node has no workers in the current round (any more)."""
    pulse = draft.pulse(rank)
    if draft.round.member(rank) is None or pulse is None:
        return draft.round.member(rank) is None
    return pulse.waiting is not None or (pulse.round == draft.round.number and pulse.group.is_over)


def all_run(draft: Draft) -> bool:
    """Whether all members of the active round have their workers running in it."""
    round_ = draft.round
    pulses = [draft.pulse(rank) for rank in round_.ranks]
    return round_.state is RoundState.ACTIVE and all(
        pulse is not None and pulse.round == round_.number and pulse.group is GroupState.RUNNING for pulse in pulses
    )


def end(draft: Draft, state: RoundState, reason: str, message: str, *, faulty: bool = False) -> None:
    """End the round: its members yield or abort. A round that yields may still be aborted, never the reverse."""
    before = draft.round.state
    if before is RoundState.ACTIVE or (before is RoundState.YIELDING and state is RoundState.ABORTED):
        draft.set_round(state=state, reason=reason, message=message, ended_at=draft.now, faulty=faulty)
        trial = draft.job.trial
        if trial is not None and not trial.carried_out and before is RoundState.ACTIVE:
            draft.set_job(trial=replace(trial, left_at=draft.live.step_at or draft.now))
        draft.say(reason, message, ends=state.value, members=len(draft.round.members))


def adopt(draft: Draft, rank: int, number: int) -> None:
    """Believe agents that hold a round that isn't known here: the state was lost, and is rebuilt from them."""
    node = draft.job.nodes[rank]
    member = Member(rank, node.id, node.incarnation, node.processes, node.host, 0)
    round_ = draft.round
    if number > round_.number:
        adopted = Round(number, RoundState.ACTIVE, (member,), completed_at=draft.now, step=-1, adopted=True)
        draft.set_job(round=adopted)
        draft.say("RoundAdopted", f"{draft.pod(rank)} holds round {number}, which wasn't known here", rank=rank)
    elif number == round_.number and round_.adopted and round_.member(rank) is None:
        draft.set_round(members=tuple(sorted((*round_.members, member), key=lambda one: one.rank)))
