"""Faults of worker processes: which node's counts, how often it may restart, when the job is given up.

A fault ends its round for all. It is counted once, to the node whose process failed by its own fault; a process that
ended because another was gone isn't counted. Where an exit status was blamed and a signal or a lost node is seen
right after, the blame moves there: the exit status was a consequence.
"""

from __future__ import annotations

from convoy.master.decide import rounds
from convoy.master.decide.actions import ReleaseShards
from convoy.master.decide.draft import Draft
from convoy.master.decide.events import ProcessFailure
from convoy.master.decide.state import NodeStatus, RoundState
from convoy.master.decide.wording import counted


def blame(draft: Draft, rank: int, *, certain: bool) -> bool:
    """Blame the end of the round on the rank; return whether that is news. The first counts, a certain one more."""
    round_ = draft.round
    if round_.blamed >= 0:
        blamed = draft.job.nodes.get(round_.blamed)
        late = draft.now - round_.blamed_at > draft.policy.certain_within
        if not certain or round_.blame_is_certain or late or blamed is None or blamed.status is NodeStatus.LOST:
            return False
        draft.set_node(round_.blamed, restarts=max(0, blamed.restarts - 1))
        draft.set_job(restarts=max(0, draft.job.restarts - 1))
        draft.say(
            "BlameMoved",
            f"{blamed.pod(draft.state.facts.name)} failed as a consequence; the fault is {draft.pod(rank)}'s",
            rank=rank,
        )
    draft.set_round(blamed=rank, blame_is_certain=certain, blamed_at=draft.now, faulty=True)
    return True


def close_round(draft: Draft) -> None:
    """Account for a round that a fault ended to which nobody admitted: it delays the next one, and has a limit."""
    round_ = draft.round
    if round_.faulty and round_.blamed < 0:
        draft.set_round(faulty=False)
        draft.say("FaultUnattributed", f"round {round_.number} was lost and no node's process failed by itself")
        _slow_down(draft)
        limit = 2 * (1 + max((node.max_restarts for node in draft.job.nodes.values()), default=0))
        if draft.job.quick_failures > limit:
            draft.finish(
                False,
                "RoundsLostWithoutProgress",
                f"{_without_progress(draft)}, and no process failed by itself; look for a network that the "
                "nodes can't reach each other on",
                rounds=draft.job.quick_failures,
            )


def on_failed(draft: Draft, rank: int, failure: ProcessFailure | None) -> None:
    """The workers of the rank ended in failure in the present round."""
    round_ = draft.round
    if round_.member(rank) is None:
        return
    draft.act(ReleaseShards(draft.pod(rank)))
    if failure is None or failure.peer_lost:
        message = f"a process of {draft.pod(rank)} ended because another member was gone"
        rounds.end(draft, RoundState.ABORTED, "PeerLost", message, faulty=True)
        return
    how = f"signal {-failure.exit_code}" if failure.exit_code < 0 else f"exit status {failure.exit_code}"
    message = f"process {failure.local_rank} of {draft.pod(rank)} ended with {how}"
    rounds.end(draft, RoundState.ABORTED, "ProcessFailed", message, faulty=True)
    counted_before = draft.round.blamed >= 0
    if not blame(draft, rank, certain=failure.exit_code < 0):
        draft.say("FailureIsConsequence", f"{message}; not counted", rank=rank, last=failure.message[-500:])
        return
    node = draft.set_node(rank, restarts=draft.job.nodes[rank].restarts + 1)
    draft.set_job(restarts=draft.job.restarts + 1)
    draft.say(
        "ProcessFaultCounted",
        f"{message}; restart {node.restarts} of {node.max_restarts}",
        rank=rank,
        exit_code=failure.exit_code,
        local_rank=failure.local_rank,
        restarts=node.restarts,
        last=failure.message[-500:],
    )
    if not counted_before:
        _slow_down(draft)
    if node.restarts > node.max_restarts:
        _exhausted(draft, rank, failure)


def _slow_down(draft: Draft) -> None:
    """Delay the next round after a fault that came before any progress, longer each time."""
    round_, policy = draft.round, draft.policy
    lasted = (round_.ended_at or draft.now) - round_.completed_at
    enough = policy.progress_seconds if _reports_steps(draft) else policy.unmeasured_seconds
    if draft.live.step > round_.step or lasted >= enough:
        draft.set_job(quick_failures=0, hopeless=0)
        return
    quick = draft.job.quick_failures + 1
    delay = min(policy.backoff_most, policy.backoff_first * 2.0 ** min(quick - 1, 16))
    draft.set_job(quick_failures=quick, not_before=draft.now + delay)
    since = "no new step was finished" if _reports_steps(draft) else f"the round ended after {lasted:.1f} s"
    waits = f"the next round waits {delay:g} s"
    draft.say("BackOff", f"{since}; {waits}{_judged(draft)}", faults=quick, seconds=lasted)


def _reports_steps(draft: Draft) -> bool:
    """Whether any round of the job, so far as is known, finished a step that was told."""
    return max(draft.live.step, draft.round.step) >= 0


def _judged(draft: Draft) -> str:
    """Return what must be added to a judgement of rounds that was made without knowing their steps."""
    if _reports_steps(draft):
        return ""
    return f" (no step was reported: judged by time, {draft.policy.unmeasured_seconds:g} s count as progress)"


def _without_progress(draft: Draft) -> str:
    rounds_ = counted(draft.job.quick_failures, "round")
    if _reports_steps(draft):
        return f"no new step was finished in the last {rounds_}"
    return f"the last {rounds_} ended within {draft.policy.unmeasured_seconds:g} s each{_judged(draft)}"


def _exhausted(draft: Draft, rank: int, failure: ProcessFailure) -> None:
    node = draft.job.nodes[rank]
    hopeless = draft.job.hopeless + 1 if draft.job.quick_failures else 0
    draft.set_job(hopeless=hopeless)
    if hopeless >= draft.policy.hopeless_budgets or draft.state.facts.relaunch_limit == 0:
        draft.finish(
            False,
            "FailsAtOnce" if hopeless else "RestartBudgetExhausted",
            f"process {failure.local_rank} of {draft.pod(rank)} failed {counted(node.restarts, 'time')}, its "
            f"launcher allows {counted(node.max_restarts, 'restart')}"
            + (f"; {_without_progress(draft)}" if hopeless else "")
            + f"; its last words: {failure.message[-500:] or 'none'}",
            restarts=node.restarts,
            max_restarts=node.max_restarts,
            exit_code=failure.exit_code,
        )
        return
    draft.set_node(rank, status=NodeStatus.LOST, lost_reason="RestartBudgetExhausted")
    draft.drop_pulse(rank)
    draft.say(
        "RestartBudgetExhausted",
        f"{draft.pod(rank)} failed {counted(node.restarts, 'time')}, its launcher allows "
        f"{counted(node.max_restarts, 'restart')}: it is replaced",
        rank=rank,
        restarts=node.restarts,
    )
