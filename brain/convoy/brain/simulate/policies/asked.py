"""What a job's user asks for, made to fit the cluster."""

from __future__ import annotations

from dataclasses import dataclass

from convoy.brain.simulate.cluster import Cluster
from convoy.brain.simulate.policy import JobView


@dataclass(frozen=True, slots=True)
class Asked:
    """A fixed wish.

    Attributes:
        kind: of accelerator.
        replicas: of them; what is asked for, or as many as the cluster has and the program can use.
    """

    kind: str
    replicas: int


def asked(job: JobView, cluster: Cluster, left: dict[str, int] | None = None) -> Asked | None:
    """Return what a job asks for.

    Users name no kind of accelerator: it is the first of the cluster's kinds that can hold all of the job, or the one
    with most accelerators free.

    Args:
        job: that asks.
        cluster: nodes that work.
        left: free accelerators by kind; None: all.

    Returns:
        The wish; None where no node that the job can use works.
    """
    kinds = [kind for kind in cluster.kinds if kind in job.limits]
    if not kinds:
        return None
    room = {kind: min(cluster.capacity(kind), job.limits[kind].most) for kind in kinds}
    kind = max(kinds, key=lambda one: (min(room[one], job.requested_replicas), (left or room).get(one, 0)))
    return Asked(kind, min(job.requested_replicas, room[kind]))
