"""The cluster port: the few verbs with which Convoy reads and changes a cluster.

``ClusterReader`` is its reading half, ``Cluster`` all of it. Two adapters are there: one machine
(``convoy.core.cluster.local``) and the Kubernetes API (``convoy.core.cluster.kubernetes``). One conformance suite
(``tests/core/cluster``) holds every adapter to what is said here:

- ``resourceVersion`` grows with each change of any object. A write that carries one is refused with Conflict if the
  object changed since.
- A null in what is written stands for an absent field. What the cluster itself sets (uid, generation, ...) is not
  written; uid and resourceVersion say which object, and which state of it, is meant.
- ``apply`` merges as server-side apply does: the caller owns the fields that it names; fields that it owned and no
  longer names are removed; a field that another manager owns with another value is a Conflict unless ``force``.
- ``status`` is written by ``apply_status`` alone and never by ``apply``.
- ``delete`` of a pod first sets deletionTimestamp and asks its processes to end; the object goes when they have, or
  when the grace period is over; a pod that no node has goes at once. Objects whose controlling owner is gone are
  deleted too, sooner or later.
- ``watch`` yields changes in order from just after ``since``, and returns when ``timeout`` seconds passed, or earlier
  when the adapter was closed or the server hung up.

All methods may block and may be called from several threads. ``convoy.core.cluster.follow`` makes of list and watch
what most readers want: a kind's changes through whatever happens to the cluster.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol

from convoy.core.api import names
from convoy.core.api.meta import Manifest


class Kind(StrEnum):
    """Kinds of objects that Convoy handles."""

    ELASTIC_JOB = "ElasticJob"
    SCALE_PLAN = "ScalePlan"
    POD = "Pod"
    SERVICE = "Service"
    SECRET = "Secret"
    CONFIG_MAP = "ConfigMap"
    SERVICE_ACCOUNT = "ServiceAccount"
    ROLE_BINDING = "RoleBinding"
    NODE = "Node"
    LEASE = "Lease"
    """coordination.k8s.io/v1: who leads (see ``convoy.core.cluster.kubernetes.election``)."""
    EVENT = "Event"
    """core/v1; read, never written. One machine has none."""
    NAMESPACE = "Namespace"
    """core/v1; read, never written. One machine has none."""


def api_version(kind: Kind) -> str:
    """Return the ``apiVersion`` of a kind's objects."""
    match kind:
        case Kind.ELASTIC_JOB | Kind.SCALE_PLAN:
            return names.API_VERSION
        case Kind.LEASE:
            return "coordination.k8s.io/v1"
        case Kind.ROLE_BINDING:
            return "rbac.authorization.k8s.io/v1"
        case _:
            return "v1"


@dataclass(frozen=True, slots=True)
class Listing:
    """Objects, and the version from which a watch continues."""

    items: list[Manifest]
    resource_version: str


@dataclass(frozen=True, slots=True)
class Change:
    """One change of an object; of a deleted one, its last state."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: Manifest


class ClusterReader(Protocol):
    """The port's reading half. Nodes and namespaces lie in none: pass ``""``."""

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        """Return the object.

        Raises:
            NotFound: it isn't there.
        """
        ...

    def list(self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> Listing:
        """Return the objects of a namespace (None: all) that carry all of the labels."""
        ...

    def pages(self, kind: Kind, namespace: str | None = None) -> Iterator[Listing]:
        """Yield what ``list`` returns in parts, for who needn't hold all of it; each names the same version.

        Raises:
            Expired: the reader was slower than versions are kept: begin again.
        """
        ...

    def watch(
        self, kind: Kind, since: str, namespace: str | None = None, *, timeout: float = 30.0
    ) -> Generator[Change, None, str]:
        """Yield changes after ``since`` until ``timeout`` seconds passed; return the version from which to go on.

        Raises:
            Expired: changes that old are no longer kept; list again.
        """
        ...

    def logs(self, namespace: str, pod: str, *, tail: int | None = None) -> str:
        """Return what the pod printed, or its last ``tail`` lines.

        Raises:
            NotFound: no such pod.
        """
        ...


class Cluster(ClusterReader, Protocol):
    """The whole port."""

    def create(self, manifest: Manifest, *, field_manager: str) -> Manifest:
        """Create the object and return it with uid, resourceVersion, generation and creationTimestamp.

        Raises:
            AlreadyExists: one of that name is there.
            InvalidManifest: a field is wrong, or there is none of that name; with its path.
            Refused: a quota, a policy, or another rule of the cluster forbids it now.
            TooLarge: the cluster doesn't take that much.
        """
        ...

    def apply(self, manifest: Manifest, *, field_manager: str, force: bool = False) -> Manifest:
        """Create or merge, as server-side apply does. ``generation`` grows when the spec changed.

        Raises:
            Conflict: stale resourceVersion, another uid, or a field owned by another manager.
            InvalidManifest, Refused, TooLarge: as ``create``.
        """
        ...

    def apply_status(self, manifest: Manifest, *, field_manager: str, force: bool = True) -> Manifest:
        """Merge ``status`` alone, by the same rules; an unchanged status writes nothing.

        Raises:
            NotFound: the object is gone.
            Conflict: stale resourceVersion, another uid, or a field owned by another manager and not ``force``.
        """
        ...

    def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        grace_seconds: float | None = None,
        uid: str | None = None,
    ) -> None:
        """Delete the object; a pod gets its grace period (default: its spec's, else 30 s), in whole seconds and at
        least one where nodes are machines of their own.

        Raises:
            NotFound: it isn't there, or has another uid than the one given.
        """
        ...
