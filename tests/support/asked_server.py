"""Asks an API server whether it would take an object of ours, and reads what it has of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convoy.core.api.meta import Manifest
from convoy.core.cluster.kubernetes.access import find_access
from convoy.core.cluster.kubernetes.connection import Body, Connection, Limits
from convoy.core.cluster.kubernetes.resources import Question, Request
from convoy.core.cluster.port import Kind

JSON = "application/json"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
_NEVER_STORED = {"dryRun": "All"}
_STRICT = {"fieldValidation": "Strict"}


@dataclass(frozen=True)
class AskedServer:
    """One namespace of an API server. What it refuses is an error of ours, with the field's path."""

    connection: Connection
    namespace: str

    def would_take(self, manifest: Manifest, *, strict: bool = True) -> Manifest:
        """Return what it would store of a new object. ``strict``: a field that its kind doesn't have is refused."""
        query = {**_NEVER_STORED, **(_STRICT if strict else {})}
        return self._write("POST", JSON, self._new(manifest), manifest, query)

    def create(self, manifest: Manifest) -> Manifest:
        """Create an object and return it."""
        return self._write("POST", JSON, self._new(manifest), manifest, _STRICT)

    def apply(self, manifest: Manifest, manager: str = "user", *, status: bool = False) -> Manifest:
        """Apply an object server-side, or its status, and return it."""
        request = self._one(manifest["kind"], manifest["metadata"]["name"], "status" if status else None)
        return self._write("PATCH", APPLY, request, manifest, {"fieldManager": manager, **_STRICT})

    def merge(self, kind: str, name: str, part: Manifest, subresource: str | None = None) -> Manifest:
        """Merge a part into an object, or into a subresource, and return it."""
        return self._write("PATCH", MERGE, self._one(kind, name, subresource), part, {})

    def read(self, kind: str, name: str, subresource: str | None = None) -> Manifest:
        """Return an object, or a subresource."""
        return self.connection.read_json(self._one(kind, name, subresource))

    def table(self, kind: str) -> Manifest:
        """Return the table that kubectl prints of the namespace's objects."""
        pool, access = self.connection._access.pool, self.connection._access
        path = Request("list", Kind(kind), self.namespace).path
        accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io", **access.headers()}
        table: Manifest = pool.request("GET", access.url + path, headers=accept).json()
        return table

    def discovered(self) -> dict[str, Any]:
        """Return what it serves of our group, by plural."""
        found = self.connection.read_json(Question("/apis/elastic.iml.github.io/v1alpha1"))
        return {one["name"]: one for one in found["resources"]}

    def _new(self, manifest: Manifest) -> Request:
        return Request("create", Kind(manifest["kind"]), self.namespace)

    def _one(self, kind: str, name: str, subresource: str | None) -> Request:
        return Request("patch", Kind(kind), self.namespace, name, subresource)

    def _write(self, method: str, content: str, request: Request, body: Manifest, query: dict[str, str]) -> Manifest:
        if "metadata" in body:  # whatever namespace a test's object names, it goes into this one
            body = {**body, "metadata": {key: one for key, one in body["metadata"].items() if key != "namespace"}}
        return self.connection.write(request, Body(method, content, body), query)


@contextmanager
def asked_server(kubeconfig: Path, namespace: str) -> Iterator[AskedServer]:
    """Give one namespace of the API server that a kubeconfig names."""
    with closing(Connection(find_access(kubeconfig), Limits())) as connection:
        yield AskedServer(connection, namespace)
