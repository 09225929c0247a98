"""One job on its way: from epoch to epoch at the speed of its placement, at none while it restarts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from convoy.brain.simulate.application import Application
from convoy.brain.simulate.batch import Batch
from convoy.brain.simulate.placement import Placement, shape, size
from convoy.brain.simulate.policy import JobView, Measurement
from convoy.brain.simulate.truth import Limits, Truth
from convoy.brain.simulate.workload import Submission

DUST = 1e-9
"""Seconds that count as none."""

Chooser = Callable[[JobView, str, int, int], Batch]
"""A policy's ``batch``."""


@dataclass
class Job:
    """What is true of a job at one moment of the simulation.

    Attributes:
        asked: as submitted.
        application: what it runs.
        truth: of its speeds.
        limits: by kind of accelerator.
        placement: now; empty: it isn't running.
        kind: of the placement's accelerators.
        batch: of each replica now.
        now: seconds from zero up to which it was advanced.
        resting: seconds of the restart that are left.
        saved: progress at the last checkpoint, with its epoch.
    """

    asked: Submission
    application: Application
    truth: Truth
    limits: dict[str, Limits]
    placement: Placement = ()
    kind: str = ""
    batch: Batch | None = None
    now: float = 0.0
    resting: float = 0.0
    progress: float = 0.0
    epoch: int = 0
    service: float = 0.0
    restarts: int = 0
    ooms: int = 0
    failures: int = 0
    started: float | None = None
    completed: float | None = None
    gradient: tuple[float, float] | None = None
    measurements: list[Measurement] = field(default_factory=list)
    by_kind: dict[str, float] = field(default_factory=dict)
    _measured: set[tuple[str, int, int, int]] = field(default_factory=set)
    _crashed: bool = False

    def view(self) -> JobView:
        """Return what may be seen of it."""
        asked = self.asked
        return JobView(
            job=asked.job,
            application=asked.application,
            user=asked.user,
            submitted=asked.submitted,
            requested_replicas=asked.replicas,
            requested_batch=asked.global_batch,
            initial_batch=self.application.initial_batch,
            largest_batch=self.application.largest_batch,
            limits=self.limits,
            started=self.started,
            service=self.service,
            restarts=self.restarts,
            epoch=self.epoch,
            epochs=self.application.epochs,
            progress=self.progress,
            work=float(self.application.ends[-1]),
            measurements=tuple(self.measurements),
            gradient=self.gradient,
            resting=self.resting,
        )

    def place(self, placement: Placement, kind: str, restart_seconds: float, chooser: Chooser) -> None:
        """Put it elsewhere, or nowhere: a restart begins."""
        self.placement, self.kind = placement, kind
        self._crashed = False
        if not placement:
            self.batch, self.resting = None, 0.0
            return
        if self.started is None:
            self.started = self.now
        else:
            self.restarts += 1
        self.resting = restart_seconds
        self.rebatch(chooser)

    def rebatch(self, chooser: Chooser) -> None:
        """Let the policy deal the job's samples anew."""
        self.batch = chooser(self.view(), self.kind, len(self.placement), size(self.placement))
        if self.batch.local > self.limits[self.kind].largest_local and not self._crashed:
            self.ooms += 1
            self._crashed = True

    def advance(self, until: float, chooser: Chooser) -> None:
        """Let it run until a time, or until it is complete."""
        if not self.placement or self._crashed:
            self._spend(until - self.now)
            return
        rest = min(self.resting, until - self.now)
        self.resting -= rest
        self._spend(rest)
        while until - self.now > DUST and self.completed is None:
            self._run(until, chooser)

    def _run(self, until: float, chooser: Chooser) -> None:
        """Run to the end of the epoch or of the time."""
        assert self.batch is not None
        replicas, batch = size(self.placement), self.batch
        nodes = shape(self.placement)
        self.gradient = self.application.gradient(batch.samples(replicas), self.epoch)
        self._measure(nodes, replicas, batch.local)
        rate = self.truth.goodput(self.asked.application, self.kind, nodes, batch, self.epoch)
        end = float(self.application.ends[self.epoch])
        needed = (end - self.progress) / rate
        if needed > until - self.now:
            self.progress += rate * (until - self.now)
            self._spend(until - self.now)
            return
        self._spend(max(0.0, needed))
        self.progress = end
        self.epoch += 1
        if self.epoch == self.application.epochs:
            self.completed = self.now
        else:
            self.rebatch(chooser)

    def _measure(self, nodes: tuple[int, ...], replicas: int, local: int) -> None:
        key = (self.kind, len(nodes), replicas, local)
        if key not in self._measured:
            self._measured.add(key)
            step, sync = self.truth.measured(self.asked.job, self.asked.application, self.kind, nodes, local)
            self.measurements.append(Measurement(*key, step, sync))

    def _spend(self, seconds: float) -> None:
        spent = seconds * size(self.placement)
        self.service += spent
        if spent:
            self.by_kind[self.kind] = self.by_kind.get(self.kind, 0.0) + spent
        self.now += seconds

    def lose(self, seconds: float) -> None:
        """Fall back by what was done in the seconds since the last checkpoint; its nodes are gone."""
        self.failures += 1
        if self.batch is not None and not self._crashed:
            nodes = shape(self.placement)
            rate = self.truth.goodput(self.asked.application, self.kind, nodes, self.batch, self.epoch)
            begin = float(self.application.ends[self.epoch - 1]) if self.epoch else 0.0
            self.progress = max(begin, self.progress - rate * seconds)
        self.placement, self.kind, self.batch, self.resting = (), "", None, 0.0
