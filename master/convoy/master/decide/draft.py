"""The state under decision: small changes are made on it, and it remembers what is to be done and why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from convoy.master.decide.actions import Action, Explain, FinishJob
from convoy.master.decide.policy import Policy
from convoy.master.decide.state import JobState, Live, Node, NodeStatus, Pulse, Round, State, Verdict


class Draft:
    """One decision in the making. Setting a field to the value that it has leaves the state as it is."""

    def __init__(self, state: State, now: float, policy: Policy) -> None:
        self.state = state
        self.now = now
        self.policy = policy
        self.actions: list[Action] = []

    @property
    def job(self) -> JobState:
        """The durable part as it stands."""
        return self.state.job

    @property
    def live(self) -> Live:
        """The live part as it stands."""
        return self.state.live

    @property
    def round(self) -> Round:
        """The last round as it stands."""
        return self.state.job.round

    def set_job(self, **changes: Any) -> None:
        """Change fields of the durable part."""
        if any(getattr(self.job, name) != value for name, value in changes.items()):
            self.state = replace(self.state, job=replace(self.job, **changes))

    def set_live(self, **changes: Any) -> None:
        """Change fields of the live part."""
        self.state = replace(self.state, live=replace(self.live, **changes))

    def set_round(self, **changes: Any) -> None:
        """Change fields of the round."""
        self.set_job(round=replace(self.round, **changes))

    def put_node(self, node: Node) -> None:
        """Put the node in its rank's place."""
        self.set_job(nodes={**self.job.nodes, node.rank: node})

    def set_node(self, rank: int, **changes: Any) -> Node:
        """Change fields of the node of that rank; a new status has its time."""
        node = self.job.nodes[rank]
        if changes.get("status", node.status) is not node.status:
            changes.setdefault("since", self.now)
        node = replace(node, **changes)
        self.put_node(node)
        return node

    def drop_node(self, rank: int) -> None:
        """Forget the node of that rank."""
        self.set_job(nodes={known: node for known, node in self.job.nodes.items() if known != rank})
        self.drop_pulse(rank)

    def pulse(self, rank: int) -> Pulse | None:
        """Return what was last heard of the rank from its present agent, None where nothing was."""
        return self.live.pulses.get(rank)

    def set_pulse(self, rank: int, **changes: Any) -> None:
        """Change what was heard of the rank."""
        pulse = replace(self.live.pulses.get(rank) or Pulse(seen=self.now), **changes)
        self.set_live(pulses={**self.live.pulses, rank: pulse})

    def drop_pulse(self, rank: int) -> None:
        """Forget what was heard of the rank."""
        if rank in self.live.pulses:
            self.set_live(pulses={known: pulse for known, pulse in self.live.pulses.items() if known != rank})

    def pod(self, rank: int) -> str:
        """Return the name of the pod that holds the rank, empty where none does."""
        node = self.job.nodes.get(rank)
        return node.pod(self.state.facts.name) if node else ""

    def live_ranks(self) -> list[int]:
        """Return the ranks whose agents are believed to run, in order."""
        return sorted(rank for rank, node in self.job.nodes.items() if node.status is NodeStatus.LIVE)

    def waiting_ranks(self) -> list[int]:
        """Return the live ranks that wait for the next round, in order."""
        return [rank for rank in self.live_ranks() if (pulse := self.pulse(rank)) and pulse.waiting]

    def act(self, action: Action) -> None:
        """Have the edge do it."""
        self.actions.append(action)

    def say(self, reason: str, message: str, *, rank: int | None = None, **evidence: Any) -> None:
        """Explain a decision; ``evidence`` holds the numbers behind it."""
        shown = {name: f"{value:.6g}" if isinstance(value, float) else str(value) for name, value in evidence.items()}
        pod = "" if rank is None else self.pod(rank)
        self.act(Explain(reason, message, pod, self.round.number, self.live.step, shown))

    def finish(self, succeeded: bool, reason: str, message: str, **evidence: Any) -> None:
        """End the job, once."""
        if self.job.verdict is None:
            verdict = Verdict("Succeeded" if succeeded else "Failed", reason, message, self.now)
            self.set_job(verdict=verdict, plan=None)
            self.say(reason, message, **evidence)
            self.act(FinishJob(verdict))
