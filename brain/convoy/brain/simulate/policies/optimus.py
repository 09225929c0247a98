"""Optimus with an oracle: accelerators go where they take most time off a job (Peng et al., EuroSys 2018).

The oracle knows true step times and how many steps each job still needs, as in the study of Pollux.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from convoy.brain.simulate.cluster import Cluster
from convoy.brain.simulate.placement import Placement, free, spread
from convoy.brain.simulate.policy import JobView, RequestedBatch, Surroundings, requested_batch
from convoy.brain.simulate.truth import Truth


class OptimusOracle(RequestedBatch):
    """Greedy marginal gains.

    Each job gets one accelerator while there are any, in the order of submission; the rest go one by one to the job
    whose remaining time shrinks most by one more. A job whose number stays the same stays where it is. On a cluster
    of several kinds a job keeps to the kind that it was first given: the one with most accelerators free.
    """

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._kind: dict[str, str] = {}
        self._seconds: dict[tuple[str, str, int, float, int], float] = {}

    def allocate(
        self, now: float, jobs: Sequence[JobView], cluster: Cluster, previous: Mapping[str, Placement]
    ) -> Mapping[str, Placement]:
        """Return placements of the greedily chosen sizes."""
        self._settle(jobs, cluster)
        answer: dict[str, Placement] = {}
        for kind in cluster.kinds:
            mine = [job for job in jobs if self._kind.get(job.job) == kind]
            sizes = self._sizes(mine, kind, cluster)
            part = Cluster(cluster.by_kind[kind])
            answer |= _place(sizes, part, previous)
        return answer

    def _settle(self, jobs: Sequence[JobView], cluster: Cluster) -> None:
        """Give each new job a kind."""
        held = dict.fromkeys(cluster.kinds, 0)
        for job in jobs:
            if self._kind.get(job.job) in held:
                held[self._kind[job.job]] += 1
        for job in jobs:
            kinds = [kind for kind in cluster.kinds if kind in job.limits]
            if self._kind.get(job.job) in held or not kinds:
                continue
            kind = max(kinds, key=lambda one: cluster.capacity(one) / (1 + held[one]))
            self._kind[job.job] = kind
            held[kind] += 1

    def _sizes(self, jobs: Sequence[JobView], kind: str, cluster: Cluster) -> dict[str, int]:
        left = cluster.capacity(kind)
        sizes, gains = {}, {}
        for job in jobs:
            sizes[job.job] = min(1, left)
            left -= sizes[job.job]
            gains[job.job] = self._gain(job, kind, sizes[job.job], left, cluster)
        by_name = {job.job: job for job in jobs}
        while left > 0 and gains:
            name = max(gains, key=lambda one: gains[one])
            if gains[name] <= 0:
                break
            sizes[name] += 1
            left -= 1
            gains[name] = self._gain(by_name[name], kind, sizes[name], left, cluster)
        return sizes

    def _gain(self, job: JobView, kind: str, replicas: int, left: int, cluster: Cluster) -> float:
        """Return the seconds that one more accelerator saves."""
        limits = job.limits[kind]
        most = min(limits.most, int(job.requested_batch // limits.smallest_local))
        if not replicas or left < 1 or replicas + 1 > most:
            return 0.0
        now, then = (self._step(job, kind, n, cluster.per_node(kind)) for n in (replicas, replicas + 1))
        return (now - then) * self._remaining(job)

    def _step(self, job: JobView, kind: str, replicas: int, per_node: int) -> float:
        key = (job.application, kind, replicas, job.requested_batch, per_node)
        if key not in self._seconds:
            full, rest = divmod(replicas, per_node)
            shape = tuple(sorted([per_node] * full + [rest] * (rest > 0)))
            batch = requested_batch(job, kind, replicas)
            self._seconds[key] = self._truth.step_seconds(job.application, kind, shape, batch)
        return self._seconds[key]

    def _remaining(self, job: JobView) -> float:
        """Return the steps until the last epoch begins, at least one: as the study of Pollux counts them."""
        application = self._truth.application(job.application)
        last = job.epochs - 1
        if job.epoch >= last:
            return 1.0
        return application.steps_to(job.requested_batch, last + 1) - application.steps_to(
            job.requested_batch, job.epoch + 1
        )


def _place(sizes: Mapping[str, int], cluster: Cluster, previous: Mapping[str, Placement]) -> dict[str, Placement]:
    """Return placements of some sizes: small jobs first, each from the emptiest nodes."""
    kept = {
        name: previous[name]
        for name, count in sizes.items()
        if name in previous and sum(held for _, held in previous[name]) == count
    }
    left = free(cluster, kept.values())
    for name in sorted(sizes, key=lambda one: sizes[one]):
        if name not in kept and sizes[name]:
            kept[name] = spread(left, sizes[name])
    return kept


def build(surroundings: Surroundings) -> OptimusOracle:
    """Return the policy, with the truth."""
    return OptimusOracle(surroundings.truth)
