"""Where a master works: its cluster, and where its state lies there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

from convoy.core.api.meta import ObjectMeta
from convoy.core.cluster.platform import Platform
from convoy.core.cluster.port import Cluster
from convoy.core.process import paths
from convoy.master.durable import FileStore, StateStore
from convoy.master.durable_in_cluster import ConfigMapStore
from convoy.master.settings import MasterSettings

Stores = Callable[[ObjectMeta], StateStore]
"""Gives the place of a job's state."""


@contextmanager
def surroundings(settings: MasterSettings) -> Iterator[tuple[Cluster, Stores]]:
    """Open the cluster; where the job's pods share no folder, state lies in the cluster.

    Raises:
        Unusable: the cluster can't be used.
    """
    with ExitStack() as opened:
        cluster: Cluster
        if settings.platform is Platform.LOCAL:
            from convoy.core.cluster import local

            cluster = opened.enter_context(local.open_cluster(settings.state_dir))
        else:
            from convoy.core.cluster import kubernetes

            cluster = opened.enter_context(closing(kubernetes.open_cluster()))
        made: dict[str, StateStore] = {}
        yield cluster, lambda job: made.get(job.uid) or made.setdefault(job.uid, _store(settings, cluster, job))


def _store(settings: MasterSettings, cluster: Cluster, job: ObjectMeta) -> StateStore:
    if settings.platform is Platform.KUBERNETES and settings.job_dir is None:
        return ConfigMapStore(cluster, job)
    shared = settings.job_dir or paths.job_dir(settings.state_dir, job.namespace, job.name, job.uid)
    return FileStore(shared / "master")
