"""A Kubernetes cluster: the cluster port on its API.

    open_cluster    the adapter, by a kubeconfig or from inside a pod
    open_reader     its reading half, for who may read alone

Both need the package ``kubernetes`` (``pip install 'convoy-train[kubernetes]'``), which is imported when a cluster is
opened, not before.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from convoy.core.api.errors import Unusable

if TYPE_CHECKING:
    from convoy.core.cluster.kubernetes.cluster import KubernetesCluster
    from convoy.core.cluster.kubernetes.reader import KubernetesReader

__all__ = ["KubernetesCluster", "KubernetesReader", "open_cluster", "open_reader"]


def open_cluster(kubeconfig: Path | None = None, context: str | None = None) -> KubernetesCluster:
    """Return the cluster that a kubeconfig's context names; nothing is sent before its first use.

    Looked for, in this order: ``kubeconfig``; the variable ``KUBECONFIG``; ``~/.kube/config``; the service account of
    the pod that this process runs in. ``context`` is one of the kubeconfig, by default its current one.

    Raises:
        Unusable: the package ``kubernetes`` is missing, or no configuration is there, or it can't be used.
    """
    _require_package()
    from convoy.core.cluster.kubernetes.cluster import KubernetesCluster

    return KubernetesCluster.open(kubeconfig, context)


def open_reader(kubeconfig: Path | None = None, context: str | None = None) -> KubernetesReader:
    """Return a reader of the cluster that ``open_cluster`` would open; raises as it does."""
    _require_package()
    from convoy.core.cluster.kubernetes.reader import KubernetesReader

    return KubernetesReader.open(kubeconfig, context)


def _require_package() -> None:
    try:
        import kubernetes  # noqa: F401
    except ImportError:
        raise Unusable(
            "a Kubernetes cluster needs the package kubernetes: pip install 'convoy-train[kubernetes]'",
            reason="PackageMissing",
        ) from None


def __getattr__(name: str) -> Any:
    if name == "KubernetesCluster":
        from convoy.core.cluster.kubernetes.cluster import KubernetesCluster

        return KubernetesCluster
    if name == "KubernetesReader":
        from convoy.core.cluster.kubernetes.reader import KubernetesReader

        return KubernetesReader
    raise AttributeError(name)
