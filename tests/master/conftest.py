"""A job, and a driver that hands events to the decision one by one and does what it asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from convoy.core.api import names
from convoy.core.api.job import OptimizeMode, ReplicaSpec
from convoy.core.api.plan import PlanPhase
from convoy.core.api.pod import Pod, PodPhase
from convoy.master.decide.actions import (
    Action,
    AnswerJoin,
    CompleteRound,
    Direction,
    SetDirective,
    WriteScalePlan,
)
from convoy.master.decide.core import decide, resume
from convoy.master.decide.directives import direction
from convoy.master.decide.draft import Draft
from convoy.master.decide.events import (
    AgentJoined,
    AgentRegistered,
    AgentReported,
    Event,
    PlanObserved,
    PodObserved,
    PodsListed,
    ProcessFailure,
    Tick,
)
from convoy.master.decide.policy import Policy
from convoy.master.decide.state import (
    Facts,
    GroupState,
    Launcher,
    Live,
    Round,
    State,
    Window,
    dump,
    load,
)

TEMPLATE = {
    "spec": {"containers": [{"name": "main", "image": "i", "command": ["dlrover-run"], "args": ["train.py"]}]}
}


def worker(**fields: Any) -> ReplicaSpec:
    return ReplicaSpec.model_validate({"template": TEMPLATE, **fields})


def pod_of(name: str, rank: int, node_id: int, phase: PodPhase, exit_code: int | None = None, **more: Any) -> Pod:
    return Pod(
        name=name,
        namespace="default",
        uid=f"uid-{node_id}",
        job="job",
        role=names.WORKER,
        id=node_id,
        rank=rank,
        relaunches=0,
        phase=phase,
        exit_code=exit_code,
        **more,
    )


@dataclass
class Agent:
    """What an agent holds; well-behaved."""

    rank: int
    node_id: int
    incarnation: int
    round: int = 0
    group: GroupState = GroupState.IDLE
    step: int = -1
    waiting: bool = False
    direction: Direction | None = None


@dataclass
class Driver:
    """Hands events to the decision, keeps agents and pods as the real ones would be."""

    facts: Facts
    policy: Policy = field(default_factory=Policy)
    launcher: Launcher = field(default_factory=Launcher)
    max_restarts: int = 3
    now: float = 1_000_000.0
    state: State = None  # type: ignore[assignment]
    agents: dict[int, Agent] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    log: list[Action] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    created: list[str] = field(default_factory=list)
    calls: int = 0
    step: int = -1
    deaf: bool = False  # what is decided is persisted, and the master dies before it does any of it
    check: Callable[[Event, State], None] | None = None

    def __post_init__(self) -> None:
        self.state = State(self.facts, live=Live(started_at=self.now))
        self.post(PodsListed(()))

    def post(self, event: Event, *, carry_out: bool = True) -> tuple[Action, ...]:
        decided = decide(self.state, event, self.now, self.policy)
        before, self.state = self.state, decided.state
        if self.check is not None:
            self.check(event, before)
        self.log.extend(decided.actions)
        for action in decided.actions:
            self._do(action, carry_out)
        return decided.actions

    def _do(self, action: Action, carry_out: bool) -> None:
        if self.deaf:
            return
        if isinstance(action, CompleteRound):
            self.rounds.append(action.round)
            for member in action.round.members:
                self._answer(member.rank, action.round)
        elif isinstance(action, AnswerJoin):
            self._answer(action.rank, action.round)
        elif isinstance(action, SetDirective) and action.rank in self.agents:
            self.agents[action.rank].direction = action.direction
        elif isinstance(action, WriteScalePlan) and carry_out:
            self.carry_out(action)

    def _answer(self, rank: int, round_: Round) -> None:
        agent = self.agents.get(rank)
        if agent is not None and agent.waiting:
            agent.waiting, agent.round, agent.group = False, round_.number, GroupState.IDLE

    def carry_out(self, action: WriteScalePlan) -> None:
        """What the operator does."""
        plan = action.plan
        for order in plan.remove:
            self.end_pod(order.name)
        for order in plan.create:
            if order.name not in self.pods:
                self.created.append(order.name)
                self.pods[order.name] = pod_of(order.name, order.rank, order.id, PodPhase.RUNNING)
        self.post(PlanObserved(plan.name, PlanPhase.SUCCEEDED))
        for order in plan.create:
            if order.name in self.pods:
                self.post(PodObserved(self.pods[order.name]))

    def end_pod(self, name: str) -> None:
        pod = self.pods.get(name)
        if pod is not None and not pod.phase.is_over:
            self.kill(pod.rank, only=name)

    def kill(self, rank: int, *, only: str | None = None, code: int = 137) -> None:
        """A node dies, agent and all."""
        for name, pod in list(self.pods.items()):
            if pod.rank == rank and not pod.phase.is_over and only in (None, name):
                agent = self.agents.get(rank)
                if agent is not None and agent.node_id == pod.id:
                    del self.agents[rank]
                self.pods[name] = replace(pod, phase=PodPhase.FAILED, exit_code=code)
                self.post(PodObserved(self.pods[name]))

    def agent(self, rank: int, *, incarnation: int | None = None) -> Agent:
        """The rank's agent starts, registers and joins."""
        node = self.state.job.nodes[rank]
        self.calls += 1
        agent = Agent(rank, node.id, incarnation or 1000 * node.id + self.calls)
        self.agents[rank] = agent
        self.register(rank)
        self.join(rank)
        return agent

    def register(self, rank: int) -> None:
        agent = self.agents[rank]
        held = agent.round if agent.group is GroupState.RUNNING else 0
        self.post(
            AgentRegistered(
                rank, agent.node_id, agent.incarnation, f"host{rank}", 1, self.max_restarts, self.launcher, held, -1
            )
        )
        agent.direction = direction(Draft(self.state, self.now, self.policy), rank)

    def join(self, rank: int) -> None:
        agent = self.agents[rank]
        agent.waiting, agent.group = True, GroupState.IDLE
        self.calls += 1
        self.post(
            AgentJoined(
                rank, agent.node_id, agent.incarnation, f"host{rank}", 4000 + rank, 1, agent.round, self.calls
            )
        )

    def report(self, rank: int, group: GroupState | None = None, **more: Any) -> tuple[Action, ...]:
        agent = self.agents[rank]
        if group is not None:
            agent.group = group
        return self.post(
            AgentReported(rank, agent.node_id, agent.incarnation, agent.round, agent.group, agent.step, **more)
        )

    def run(self, *ranks: int, steps: int = 1) -> None:
        """The workers of the round's members run and finish steps."""
        self.step += steps
        for rank in ranks or tuple(sorted(self.agents)):
            agent = self.agents[rank]
            if not agent.waiting and agent.round == self.state.job.round.number:
                agent.step = self.step
                self.report(rank, GroupState.RUNNING)

    def fail(self, rank: int, exit_code: int = 1, *, peer_lost: bool = False) -> tuple[Action, ...]:
        return self.report(rank, GroupState.FAILED, failure=ProcessFailure(0, exit_code, peer_lost, "last words"))

    def obey(self) -> None:
        """Each agent does what its directive says, and joins again where it left a round."""
        for rank, agent in sorted(self.agents.items()):
            told = agent.direction
            if told is None or rank not in self.agents:
                continue
            if told.order == "STOP":
                del self.agents[rank]
                name = names.pod("job", "worker", agent.node_id)
                phase = PodPhase.SUCCEEDED if told.exit_code == 0 else PodPhase.FAILED
                self.pods[name] = replace(self.pods[name], phase=phase, exit_code=told.exit_code)
                self.post(PodObserved(self.pods[name]))
            elif told.order in ("YIELD", "ABORT") and told.round == agent.round and not agent.waiting:
                if agent.group is GroupState.RUNNING:
                    self.report(rank, GroupState.YIELDED if told.order == "YIELD" else GroupState.IDLE)
                self.join(rank)
            elif agent.group in (GroupState.FAILED, GroupState.YIELDED) and not agent.waiting:
                self.join(rank)

    def tick(self, seconds: float = 0.25, *, heartbeats: bool = True) -> None:
        self.now += seconds
        if heartbeats:
            for rank in sorted(self.agents):
                self.report(rank)
        self.post(Tick())

    def windows(
        self, speed: float, count: int = 1, *, warming: bool = False, seconds: float = 2.0, batch: int = 64
    ) -> None:
        """Rank 0 reports windows of that speed."""
        for _ in range(count):
            self.now += seconds
            self.step += 1
            round_ = self.state.job.round
            size = len(round_.members)
            window = Window(
                self.now, seconds, self.step, self.step, speed * seconds, size, size, batch, round_.number, warming
            )
            for rank in sorted(self.agents):
                self.agents[rank].step = self.step
                self.report(rank, windows=(window,) if rank == round_.ranks[0] else ())
            self.post(Tick())

    def crash_master(self) -> None:
        """The master dies; the next one has what was persisted, what agents hold, and the pods that are there."""
        job = load(dump(self.state.job))
        self.state = State(self.facts, replace(job, epoch=job.epoch + 1), Live(started_at=self.now))
        for action in resume(self.state, self.now, self.policy):
            self._do(action, True)
        self.post(PodsListed(tuple(self.pods.values())))
        for rank in sorted(self.agents):
            agent = self.agents[rank]
            waiting = agent.waiting
            self.register(rank)
            if waiting:
                self.join(rank)

    def said(self) -> list[str]:
        return [action.reason for action in self.log if hasattr(action, "evidence")]

    def told(self, rank: int) -> str:
        direction = self.agents[rank].direction
        return str(direction.order) if direction else ""


@pytest.fixture(scope="session")
def new_driver() -> Callable[..., Driver]:
    """Makes a driver: ``new_driver(replicas=2, max_replicas=4, mode=OptimizeMode.CLUSTER, brain=True)``."""

    def make(
        *,
        mode: OptimizeMode = OptimizeMode.MANUAL,
        brain: bool = False,
        pinned: bool = False,
        launcher: Launcher | None = None,
        max_restarts: int = 3,
        policy: Policy | None = None,
        most_allowed: int | None = None,
        **fields: Any,
    ) -> Driver:
        facts = Facts("job", "default", "uid", worker(**fields), mode, brain, pinned, most_allowed=most_allowed)
        return Driver(facts, policy or Policy(), launcher or Launcher(), max_restarts)

    return make


@pytest.fixture(scope="session")
def start(new_driver: Callable[..., Driver]) -> Callable[..., Driver]:
    """Makes a driver whose nodes all run in round 1 and have finished a step."""

    def make(**fields: Any) -> Driver:
        driver = new_driver(**fields)
        for rank in sorted(driver.state.job.nodes):
            driver.agent(rank)
        driver.run()
        assert driver.state.job.round.number == 1
        return driver

    return make
