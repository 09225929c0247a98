"""KubernetesReader: the cluster port's reading half on the Kubernetes API, with plain JSON throughout."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

import urllib3
from urllib3.exceptions import HTTPError, ReadTimeoutError

from convoy.core.api.errors import Expired
from convoy.core.api.meta import Manifest
from convoy.core.cluster.kubernetes.access import find_access
from convoy.core.cluster.kubernetes.connection import Connection, Limits
from convoy.core.cluster.kubernetes.refusals import refusal
from convoy.core.cluster.kubernetes.resources import Question, Request
from convoy.core.cluster.kubernetes.wire import Garbled, events
from convoy.core.cluster.port import Change, Kind, Listing, api_version
from convoy.core.process import logs

PAGE = 500
"""Objects asked for at once."""
_PIECE = 64 * 1024
_CHANGES: dict[str, Literal["ADDED", "MODIFIED", "DELETED"]] = {
    "ADDED": "ADDED",
    "MODIFIED": "MODIFIED",
    "DELETED": "DELETED",
}
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


class KubernetesReader:
    """The port's reading half on one API server. Several threads may use it.

    Manifests are as the server sends them but for ``metadata.managedFields``, which are a third of a pod: those of
    jobs alone are read, for whose ``replicas`` are.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._log = logs.get("cluster.kubernetes")

    @classmethod
    def open(cls, kubeconfig: Path | None = None, context: str | None = None, limits: Limits | None = None) -> Self:
        """Open what ``open_reader`` describes.

        Raises:
            Unusable: no configuration is there, or it can't be used.
        """
        return cls(Connection(find_access(kubeconfig, context), limits or Limits()))

    def close(self) -> None:
        """End its watches at once; what is asked of it later is Unavailable."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def version(self) -> str:
        """Return the API server's version, such as ``v1.37.2``; raises as ``list`` does."""
        return str(self._connection.read_json(Question("/version")).get("gitVersion") or "")

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        """Return the object (see the port)."""
        return whole(self._connection.read_json(Request("get", kind, namespace, name)), kind)

    def list(self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> Listing:
        """Return the objects in the order of their names (see the port).

        Raises:
            Expired: it was slower than the server keeps versions, twice.
        """
        try:
            pages = [*self.pages(kind, namespace, labels)]
        except Expired:
            pages = [*self.pages(kind, namespace, labels)]
        return Listing([item for page in pages for item in page.items], pages[-1].resource_version)

    def pages(
        self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> Iterator[Listing]:
        """Yield them in parts of ``PAGE`` (see the port)."""
        request = Request("list", kind, namespace)
        query = {"limit": str(PAGE)}
        if labels:
            query["labelSelector"] = ",".join(f"{name}={value}" for name, value in labels.items())
        more = ""
        while True:
            answer = self._connection.read_json(request, {**query, "continue": more} if more else query)
            metadata = answer.get("metadata") or {}
            yield Listing([whole(item, kind) for item in answer.get("items") or []], metadata["resourceVersion"])
            more = metadata.get("continue", "")
            if not more:
                return

    def watch(
        self, kind: Kind, since: str, namespace: str | None = None, *, timeout: float = 30.0
    ) -> Generator[Change, None, str]:
        """Yield changes as they come (see the port).

        It ends early, without an error, where the server hangs up, breaks off in the middle of a line, or is silent
        for longer than it should be: the next request finds out what that meant.
        """
        if not since.isascii() or not since.isdigit() or not 0 < int(since) < 2**63:
            raise Expired(f"resourceVersion {since!r} is none of this cluster: list again")
        request = Request("watch", kind, namespace)
        query = {
            "watch": "true",
            "resourceVersion": since,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, int(timeout))),
        }
        # The server ends it; a second later, or within the first, we do.
        until = time.monotonic() + (timeout if timeout < 1 else timeout + 1)
        with self._connection.stream(request, query) as response:
            try:
                for event in events(self._pieces(response, until)):
                    if event.type == "ERROR":
                        raise refusal(_code(event.object), event.object, request, self._connection.address)
                    since = event.object["metadata"]["resourceVersion"]
                    if event.type in _CHANGES:  # the rest are bookmarks: they say how far this watch has come
                        yield Change(_CHANGES[event.type], whole(event.object, kind))
                    if time.monotonic() >= until:
                        break
            except (HTTPError, Garbled) as error:
                self._log.debug("a watch ended early", kind=str(kind), why=f"{type(error).__name__}: {error}")
        return since

    def logs(self, namespace: str, pod: str, *, tail: int | None = None) -> str:
        """Return what the pod's first or default container printed; nothing where it hasn't begun (see the port)."""
        manifest = self.get(Kind.POD, namespace, pod)
        container = _logged_container(manifest)
        if not _has_begun(manifest, container):
            return ""
        query = {"container": container, **({} if tail is None else {"tailLines": str(tail)})}
        return self._connection.read(Request("get", Kind.POD, namespace, pod, "log"), query).decode(errors="replace")

    def _pieces(self, response: urllib3.BaseHTTPResponse, until: float) -> Iterator[bytes]:
        """Yield bytes as they come until ``until``, or until none came for as long as the limits say."""
        while (left := until - time.monotonic()) > 0:
            _wait_at_most(response, min(left, self._connection.limits.silence))
            try:
                piece = response.read1(_PIECE)
            except ReadTimeoutError:
                return
            if not piece:
                return
            yield piece


def whole(item: dict[str, Any], kind: Kind) -> Manifest:
    """Return an object with its apiVersion and kind, which lists leave out, and without its managedFields."""
    if kind is not Kind.ELASTIC_JOB:
        item["metadata"].pop("managedFields", None)
    return item if "kind" in item else {"apiVersion": api_version(kind), "kind": str(kind), **item}


def _code(status: dict[str, Any]) -> int:
    code = status.get("code")
    return code if isinstance(code, int) else 500


def _wait_at_most(response: urllib3.BaseHTTPResponse, seconds: float) -> None:
    sock = getattr(response.connection, "sock", None)
    if sock is not None:
        sock.settimeout(seconds)


def _logged_container(pod: Manifest) -> str:
    chosen = (pod["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER)
    return str(chosen or pod["spec"]["containers"][0]["name"])


def _has_begun(pod: Manifest, container: str) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    own: Manifest = next((one for one in statuses if one["name"] == container), {})
    return any(
        one.get(state)
        for one in (own.get("state", {}), own.get("lastState", {}))
        for state in ("running", "terminated")
    )
