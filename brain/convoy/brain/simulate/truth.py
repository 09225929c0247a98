"""How fast jobs really run in a simulated cluster, and what of it is measured."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from convoy.brain.simulate.application import Application
from convoy.brain.simulate.batch import Batch
from convoy.brain.simulate.speeds import Shape, Speeds


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program can use on one kind of accelerator.

    Attributes:
        smallest_local, largest_local: samples of a micro-batch.
        most: accelerators of one job.
    """

    smallest_local: int
    largest_local: int
    most: int


@dataclass(frozen=True)
class Truth:
    """Speeds and statistical efficiency of all programs of a workload. Only the engine and oracles see it.

    Attributes:
        applications: by name.
        speeds: by (application, kind of accelerator).
        noise: whether measurements scatter about the truth as replicates of the table do.
        seed: of that scatter.
    """

    applications: Mapping[str, Application]
    speeds: Mapping[tuple[str, str], Speeds]
    noise: bool = True
    seed: int = 0

    def application(self, name: str) -> Application:
        """Return a program."""
        return self.applications[name]

    def runs_on(self, application: str, kind: str) -> bool:
        """Return whether a program's speed on a kind of accelerator is known."""
        return (application, kind) in self.speeds

    def limits(self, application: str, kind: str) -> Limits:
        """Return what a program can use of a kind on which it runs."""
        table = self.speeds[application, kind]
        return Limits(table.smallest_local, table.largest_local, table.most)

    def step(self, application: str, kind: str, shape: Shape, local: int) -> tuple[float, float]:
        """Return the seconds of a micro-step with synchronization, and the part of them that synchronizes."""
        return self.speeds[application, kind].step(shape, local)

    def step_seconds(self, application: str, kind: str, shape: Shape, batch: Batch) -> float:
        """Return the seconds of a whole step: micro-steps before the last one don't synchronize."""
        step, sync = self.step(application, kind, shape, batch.local)
        return step + (step - sync) * (batch.accumulation - 1)

    def goodput(self, application: str, kind: str, shape: Shape, batch: Batch, epoch: int) -> float:
        """Return progress a second, in steps of the initial batch."""
        worth = self.applications[application].gain(batch.samples(sum(shape)), epoch)
        return worth / self.step_seconds(application, kind, shape, batch)

    def measured(self, job: str, application: str, kind: str, shape: Shape, local: int) -> tuple[float, float]:
        """Return what a job measures: ``step`` with a replicate's scatter, the same under all policies."""
        step, sync = self.step(application, kind, shape, local)
        if not self.noise:
            return step, sync
        key = f"{job}/{kind}/{len(shape)}/{sum(shape)}/{local}".encode()
        scatter = np.random.default_rng([self.seed, zlib.crc32(key)]).standard_normal()
        factor = float(np.exp(self.speeds[application, kind].noise * scatter))
        return step * factor, sync * factor
