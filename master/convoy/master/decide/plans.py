"""From the size that is wanted to exact plans: which pods to create, which to remove. One plan at a time.

A plan is decided from what is missing now (level), persisted, then written; the operator answers on its status.
"""

from __future__ import annotations

from dataclasses import replace

from convoy.core.api import names
from convoy.core.api.plan import PlanPhase
from convoy.master.decide import ending, rounds, scaling
from convoy.master.decide.actions import WriteScalePlan
from convoy.master.decide.draft import Draft
from convoy.master.decide.events import PlanObserved
from convoy.master.decide.state import Cause, Node, NodeStatus, Plan, PodOrder, RoundState
from convoy.master.decide.wording import counted


def advance(draft: Draft) -> None:
    """Plan what is missing, if no plan is under way."""
    job = draft.job
    busy = job.plan is not None or draft.now < draft.live.plan_after
    if job.verdict is not None or job.target == 0 or busy or not draft.live.pods_listed:
        return
    lost = [rank for rank in range(job.target) if rank in job.nodes and job.nodes[rank].status is NodeStatus.LOST]
    for rank in lost:
        if job.nodes[rank].relaunches >= draft.state.facts.relaunch_limit:
            ending.give_up(draft, rank)
            return
    absent = [rank for rank in range(job.target) if rank not in job.nodes]
    drained = [rank for rank, node in sorted(job.nodes.items()) if rank >= job.target and _is_drained(draft, node)]
    lingers = _lingers(draft)
    if not (lost or absent or drained or lingers):
        return
    if lingers:
        draft.set_live(plan_after=draft.now + draft.policy.settle)  # it is asked to end once, not at each event
    remove = [_order(draft, job.nodes[rank]) for rank in (*lost, *drained) if _must_remove(draft, rank)]
    remove += _orphans(draft, {order.name for order in remove})
    for rank in drained:
        if not rounds.has_left(draft, rank):
            message = f"{draft.pod(rank)} didn't leave in time and is removed"
            rounds.end(draft, RoundState.ABORTED, "MemberDidNotLeave", message)
        draft.drop_node(rank)
    create = [_place(draft, rank) for rank in (*absent, *lost)]
    if create or remove:
        _write(draft, create, remove, resizes=bool(absent or drained), lost=lost)


def on_plan(draft: Draft, event: PlanObserved) -> None:
    """One of our plans, as it stands: it leaves the way free for the next one when it is over."""
    number = _number(event.name)
    if number >= draft.job.next_plan:
        draft.set_job(next_plan=number + 1)
    plan = draft.job.plan
    if plan is None or plan.name != event.name or event.phase is PlanPhase.PENDING:
        return
    if event.phase is PlanPhase.FAILED:
        _on_failed(draft, plan, event)
        return
    draft.set_job(plan=None, plan_failures=0)
    for order in plan.create:
        node = draft.job.nodes.get(order.rank)
        if node is not None and node.id == order.id and node.status is NodeStatus.EXPECTED:
            draft.set_node(order.rank, since=draft.now)
    draft.say(
        "PlanCarriedOut" if event.phase is PlanPhase.SUCCEEDED else "PlanSuperseded",
        f"{plan.name}: {counted(len(plan.create), 'pod')} created, {len(plan.remove)} removed",
        plan=plan.name,
        seconds=draft.now - plan.created_at,
    )


def _on_failed(draft: Draft, plan: Plan, event: PlanObserved) -> None:
    """Forget the nodes that weren't made; take a change of size back, try anything else again, later each time."""
    failures = draft.job.plan_failures + 1
    pause = min(draft.policy.plan_backoff_most, 2.0 ** min(failures - 1, 8))
    draft.set_job(plan=None, plan_failures=failures)
    draft.set_live(plan_after=draft.now + pause)
    for order in plan.create:
        node = draft.job.nodes.get(order.rank)
        missing = order.name not in draft.live.pods
        if node is not None and node.id == order.id and node.status is NodeStatus.EXPECTED and missing:
            draft.drop_node(order.rank)
    draft.say(
        "PlanFailed",
        f"{plan.name}: {event.message or event.reason or 'the operator gave no reason'}; next try in {pause:g} s",
        plan=plan.name,
        plan_reason=event.reason,
    )
    trial = draft.job.trial
    if trial is not None and trial.plan == plan.name and event.reason != "StaleEpoch":
        scaling.take_back(draft, trial, "PlanFailed", f"{plan.name} couldn't be carried out")


