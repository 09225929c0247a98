"""How a job ends by itself: all of its members succeeded, or a rank's relaunches are used up."""

from __future__ import annotations

from convoy.master.decide.draft import Draft
from convoy.master.decide.state import GroupState, NodeStatus, RoundState
from convoy.master.decide.wording import counted, every


def advance(draft: Draft) -> None:
    """End the job when all of its members have succeeded."""
    if draft.job.verdict is not None:
        return
    nodes, round_ = draft.job.nodes, draft.round
    if round_.members and round_.state in (RoundState.ACTIVE, RoundState.YIELDING):
        if all(_has_succeeded(draft, rank) for rank in round_.ranks):
            draft.finish(
                True,
                "Completed",
                f"{every(len(round_.members), 'node')} of round {round_.number} succeeded",
                step=draft.live.step,
                restarts=draft.job.restarts,
                relaunches=draft.job.relaunches,
            )
    elif not round_.members and nodes and all(node.status is NodeStatus.DONE for node in nodes.values()):
        draft.finish(
            True, "PodsSucceeded", f"{every(len(nodes), 'pod')} ended well without an agent of ours registering"
        )


def give_up(draft: Draft, rank: int) -> None:
    """End the job: a node was lost whose rank may not be relaunched again."""
    node = draft.job.nodes[rank]
    limit = draft.state.facts.relaunch_limit
    never = draft.state.facts.worker.restart_policy == "Never"
    allowed = "restartPolicy Never allows none" if never else f"restartCount allows {limit}"
    draft.finish(
        False,
        "RelaunchBudgetExhausted",
        f"rank {rank} was relaunched {counted(node.relaunches, 'time')}, {allowed}; its last node was lost: "
        f"{node.lost_reason}",
        rank=rank,
        relaunches=node.relaunches,
        limit=limit,
    )


def _has_succeeded(draft: Draft, rank: int) -> bool:
    node, pulse = draft.job.nodes.get(rank), draft.pulse(rank)
    if node is not None and node.status is NodeStatus.DONE:
        return True
    return pulse is not None and pulse.group is GroupState.SUCCEEDED and pulse.round == draft.round.number
