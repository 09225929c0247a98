"""Writes objects to an API server as kubectl does: JSON by the Kubernetes package's client, no model in between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kubernetes import client

from convoy.core.api.meta import Manifest
from convoy.core.cluster.kubernetes.resources import RESOURCES, Request
from convoy.core.cluster.port import Kind
from servers.objects import connected

_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"


_CLEARED = (Kind.ELASTIC_JOB, Kind.SCALE_PLAN, Kind.POD, Kind.SERVICE, Kind.SECRET, Kind.NODE, Kind.EVENT)


class RawObjects:
    """The few writes that tests of readers need. A refusal is the client's ``ApiException``, body and all.

    Each namespace that an object names is made.
    """

    def __init__(self, connection: client.ApiClient) -> None:
        self._connection = connection
        self._namespaces = {"default"}

    def create(self, manifest: Manifest, *, field_manager: str = "t") -> Manifest:
        """Create an object and return it."""
        kind, namespace, _ = self._identity(manifest)
        return self._send("POST", Request("create", kind, namespace), manifest, fieldManager=field_manager)

    def apply(self, manifest: Manifest, *, field_manager: str = "t") -> Manifest:
        """Apply an object server-side and return it."""
        request = Request("patch", *self._identity(manifest))
        return self._send("PATCH", request, manifest, _APPLY, fieldManager=field_manager, force="true")

    def replace(self, manifest: Manifest) -> Manifest:
        """Put an object in the place of the one that it was read from."""
        return self._send("PUT", Request("update", *self._identity(manifest)), manifest)

    def set_status(self, kind: Kind, namespace: str, name: str, **status: Any) -> Manifest:
        """Merge into an object's status, as a kubelet or a controller does."""
        request = Request("patch", kind, namespace, name, "status")
        return self._send("PATCH", request, {"status": status}, _MERGE)

    def delete(self, kind: Kind, namespace: str, name: str) -> None:
        """Delete an object at once."""
        self._send("DELETE", Request("delete", kind, namespace, name), {"gracePeriodSeconds": 0})

    def clear(self) -> None:
        """Delete all objects of the kinds that tests write and the API server and its controllers don't need."""
        for kind in _CLEARED:
            for item in self._send("GET", Request("list", kind), None)["items"]:
                metadata = item["metadata"]
                with suppress(client.ApiException):  # a controller was quicker
                    self.delete(kind, metadata.get("namespace", ""), metadata["name"])

    def _identity(self, manifest: Manifest) -> tuple[Kind, str | None, str]:
        kind = Kind(manifest["kind"])
        metadata = manifest["metadata"]
        if not RESOURCES[kind].namespaced:
            return kind, None, metadata["name"]
        namespace = metadata.get("namespace", "default")
        if namespace not in self._namespaces:
            core: Any = client.CoreV1Api(self._connection)
            with suppress(client.ApiException):
                core.create_namespace({"metadata": {"name": namespace}})
            self._namespaces.add(namespace)
        return kind, namespace, metadata["name"]

    def _send(
        self, method: str, request: Request, body: Manifest | None, content: str = "application/json", **query: str
    ) -> Manifest:
        serialized = self._connection.param_serialize(
            method,
            request.path,
            query_params=list(query.items()),
            header_params={"Accept": "application/json", "Content-Type": content},
            body=body,
            auth_settings=["BearerToken"],
        )
        response: Any = self._connection.call_api(*serialized, _request_timeout=30)
        answer = response.read()
        if not 200 <= response.status <= 299:
            raise client.ApiException.from_response(http_resp=response, body=answer.decode(), data=None)
        decoded: Manifest = json.loads(answer)
        return decoded


@contextmanager
def raw_objects(kubeconfig: Path) -> Iterator[RawObjects]:
    """Give a writer for a kubeconfig's current context."""
    with connected(kubeconfig) as connection:
        yield RawObjects(connection)
