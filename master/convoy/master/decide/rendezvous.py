"""Rounds: when one ends, who is in the next one, and when that is complete.

A round completes at once when all live nodes wait for it; else when those that don't have used up their patience and
enough wait. Its world is a multiple of the node unit, never less than the fewest nodes, never empty; ranks keep their
order. A rank that an earlier pod may still hold is in no world until that pod has ended: silence is no proof of an
end, and two would write the same checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence

from convoy.core.api import names
from convoy.core.api.job import Range
from convoy.master.decide import faults, rounds
from convoy.master.decide.actions import AnswerJoin, CompleteRound
from convoy.master.decide.draft import Draft
from convoy.master.decide.events import AgentJoined, AgentStoppedWaiting
from convoy.master.decide.state import GroupState, Member, NodeStatus, Round, RoundState, Waiting
from convoy.master.decide.wording import counted

_BETWEEN_CALLS = 2.0  # who waited until just now calls again
_STARTING_SECONDS = 10.0  # a new round's workers are left alone until they run, or for so long


def select(ready: Sequence[int], limits: Range, unit: int) -> tuple[int, ...]:
    """Return the ranks of the largest world that those who joined can form; empty where they are too few."""
    size = min(len(ready), limits.most)
    size -= size % unit
    if size < max(limits.fewest, 1):
        return ()
    return tuple(sorted(ready)[:size])


def on_joined(draft: Draft, event: AgentJoined) -> None:
    """An agent waits for a world: a new one, or the one whose answer it missed."""
    node = draft.job.nodes.get(event.rank)
    if node is None or (node.id, node.incarnation) != (event.node_id, event.incarnation):
        return
    round_ = draft.round
    member = round_.member(event.rank)
    if round_.state is RoundState.ACTIVE and member is not None and member.incarnation == event.incarnation:
        moved = round_.members[0].rank == event.rank and (member.host, member.store_port) != (
            event.host,
            event.store_port,
        )
        if event.last_round < round_.number and not moved:
            draft.act(AnswerJoin(event.rank, event.call, round_))
            return
        what = "asks again from another address" if event.last_round < round_.number else "left the round"
        rounds.end(draft, RoundState.ABORTED, "MemberLeft", f"{draft.pod(event.rank)} {what}", faulty=True)
    waiting = Waiting(event.host, event.store_port, event.processes, draft.now, event.call)
    draft.set_pulse(event.rank, seen=draft.now, waiting=waiting, group=GroupState.IDLE)


def on_stopped_waiting(draft: Draft, event: AgentStoppedWaiting) -> None:
    """A call ended; the agent's next one may have come before."""
    pulse = draft.pulse(event.rank)
    if pulse is not None and pulse.waiting is not None and pulse.waiting.call == event.call:
        draft.set_pulse(event.rank, waiting=None, waited_at=draft.now)


def advance(draft: Draft) -> None:
    """End the round if its members should change; complete the next one if it can be."""
    if draft.job.verdict is not None:
        return
    if draft.round.state is RoundState.ACTIVE:
        _consider_ending(draft)
    if draft.round.state is not RoundState.ACTIVE:
        _consider_completing(draft)


def joined(draft: Draft) -> list[int]:
    """Return the ranks that can be in the next world, in order: they wait for it, and no earlier pod holds them."""
    return [rank for rank in draft.waiting_ranks() if not predecessor(draft, rank)]


def predecessor(draft: Draft, rank: int) -> str:
    """Return the name of an earlier pod of the rank that hasn't ended, empty where none is there."""
    node = draft.job.nodes[rank]
    for name, pod in draft.live.pods.items():
        if pod.role == names.WORKER and pod.rank == rank and 0 <= pod.id < node.id and not pod.phase.is_over:
            return name
    return ""


def missing(draft: Draft) -> list[int]:
    """Return the ranks that are wanted in the next round and can't be in it yet."""
    ready = set(joined(draft))
    wanted = (NodeStatus.EXPECTED, NodeStatus.LIVE, NodeStatus.LOST)
    return sorted(rank for rank, node in draft.job.nodes.items() if node.status in wanted and rank not in ready)


