"""What each node is to do, as a function of the state alone: a level, never an edge."""

from __future__ import annotations

from convoy.master.decide import rounds
from convoy.master.decide.actions import Direction, Order
from convoy.master.decide.draft import Draft
from convoy.master.decide.state import GroupState, NodeStatus, RoundState


def direction(draft: Draft, rank: int) -> Direction:
    """Return the directive of the node of that rank."""
    verdict, node, round_ = draft.job.verdict, draft.job.nodes.get(rank), draft.round
    if verdict is not None:
        status = 0 if verdict.state == "Succeeded" else 1
        return Direction(Order.STOP, round_.number, verdict.reason, verdict.message, status)
    if node is None:
        return Direction(Order.STOP, round_.number, "NotPartOfJob", f"the job has no node of rank {rank}")
    if node.status is NodeStatus.LOST:
        return Direction(Order.STOP, round_.number, node.lost_reason, "the node is replaced", 1)
    pulse = draft.pulse(rank)
    held = pulse.round if pulse is not None and pulse.group is GroupState.RUNNING else 0
    member = round_.member(rank) is not None
    if held and (held != round_.number or not member):
        return Direction(Order.ABORT, held, "NotInRound", f"round {held} is over, or went on without this node")
    if node.status is NodeStatus.LEAVING and rounds.has_left(draft, rank):
        return Direction(Order.STOP, round_.number, "ScaledDown", draft.job.cause.message)
    if not member or round_.state in (RoundState.ACTIVE, RoundState.NONE):
        return Direction(Order.TRAIN, round_.number, "Train", loaders=draft.job.loaders)
    order = Order.YIELD if round_.state is RoundState.YIELDING else Order.ABORT
    return Direction(order, round_.number, round_.reason, round_.message)
