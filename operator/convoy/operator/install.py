"""Applying our CustomResourceDefinitions to a cluster, also over those of another version or of DLRover.

By server-side apply: what kubectl keeps of a client-side one doesn't fit an annotation. All of a definition that is
ours prevails; its objects stay, and what our schemas don't know of them goes when they are next written. It needs the
package ``kubernetes``, as ``convoy.core.cluster.kubernetes`` does.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convoy.core.api import names
from convoy.core.api.errors import DeadlineMissed
from convoy.core.api.meta import Manifest
from convoy.core.cluster.kubernetes.access import find_access
from convoy.core.cluster.kubernetes.connection import Body, Connection, Limits
from convoy.core.cluster.kubernetes.resources import Question

_GROUP, _PLURAL = "apiextensions.k8s.io", "customresourcedefinitions"
_SERVED_SECONDS = 30.0
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class _Definition(Question):
    """A request for one definition, in the words of the access rules."""

    @property
    def rule(self) -> str:
        return f'a ClusterRole with apiGroups: ["{_GROUP}"], resources: ["{_PLURAL}"], verbs: ["get", "patch"]'

    def __str__(self) -> str:
        return f"apply {_PLURAL} {self.path.rpartition('/')[2]}"


def install(
    definitions: Iterable[Manifest], kubeconfig: Path | None = None, context: str | None = None
) -> Iterator[str]:
    """Apply definitions, and yield the name of each when the API server serves it.

    Raises:
        Unusable: there is no cluster, or it doesn't allow it.
        ClusterError: the API server doesn't take one.
        DeadlineMissed: one is taken and isn't served within 30 s.
    """
    with closing(Connection(find_access(kubeconfig, context), Limits())) as connection:
        for definition in definitions:
            yield apply_definition(connection, definition)


def apply_definition(connection: Connection, definition: Manifest) -> str:
    """Apply one definition, wait until it is served, and return its name; raises as ``install`` does."""
    name = str(definition["metadata"]["name"])
    request = _Definition(f"/apis/{_GROUP}/v1/{_PLURAL}/{name}")
    body = Body("PATCH", "application/apply-patch+yaml", definition)
    found = connection.write(request, body, {"fieldManager": names.MANAGER_CLI, "force": "true"})
    until = time.monotonic() + _SERVED_SECONDS
    while missing := _missing(found):
        if time.monotonic() > until:
            raise DeadlineMissed(f"{name} was taken and isn't served after {_SERVED_SECONDS:g} s: {missing}")
        time.sleep(_LOOK_SECONDS)
        found = connection.read_json(request)
    return name


def _missing(definition: Manifest) -> str:
    """Return what keeps a definition from being served; nothing where it is."""
    conditions: list[dict[str, Any]] = (definition.get("status") or {}).get("conditions") or []
    said = {one["type"]: one for one in conditions}
    for wanted in ("NamesAccepted", "Established"):
        one = said.get(wanted, {})
        if one.get("status") != "True":
            return f"{wanted}: {one.get('message') or 'not yet'}"
    return ""
