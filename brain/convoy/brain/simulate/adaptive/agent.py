"""The part of Pollux that runs with each job: it fits the job's step time and deals its samples for most goodput."""

from __future__ import annotations

from convoy.brain.simulate.adaptive.goodput import Goodput
from convoy.brain.simulate.adaptive.steps import StepModel, fit
from convoy.brain.simulate.batch import Batch, dealt
from convoy.brain.simulate.policy import JobView, Measurement


class Agents:
    """One for all jobs of a policy that lets jobs choose their batch.

    A job is fitted anew once a decision, where it has measured something since; the first fit doesn't wait.
    """

    def __init__(self, *, by_kind: bool) -> None:
        """Take whether each kind of accelerator has its own fit, or they count as one."""
        self._by_kind = by_kind
        self._fits: dict[tuple[str, str], tuple[int, StepModel]] = {}
        self._batches: dict[str, tuple[tuple[Goodput, int, int], Batch]] = {}

    def goodput(self, job: JobView, kind: str, *, fresh: bool) -> Goodput | None:
        """Return what a job expects of itself on a kind; None: it has measured nothing there.

        Args:
            job: as seen now.
            kind: of accelerator.
            fresh: fit what was measured since the last fit too.
        """
        steps = self._steps(job, kind, fresh)
        if steps is None or job.gradient is None:
            return None
        limits = job.limits[kind]
        return Goodput(
            steps, job.gradient, job.initial_batch, job.largest_batch, limits.smallest_local, limits.largest_local
        )

    def batch(self, job: JobView, kind: str, nodes: int, replicas: int) -> Batch:
        """Return the batch of most goodput; before any measurement the initial or least one."""
        expected = self.goodput(job, kind, fresh=False)
        if expected is not None:
            key = (expected, nodes, replicas)
            if job.job not in self._batches or self._batches[job.job][0] != key:
                self._batches[job.job] = (key, expected.batch(nodes, replicas))
            return self._batches[job.job][1]
        limits = job.limits[kind]
        return dealt(
            max(job.initial_batch, limits.smallest_local * replicas),
            replicas,
            initial=job.initial_batch,
            largest=job.largest_batch,
            largest_local=limits.largest_local,
        )

    def seen(self, job: JobView, kind: str) -> list[Measurement]:
        """Return the measurements that count for a kind."""
        return [one for one in job.measurements if one.kind == kind or not self._by_kind]

    def _steps(self, job: JobView, kind: str, fresh: bool) -> StepModel | None:
        key = (job.job, kind if self._by_kind else "")
        if key in self._fits and (not fresh or self._fits[key][0] == len(job.measurements)):
            return self._fits[key][1]
        seen = self.seen(job, kind)
        if not seen:
            return None
        self._fits[key] = (len(job.measurements), fit(seen))
        return self._fits[key][1]
