"""Most accelerators of each user, held before a policy sees any job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from convoy.brain.simulate.batch import Batch
from convoy.brain.simulate.cluster import Cluster
from convoy.brain.simulate.placement import Placement
from convoy.brain.simulate.policy import JobView, Policy


class WithQuotas:
    """A policy that sees, of each user with a quota, only jobs that fit in it together.

    A user's jobs are let in by submission while what they ask for fits; a job that asks for more than the quota
    counts as one that asks for all of it. What is left over lets the first of them grow; the others get at most what
    they ask for.
    """

    def __init__(self, policy: Policy, quotas: Mapping[str, int]) -> None:
        """Take the policy, and accelerators by user, each at least 1."""
        self._policy = policy
        self._quotas = quotas

    def batch(self, job: JobView, kind: str, nodes: int, replicas: int) -> Batch:
        """Return the policy's batch."""
        return self._policy.batch(job, kind, nodes, replicas)

    def allocate(
        self, now: float, jobs: Sequence[JobView], cluster: Cluster, previous: Mapping[str, Placement]
    ) -> Mapping[str, Placement]:
        """Return the policy's answer to the jobs that are let in."""
        let = self.admitted(jobs)
        return self._policy.allocate(
            now, let, cluster, {job.job: previous[job.job] for job in let if job.job in previous}
        )

    def admitted(self, jobs: Sequence[JobView]) -> list[JobView]:
        """Return the jobs that are let in, their limits within the quota."""
        left = dict(self._quotas)
        asked: dict[str, int] = {}
        for job in jobs:
            wanted = min(job.requested_replicas, self._quotas.get(job.user, job.requested_replicas))
            if wanted <= left.get(job.user, wanted):
                asked[job.job] = wanted
                if job.user in left:
                    left[job.user] -= wanted
        let = []
        for job in jobs:
            if job.job not in asked:
                continue
            if job.user in left:
                job = _limited(job, asked[job.job] + left[job.user])
                left[job.user] = 0
            let.append(job)
        return let


def _limited(job: JobView, most: int) -> JobView:
    limits = {kind: replace(one, most=min(one.most, most)) for kind, one in job.limits.items()}
    return replace(job, limits=limits)
