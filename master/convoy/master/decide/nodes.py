"""Nodes: what pods and agents say of them, and when one is lost.

A node is lost when its pod is over or gone, or its agent silent for longer than the heartbeat's deadline. Whether and
how it is replaced is the plans' concern.
"""

from __future__ import annotations

from dataclasses import replace

from convoy.core.api import names
from convoy.core.api.pod import Pod, PodPhase
from convoy.master.decide import faults, rounds
from convoy.master.decide.actions import ReleaseShards
from convoy.master.decide.draft import Draft
from convoy.master.decide.events import AgentRegistered, PodsListed
from convoy.master.decide.state import Cause, GroupState, Node, NodeStatus, Pulse, RoundState, State
from convoy.master.decide.wording import counted

_REFUSALS = {2: "refused its settings", 126: "can't be executed", 127: "wasn't found"}


def on_listed(draft: Draft, event: PodsListed) -> None:
    """All pods, as they are: what isn't among them is gone."""
    pods = {pod.name: pod for pod in event.pods}
    gone = [pod for name, pod in draft.live.pods.items() if name not in pods]
    draft.set_live(pods=pods, pods_listed=True)
    if draft.job.target == 0:
        _rebuild(draft, event.pods)
    for pod in event.pods:
        on_pod(draft, pod)
    for pod in gone:
        on_gone(draft, pod)
    ordered = {order.name for order in draft.job.plan.create} if draft.job.plan else set()
    for rank, node in sorted(draft.job.nodes.items()):
        name = draft.pod(rank)
        if name not in pods and name not in ordered and node.status is not NodeStatus.DONE:
            lose(draft, rank, "PodGone", f"pod {name} is no more")


def on_pod(draft: Draft, pod: Pod) -> None:
    """One pod, as it is."""
    draft.set_live(pods={**draft.live.pods, pod.name: pod})
    node = draft.job.nodes.get(pod.rank)
    if node is None or node.id != pod.id or not pod.phase.is_over or draft.job.verdict is not None:
        return
    pulse = draft.pulse(pod.rank)
    if pod.phase is PodPhase.SUCCEEDED and node.status is not NodeStatus.LEAVING:
        succeeded = pulse is not None and pulse.group is GroupState.SUCCEEDED and pulse.round == draft.round.number
        if succeeded or node.incarnation == 0:
            draft.set_node(pod.rank, status=NodeStatus.DONE)
            return
        lose(draft, pod.rank, "PodEndedEarly", f"pod {pod.name} ended well before its workers had", pod)
        return
    began = draft.round.state is not RoundState.NONE  # then the command is right, and something is wrong with a node
    if not began and node.incarnation == 0 and pod.exit_code in _REFUSALS and node.status is NodeStatus.EXPECTED:
        draft.finish(
            False,
            "LauncherRefused",
            f"the command of {pod.name} {_REFUSALS[pod.exit_code]} (exit status {pod.exit_code}): "
            f"{pod.message or pod.reason or 'see its logs'}; correct the template's command",
            exit_code=pod.exit_code,
        )
        return
    why = f"exit status {pod.exit_code}" if pod.exit_code is not None else pod.reason or pod.phase.value
    lose(draft, pod.rank, "PodFailed", f"pod {pod.name} ended: {why}", pod)


def on_gone(draft: Draft, pod: Pod) -> None:
    """A pod's object is no more."""
    draft.set_live(pods={name: known for name, known in draft.live.pods.items() if name != pod.name})
    node = draft.job.nodes.get(pod.rank)
    if node is not None and node.id == pod.id and node.status is not NodeStatus.DONE:
        lose(draft, pod.rank, "PodGone", f"pod {pod.name} was deleted", pod)


def on_registered(draft: Draft, event: AgentRegistered) -> None:
    """An agent is there, for the first time, again, or in the place of an older one. A stale one changes nothing."""
    node = draft.job.nodes.get(event.rank)
    if is_stale(draft.state, event.rank, event.node_id, event.incarnation):
        return
    if node is None or event.node_id > node.id:
        if node is not None:
            lose(draft, event.rank, "Superseded", f"a newer pod holds rank {event.rank}")
        node = _unplanned(draft, event, node)
    elif 0 < node.incarnation < event.incarnation:
        _restarted(draft, event.rank)
        node = draft.job.nodes[event.rank]
    status = node.status if node.status is NodeStatus.LEAVING else NodeStatus.LIVE
    known = node.status.is_live and node.incarnation == event.incarnation
    draft.set_node(
        event.rank,
        status=status,
        incarnation=event.incarnation,
        host=event.host,
        processes=max(1, event.processes),
        max_restarts=event.max_restarts,
        lost_reason="",
    )
    lowest = min(draft.job.nodes)
    if draft.job.launcher is None or event.rank == lowest:
        draft.set_job(launcher=event.launcher)
    before = draft.pulse(event.rank) if known else None
    group = GroupState.RUNNING if event.round else GroupState.IDLE
    held = Pulse(draft.now, event.round, group, event.step, before.waiting if before and not event.round else None)
    draft.set_live(pulses={**draft.live.pulses, event.rank: held})
    if event.step > draft.live.step:
        draft.set_live(step=event.step, step_at=draft.now)
    if event.round:
        rounds.adopt(draft, event.rank, event.round)
    if not known:
        draft.say("AgentRegistered", f"{draft.pod(event.rank)} is there", rank=event.rank, host=event.host)


def is_stale(state: State, rank: int, node_id: int, incarnation: int) -> bool:
    """Whether a newer process holds the rank, or the node was given up, or its id was given to another rank."""
    node = state.job.nodes.get(rank)
    if node is None or node.id != node_id:
        return node_id < state.job.next_id
    return incarnation < node.incarnation or (node.status is NodeStatus.LOST and not may_return(state, node))


