"""The simulation itself: arrivals, decisions, failures and completions, in the order of their times.

Between two such events no job's placement changes, so each job is advanced on its own, from the end of one epoch to
the next: exact at any interval, and nothing is done for seconds in which nothing happens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from convoy.brain.simulate.cluster import Cluster
from convoy.brain.simulate.failures import Failures
from convoy.brain.simulate.outcome import JobOutcome, Outcome
from convoy.brain.simulate.placement import Placement, kind_of, size
from convoy.brain.simulate.policy import Policy
from convoy.brain.simulate.progress import Job
from convoy.brain.simulate.truth import Truth
from convoy.brain.simulate.workload import Submission
from convoy.core.api.errors import ConvoyError, DeadlineMissed, InvalidInput

Tell = Callable[[float, int, int], None]
"""Told the simulated seconds, the jobs that are complete, and all jobs."""


class BadAllocation(ConvoyError):
    """A policy's answer can't be carried out."""

    reason = "BadAllocation"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a simulation runs.

    Attributes:
        interval: seconds between decisions.
        restart_seconds: at no speed after each change of a job's placement, the first included.
        failures: of nodes; None: none fails.
        patience: seconds without any job's progress after which the simulation is given up.
    """

    interval: float = 60.0
    restart_seconds: float = 30.0
    failures: Failures | None = None
    patience: float = 14 * 86400.0


def simulate(
    name: str,
    policy: Policy,
    workload: Sequence[Submission],
    cluster: Cluster,
    truth: Truth,
    settings: Settings,
    tell: Tell | None = None,
) -> Outcome:
    """Run a workload to its end.

    Args:
        name: the policy's, for the outcome.
        policy: decides; not used before.
        workload: at least one job, names unique.
        cluster: at least one node.
        truth: knows each job's application on at least one kind of the cluster's nodes.
        settings: of the run.
        tell: is told after each decision.

    Raises:
        InvalidInput: a job's application isn't known on any node type of the cluster.
        BadAllocation: the policy hands out what there isn't.
        DeadlineMissed: no job made progress for ``settings.patience`` seconds.
    """
    run = _Run(policy, workload, cluster, truth, settings)
    run.to_the_end(tell)
    return Outcome(name, cluster, tuple(_outcome(job) for job in run.jobs), run.decisions)


class _Run:
    def __init__(
        self, policy: Policy, workload: Sequence[Submission], cluster: Cluster, truth: Truth, settings: Settings
    ) -> None:
        self.policy, self.cluster, self.settings = policy, cluster, settings
        self.jobs = [_job(asked, cluster, truth) for asked in workload]
        self.waiting = sorted(self.jobs, key=lambda job: job.asked.submitted)[::-1]
        self.active: dict[str, Job] = {}
        self.decisions = 0
        self.now = 0.0
        self.down: set[int] = set()
        self._events = settings.failures.timeline(cluster) if settings.failures else iter(())
        self._event = next(self._events, None)
        self._moved = 0.0

    def to_the_end(self, tell: Tell | None) -> None:
        """Decide and advance until all jobs are complete."""
        interval = self.settings.interval
        while self.waiting or self.active:
            if not self.active:
                first = max(self.now, self.waiting[-1].asked.submitted)
                self._advance(max(self.now, math.ceil(first / interval) * interval))
                self._moved = self.now
            while self.waiting and self.waiting[-1].asked.submitted <= self.now:
                job = self.waiting.pop()
                job.now = self.now
                self.active[job.asked.job] = job
            self._decide()
            self._advance((math.floor(self.now / interval + 1e-9) + 1) * interval)
            self.active = {name: job for name, job in self.active.items() if job.completed is None}
            if tell:
                tell(self.now, len(self.jobs) - len(self.waiting) - len(self.active), len(self.jobs))
            self._watch()

    def _decide(self) -> None:
        working = self.cluster.without(self.down)
        previous = {name: job.placement for name, job in self.active.items() if job.placement}
        answer = self.policy.allocate(self.now, [job.view() for job in self.active.values()], working, previous)
        check(answer, self.active, working)
        self.decisions += 1
        for name, job in self.active.items():
            placement = answer.get(name, ())
            if placement == job.placement:
                if placement:
                    job.rebatch(self.policy.batch)
                continue
            kind = kind_of(placement, working) if placement else ""
            job.place(placement, kind, self.settings.restart_seconds, self.policy.batch)

    def _advance(self, until: float) -> None:
        while self._event is not None and self._event[0] <= until:
            time, node, works, lost = self._event
            self._each_to(time)
            self.down = self.down - {node} if works else self.down | {node}
            for job in self.active.values():
                if not works and job.completed is None and any(place == node for place, _ in job.placement):
                    job.lose(lost)
            self._event = next(self._events, None)
        self._each_to(until)

    def _each_to(self, until: float) -> None:
        for job in self.active.values():
            if job.completed is None:
                before = job.progress
                job.advance(until, self.policy.batch)
                if job.progress > before:
                    self._moved = until
        self.now = until

    def _watch(self) -> None:
        if self.active and self.now - self._moved > self.settings.patience:
            stuck = ", ".join(sorted(self.active)[:5])
            raise DeadlineMissed(
                f"no job made progress for {self.settings.patience:.0f} simulated seconds, and "
                f"{len(self.active)} of {len(self.jobs)} wait ({stuck}): the policy gives them nothing; "
                "ask for a larger cluster or another policy",
                reason="SimulationStuck",
            )


def check(answer: Mapping[str, Placement], jobs: Mapping[str, Job], cluster: Cluster) -> None:
    """Check that what a policy hands out is there.

    Raises:
        BadAllocation: it isn't.
    """
    used: dict[int, int] = {}
    for name, placement in answer.items():
        if name not in jobs:
            raise BadAllocation(f"{name}: the policy places a job that isn't waiting or running")
        for node, count in placement:
            if node not in cluster.by_index or count < 1:
                raise BadAllocation(
                    f"{name}: {count} accelerators on node {node}: no such node works, or none wanted"
                )
            used[node] = used.get(node, 0) + count
        kinds = {cluster.by_index[node].kind for node, _ in placement}
        limits = [jobs[name].limits.get(kind) for kind in kinds]
        if len(kinds) > 1 or any(limit is None or size(placement) > limit.most for limit in limits):
            raise BadAllocation(f"{name}: {size(placement)} accelerators on {', '.join(sorted(kinds))} can't be used")
    over = [node for node, count in used.items() if count > cluster.by_index[node].accelerators]
    if over:
        raise BadAllocation(
            f"node {over[0]}: {used[over[0]]} of {cluster.by_index[over[0]].accelerators} accelerators used"
        )


def _job(asked: Submission, cluster: Cluster, truth: Truth) -> Job:
    kinds = [kind for kind in cluster.kinds if truth.runs_on(asked.application, kind)]
    if not kinds:
        raise InvalidInput(
            f"{asked.job}: the speed of {asked.application} isn't known on {', '.join(cluster.kinds)}; "
            "add its rows to the table of speeds, or nodes of a type that has them"
        )
    limits = {kind: truth.limits(asked.application, kind) for kind in kinds}
    return Job(asked, truth.application(asked.application), truth, limits)


def _outcome(job: Job) -> JobOutcome:
    assert job.started is not None
    assert job.completed is not None
    return JobOutcome(
        job=job.asked.job,
        application=job.asked.application,
        user=job.asked.user,
        submitted=job.asked.submitted,
        started=job.started,
        completed=job.completed,
        restarts=job.restarts,
        gpu_seconds=dict(job.by_kind),
        ooms=job.ooms,
        failures=job.failures,
    )
