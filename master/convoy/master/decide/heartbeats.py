"""What agents report of their nodes, once a second: that they live, what their workers do, how far they are."""

from __future__ import annotations

from convoy.master.decide import faults, rounds
from convoy.master.decide.draft import Draft
from convoy.master.decide.events import AgentReported
from convoy.master.decide.state import GroupState, NodeStatus


def on_report(draft: Draft, event: AgentReported) -> bool:
    """Take a heartbeat in; return whether anything but its time and step is new. A stale one changes nothing."""
    node = draft.job.nodes.get(event.rank)
    if node is None or (node.id, node.incarnation) != (event.node_id, event.incarnation):
        return False
    if node.status is NodeStatus.LOST:
        draft.set_node(event.rank, status=NodeStatus.LIVE, lost_reason="")
        draft.say("NodeReturned", f"{draft.pod(event.rank)} reports again", rank=event.rank)
    before = draft.pulse(event.rank)
    group = GroupState.IDLE if before and before.waiting and event.group is GroupState.RUNNING else event.group
    draft.set_pulse(event.rank, seen=draft.now, round=event.round, group=group, step=event.step)
    if event.step > draft.live.step and event.round == draft.round.number:
        draft.set_live(step=event.step, step_at=draft.now)
    if event.round > draft.round.number and event.group is not GroupState.IDLE:
        rounds.adopt(draft, event.rank, event.round)
    if before is not None and (before.round, before.group) == (event.round, group):
        return False
    if event.group is GroupState.FAILED and event.round == draft.round.number:
        faults.on_failed(draft, event.rank, event.failure)
    return True