def may_return(state: State, node: Node) -> bool:
    """Whether a lost node that speaks again is taken back: it was silent, and its pod runs."""
    pod = state.live.pods.get(node.pod(state.facts.name))
    return node.lost_reason in ("HeartbeatMissed", "AgentNeverCame") and pod is not None and pod.alive


def on_tick(draft: Draft) -> None:
    """Find agents that are silent for too long, and pods whose agent never came."""
    policy, now = draft.policy, draft.now
    pause = now - (draft.live.ticked_at or draft.live.started_at)
    if pause > policy.heartbeat_deadline / 3:  # this process was held up: silence since then isn't the agents'
        pulses = {rank: replace(pulse, seen=pulse.seen + pause) for rank, pulse in draft.live.pulses.items()}
        draft.set_live(pulses=pulses)
    draft.set_live(ticked_at=now)
    for rank, node in sorted(draft.job.nodes.items()):
        pod = draft.live.pods.get(draft.pod(rank))
        pulse = draft.pulse(rank)
        if node.status in (NodeStatus.LIVE, NodeStatus.LEAVING) and node.incarnation:
            since = pulse.seen if pulse else draft.live.started_at
            deadline = policy.heartbeat_deadline if pulse else policy.return_deadline
            if now - since > deadline:
                what = "was silent" if pulse else "didn't come back"
                lose(draft, rank, "HeartbeatMissed", f"{draft.pod(rank)} {what} for {now - since:.0f} s")
        elif node.status is NodeStatus.EXPECTED and pod is not None and pod.phase is PodPhase.RUNNING:
            waited = now - max(node.since, draft.live.started_at)
            if waited > policy.arrival_deadline:
                what = f"pod {pod.name} runs for {waited:.0f} s and no agent registered; does its command start one"
                lose(draft, rank, "AgentNeverCame", f"{what} of ours (dlrover-run, convoy run)?")


def lose(draft: Draft, rank: int, reason: str, message: str, pod: Pod | None = None) -> None:
    """The node is lost: its round ends, what it held is handed out again. One that was leaving just left."""
    node = draft.job.nodes[rank]
    if node.status in (NodeStatus.LOST, NodeStatus.DONE) or draft.job.verdict is not None:
        return
    evidence: dict[str, object] = (
        {} if pod is None else {"exit_code": pod.exit_code, "pod_reason": pod.reason, "host": pod.node}
    )
    left = rounds.has_left(draft, rank)
    draft.act(ReleaseShards(draft.pod(rank)))
    if node.status is not NodeStatus.LEAVING:
        draft.set_node(rank, status=NodeStatus.LOST, lost_reason=reason)
        draft.say(reason, message, rank=rank, **evidence)
    elif not left or reason == "HeartbeatMissed":
        draft.say(reason, f"{message}, while it was leaving", rank=rank, **evidence)
    if draft.round.member(rank) is not None:
        if not left:
            rounds.end(draft, RoundState.ABORTED, "MemberLost", message, faulty=True)
        if draft.round.state is RoundState.ABORTED and not (left and node.status is NodeStatus.LEAVING):
            faults.blame(draft, rank, certain=True)
    draft.drop_pulse(rank)
    if node.status is NodeStatus.LEAVING:
        draft.set_node(rank, incarnation=0)


def _unplanned(draft: Draft, event: AgentRegistered, before: Node | None) -> Node:
    """Take in a pod that no known plan made: the state was lost, or the pod was made by hand."""
    beyond = 0 < draft.job.target <= event.rank
    status = NodeStatus.LEAVING if beyond else NodeStatus.EXPECTED
    node = Node(event.rank, event.node_id, status, since=draft.now, relaunches=before.relaunches if before else 0)
    draft.put_node(node)
    draft.drop_pulse(event.rank)
    draft.set_job(next_id=max(draft.job.next_id, event.node_id + 1))
    return node


def _restarted(draft: Draft, rank: int) -> None:
    """The agent is a new process in the same pod: its workers are gone with the old one."""
    draft.act(ReleaseShards(draft.pod(rank)))
    message = f"the agent of {draft.pod(rank)} was restarted"
    if draft.round.member(rank) is not None and not rounds.has_left(draft, rank):
        rounds.end(draft, RoundState.ABORTED, "AgentRestarted", message, faulty=True)
        if faults.blame(draft, rank, certain=True):
            draft.set_node(rank, restarts=draft.job.nodes[rank].restarts + 1)
            draft.set_job(restarts=draft.job.restarts + 1)
    draft.drop_pulse(rank)


def _rebuild(draft: Draft, pods: tuple[Pod, ...]) -> None:
    """Believe the pods that are there: the state was lost, or the job ran before without one."""
    alive = [pod for pod in pods if pod.role == names.WORKER and pod.alive and pod.rank >= 0 and pod.id >= 0]
    if pods:
        draft.set_job(next_id=max(draft.job.next_id, 1 + max(pod.id for pod in pods)))
    if not alive:
        return
    for pod in sorted(alive, key=lambda one: one.id):
        draft.put_node(Node(pod.rank, pod.id, since=draft.now, relaunches=pod.relaunches))
    target = 1 + max(pod.rank for pod in alive)
    message = f"no state was found; alive: {counted(len(alive), 'pod')}"
    draft.set_job(
        target=target,
        cause=Cause("StateRebuilt", message),
        relaunches=sum(pod.relaunches for pod in alive),
        asked_replicas=draft.state.facts.worker.replicas or 0,
    )
    draft.say("StateRebuilt", message, target=target)
