"""KubernetesCluster: the whole cluster port on the Kubernetes API, with plain JSON throughout."""

from __future__ import annotations

import math
import random
import time
from typing import Any

from convoy.core.api.errors import Conflict, InvalidInput, NotFound
from convoy.core.api.meta import Manifest
from convoy.core.cluster import manifests
from convoy.core.cluster.kubernetes.connection import Body
from convoy.core.cluster.kubernetes.reader import KubernetesReader, whole
from convoy.core.cluster.kubernetes.refusals import Stale
from convoy.core.cluster.kubernetes.resources import Request
from convoy.core.cluster.port import Kind, api_version

_JSON = "application/json"
_APPLY = "application/apply-patch+yaml"  # JSON is YAML
_STRICT = {"fieldValidation": "Strict"}
"""A field that the kind doesn't have is refused with its path, not dropped with a warning."""
_EXPECTED = ("uid", "resourceVersion")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.5
"""Before a status is written again that somebody else was quicker to write to."""


class KubernetesCluster(KubernetesReader):
    """The port on one API server. Several threads may use it; ``Limits`` say how long a request may take.

    A write whose answer was lost is Unavailable and may have been done: written again it does nothing more, or says
    AlreadyExists. One that is Unavailable with ``retry_after`` wasn't done.
    """

    def create(self, manifest: Manifest, *, field_manager: str, dry_run: bool = False) -> Manifest:
        """Create the object (see the port); ``dry_run`` has all of it checked, by admission too, and nothing kept."""
        request = _request("create", manifest)
        body = Body("POST", _JSON, _written(manifest))
        dry = {"dryRun": "All"} if dry_run else {}
        return self._write(request, body, {"fieldManager": field_manager, **_STRICT, **dry})

    def apply(self, manifest: Manifest, *, field_manager: str, force: bool = False) -> Manifest:
        """Create or merge by server-side apply (see the port); raises as ``create`` does, too."""
        request = _request("patch", manifest)
        expected = {key: value for key in _EXPECTED if (value := manifest["metadata"].get(key))}
        if "resourceVersion" in expected and "uid" not in expected:
            # The server would create what is gone in spite of its version, but not in spite of a uid.
            expected["uid"] = self._uid_now(request)
        body = _written(manifest)
        body["metadata"] |= expected
        return self._apply(request, body, field_manager, force=force)

    def apply_status(self, manifest: Manifest, *, field_manager: str, force: bool = True) -> Manifest:
        """Merge the status by server-side apply (see the port).

        Where a uid is given and no resourceVersion, the object is read first: of custom resources, the API server
        doesn't look at the uid of a status that is applied, and an older object's status would become the new one's.
        """
        request = _request("patch", manifest, "status")
        version, uid = (manifest["metadata"].get(key) for key in ("resourceVersion", "uid"))
        status = manifests.without_nulls(manifest.get("status") or {})
        pause, until = _FIRST_PAUSE, time.monotonic() + self._connection.limits.whole
        while True:
            metadata: Manifest = {"name": request.name}
            if at := version or (uid and self._version_of(request, uid)):
                metadata["resourceVersion"] = at
            # An empty status has to be left out: it would be stored as null, which no schema takes.
            body = {**_head(request), "metadata": metadata, **({"status": status} if status else {})}
            try:
                return self._apply(request, body, field_manager, force=force)
            except Stale:
                if version or time.monotonic() > until:
                    raise
            time.sleep(random.uniform(0, pause))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        grace_seconds: float | None = None,
        uid: str | None = None,
    ) -> None:
        """Delete the object; what it controls is collected in the background (see the port).

        A pod's grace is counted in whole seconds, and is at least one, as kubectl has it: with none its object would
        go at once, while its processes may still run.
        """
        if grace_seconds is not None and grace_seconds < 0:
            raise InvalidInput(f"grace_seconds: expected 0 or more, not {grace_seconds}")
        options: Manifest = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if grace_seconds is not None and kind is Kind.POD:
            options["gracePeriodSeconds"] = max(1, math.ceil(grace_seconds))
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            self._connection.write(Request("delete", kind, namespace, name), Body("DELETE", _JSON, options), {})
        except Conflict as error:
            if uid is None or uid not in str(error):
                raise
            raise NotFound(f"{kind} {namespace}/{name} has another uid than {uid}: that one is gone") from None

    def _apply(self, request: Request, body: Manifest, field_manager: str, *, force: bool) -> Manifest:
        query = {"fieldManager": field_manager, "force": "true" if force else "false", **_STRICT}
        return self._write(request, Body("PATCH", _APPLY, body), query)

    def _write(self, request: Request, body: Body, query: dict[str, str]) -> Manifest:
        return whole(self._connection.write(request, body, query), request.kind)

    def _version_of(self, request: Request, uid: str) -> str:
        """Return the resourceVersion of the object of that uid."""
        metadata = self.get(request.kind, request.namespace or "", request.name or "")["metadata"]
        if metadata["uid"] != uid:
            raise Conflict(
                f"{request.kind} {request.place} is another object than was read: uid {uid} is now {metadata['uid']}:"
                " read again"
            )
        return str(metadata["resourceVersion"])

    def _uid_now(self, request: Request) -> str:
        try:
            return str(self.get(request.kind, request.namespace or "", request.name or "")["metadata"]["uid"])
        except NotFound:
            raise Conflict(f"{request.kind} {request.place} is gone since it was read: read again") from None


def _request(verb: str, manifest: Manifest, subresource: str | None = None) -> Request:
    return Request(verb, *manifests.identity(manifest), subresource)


def _head(request: Request) -> Manifest:
    return {"apiVersion": api_version(request.kind), "kind": str(request.kind)}


def _written(manifest: Manifest) -> dict[str, Any]:
    """Return what of a manifest is sent: what a manager may say, under its name."""
    request = _request("create", manifest)
    tree = manifests.writable(manifests.normal(manifest))
    place = {"name": request.name, **({"namespace": request.namespace} if request.namespace else {})}
    head = {**_head(request), **({"apiVersion": manifest["apiVersion"]} if "apiVersion" in manifest else {})}
    return {**head, **tree, "metadata": {**(tree.get("metadata") or {}), **place}}
