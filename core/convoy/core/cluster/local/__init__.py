"""One machine as a cluster: objects in SQLite, pods as processes.

    open_cluster    the cluster port's adapter on a state directory
    LocalKubelet    starts and ends the pods' processes; runs inside the operator

Nothing heavy is imported here: each pod's shim passes through this package when it starts.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from convoy.core.cluster.local.adapter import LocalCluster
    from convoy.core.cluster.local.kubelet import LocalKubelet

__all__ = ["LocalCluster", "LocalKubelet", "open_cluster"]


def open_cluster(state_dir: Path) -> LocalCluster:
    """Open the cluster of a state directory, and make it if it isn't there.

    Raises:
        Unusable: the directory can't be written.
        StateError: what is there is not a cluster, or a newer version wrote it.
    """
    from convoy.core.cluster.local.adapter import LocalCluster

    return LocalCluster.open(state_dir)


def __getattr__(name: str) -> Any:
    if name == "LocalCluster":
        from convoy.core.cluster.local.adapter import LocalCluster

        return LocalCluster
    if name == "LocalKubelet":
        from convoy.core.cluster.local.kubelet import LocalKubelet

        return LocalKubelet
    raise AttributeError(name)