def _consider_ending(draft: Draft) -> None:
    round_ = draft.round
    if not rounds.all_run(draft) and draft.now - round_.completed_at < _STARTING_SECONDS:
        return
    pulses = draft.live.pulses
    if any((pulse := pulses.get(rank)) and pulse.group is GroupState.SUCCEEDED for rank in round_.ranks):
        return  # it is ending by itself
    nodes = draft.job.nodes
    leaving = [rank for rank in round_.ranks if rank in nodes and nodes[rank].status is NodeStatus.LEAVING]
    if leaving:
        left = len(round_.members) - len(leaving)
        rounds.end(draft, RoundState.YIELDING, "ScaleDown", f"from {counted(len(round_.members), 'node')} to {left}")
        return
    newcomers = [rank for rank in joined(draft) if rank not in round_.ranks]
    world = select([*round_.ranks, *newcomers], draft.state.range(), draft.state.unit)
    if len(world) <= len(round_.members):
        return
    since = min(waiting.since for rank in newcomers if (waiting := pulses[rank].waiting))
    coming = [
        rank
        for rank, node in nodes.items()
        if rank not in round_.ranks
        and rank not in newcomers
        and node.status in (NodeStatus.EXPECTED, NodeStatus.LIVE)
    ]
    if not coming or draft.now - since >= draft.policy.settle:
        rounds.end(
            draft, RoundState.YIELDING, "ScaleUp", f"from {counted(len(round_.members), 'node')} to {len(world)}"
        )


def _consider_completing(draft: Draft) -> None:
    if draft.now < draft.job.not_before:
        return
    limits = draft.state.range()
    world = select(joined(draft), limits, draft.state.unit)
    if not world:
        return
    if len(world) < limits.most and any(_is_worth_waiting_for(draft, rank) for rank in missing(draft)):
        return
    _complete(draft, world)


def _is_worth_waiting_for(draft: Draft, rank: int) -> bool:
    policy, round_, node = draft.policy, draft.round, draft.job.nodes[rank]
    if round_.state is RoundState.NONE:
        last = max(pulse.waiting.since for pulse in draft.live.pulses.values() if pulse.waiting)
        patience = policy.leave_patience if node.status.is_live else policy.first_settle
        return node.status is not NodeStatus.LOST and draft.now - last < patience
    if not node.status.is_live:
        return False
    pulse = draft.pulse(rank)
    if pulse is not None and draft.now - pulse.waited_at < _BETWEEN_CALLS:
        return True
    if round_.member(rank) is None and pulse is not None and pulse.round == 0:
        return False  # a newcomer that is still on its way: the others yield to it when it waits
    if round_.member(rank) is None or rounds.has_left(draft, rank):
        patience = policy.settle
    else:
        patience = policy.yield_patience if round_.state is RoundState.YIELDING else policy.leave_patience
    return draft.now - max(round_.ended_at, draft.live.started_at, node.since) < patience


def _complete(draft: Draft, ranks: tuple[int, ...]) -> None:
    faults.close_round(draft)
    if draft.job.verdict is not None or draft.now < draft.job.not_before:
        return
    members = []
    for rank in ranks:
        pulse, node = draft.live.pulses[rank], draft.job.nodes[rank]
        assert pulse.waiting is not None
        place = pulse.waiting
        members.append(Member(rank, node.id, node.incarnation, place.processes, place.host, place.store_port))
        draft.set_pulse(rank, waiting=None, group=GroupState.IDLE)
    number = draft.round.number + 1
    round_ = Round(number, RoundState.ACTIVE, tuple(members), completed_at=draft.now, step=draft.live.step)
    draft.set_job(round=round_)
    draft.act(CompleteRound(round_))
    processes = sum(one.processes for one in members)
    left_out = [draft.pod(rank) for rank in missing(draft) if rank not in ranks]
    draft.say(
        "RoundCompleted",
        f"round {number} has {counted(len(members), 'node')}, {counted(processes, 'process')}",
        nodes=len(members),
        ranks=",".join(map(str, ranks)),
        missing=",".join(left_out) or "none",
    )