def _is_drained(draft: Draft, node: Node) -> bool:
    """Whether a node that is no longer wanted may be removed: no round is waiting for its workers to leave."""
    pod = draft.live.pods.get(draft.pod(node.rank))
    if node.incarnation == 0 or (pod is not None and pod.phase.is_over):
        return True
    if draft.round.state is RoundState.ACTIVE and draft.round.member(node.rank) is None:
        return True
    return draft.now - node.since > draft.policy.drain_deadline


def _must_remove(draft: Draft, rank: int) -> bool:
    """Whether the plan names the rank's pod: it may be there, and isn't over unless it is unwanted (logs stay)."""
    pod = draft.live.pods.get(draft.pod(rank))
    if pod is None:
        return draft.job.nodes[rank].lost_reason != "PodGone"
    return not pod.deleting and (rank >= draft.job.target or not pod.phase.is_over)


def _lingers(draft: Draft) -> bool:
    """Whether a pod that nobody asked to end keeps its rank from a later one that has been there for a while."""
    return any(
        name != node.pod(draft.state.facts.name)
        and pod.alive
        and pod.role == names.WORKER
        and 0 <= pod.id < node.id
        and draft.now - node.since > draft.policy.settle
        for name, pod in draft.live.pods.items()
        if (node := draft.job.nodes.get(pod.rank)) is not None
    )


def _orphans(draft: Draft, named: set[str]) -> list[PodOrder]:
    """Return live pods that hold no rank any more."""
    current = {draft.pod(rank) for rank in draft.job.nodes} | named
    return [
        PodOrder(pod.name, pod.id, pod.rank, pod.relaunches, pod.role)
        for name, pod in sorted(draft.live.pods.items())
        if pod.alive and name not in current and pod.role == names.WORKER and pod.rank >= 0 and pod.id >= 0
    ]


def _place(draft: Draft, rank: int) -> PodOrder:
    """Put a new node in the rank's place: a relaunch where there was one."""
    before = draft.job.nodes.get(rank)
    relaunches = before.relaunches + 1 if before else 0
    node = Node(rank, draft.job.next_id, since=draft.now, relaunches=relaunches)
    draft.drop_pulse(rank)
    draft.put_node(node)
    draft.set_job(next_id=node.id + 1, relaunches=draft.job.relaunches + (1 if before else 0))
    return _order(draft, node)


def _order(draft: Draft, node: Node) -> PodOrder:
    return PodOrder(node.pod(draft.state.facts.name), node.id, node.rank, node.relaunches, node.role)


def _write(draft: Draft, create: list[PodOrder], remove: list[PodOrder], *, resizes: bool, lost: list[int]) -> None:
    trial = draft.job.trial
    if trial is not None and resizes and not trial.written:
        name, cause = trial.plan, trial.cause
        draft.set_job(trial=replace(trial, written=True))
    else:
        name = names.scale_plan(draft.state.facts.name, draft.job.next_plan)
        draft.set_job(next_plan=draft.job.next_plan + 1)
        ranks = ", ".join(map(str, lost))
        cause = draft.job.cause
        if lost:
            cause = Cause(
                "NodeReplaced",
                f"the nodes of ranks {ranks} were lost" if len(lost) > 1 else f"the node of rank {ranks} was lost",
            )
        elif not resizes:
            cause = Cause("EarlierPodRemoved", "a later pod holds the rank")
    plan = Plan(name, draft.now, draft.job.target, tuple(create), tuple(remove), cause)
    draft.set_job(plan=plan)
    draft.act(WriteScalePlan(plan))
    draft.say(
        cause.reason,
        f"{name}: {cause.message}",
        plan=name,
        replicas=plan.replicas,
        create=",".join(order.name for order in create) or "none",
        remove=",".join(order.name for order in remove) or "none",
    )


def _number(name: str) -> int:
    digits = name.rpartition("-")[2]
    return int(digits) if digits.isascii() and digits.isdigit() else 0
