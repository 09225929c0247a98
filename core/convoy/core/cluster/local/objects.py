"""What an API server does to an object before it is stored: checks, defaults, ports. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable

from convoy.core.api.errors import InvalidManifest
from convoy.core.api.job import ElasticJob
from convoy.core.api.meta import Manifest
from convoy.core.api.plan import ScalePlan
from convoy.core.cluster.local.apply import Tree
from convoy.core.cluster.local.environment import POD_IP
from convoy.core.cluster.port import Kind

_WRITTEN = [kind for kind in Kind if kind is not Kind.EVENT]
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SYSTEM_METADATA = (
    "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
    "deletionGracePeriodSeconds", "managedFields",
)  # fmt: skip


def identity(manifest: Manifest) -> tuple[Kind, str, str]:
    """Return (kind, namespace, name) of what a caller wrote; the namespace's default is ``default``.

    Raises:
        InvalidManifest: one of them is missing or malformed.
    """
    metadata = manifest.get("metadata") or {}
    kind = next((one for one in _WRITTEN if one == manifest.get("kind")), None)
    if kind is None:
        raise InvalidManifest("kind", f"expected one of {', '.join(_WRITTEN)}, not {manifest.get('kind')!r}")
    namespace = "" if kind is Kind.NODE else metadata.get("namespace") or "default"
    name = metadata.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidManifest("metadata.name", f"expected lower-case letters, digits, '-' and '.', not {name!r}")
    if namespace and not _NAMESPACE.fullmatch(str(namespace)):
        raise InvalidManifest("metadata.namespace", f"expected lower-case letters, digits and '-', not {namespace!r}")
    return kind, str(namespace), name


def writable(manifest: Manifest) -> Tree:
    """Return what a manager may write with ``apply``: all but the status and what the cluster itself sets."""
    tree = {key: value for key, value in manifest.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    metadata = {key: value for key, value in (manifest.get("metadata") or {}).items() if key not in _SYSTEM_METADATA}
    return {**tree, **({"metadata": metadata} if metadata else {})}


def with_tree(manifest: Manifest, tree: Tree) -> Manifest:
    """Return the object with ``tree`` in the place of what a manager may write; ``generation`` follows the spec."""
    system = {key: value for key, value in manifest["metadata"].items() if key in _SYSTEM_METADATA}
    rest = {key: value for key, value in tree.items() if key != "metadata"}
    if rest.get("spec") != manifest.get("spec") and "generation" in system:
        system["generation"] += 1
    status = {"status": manifest["status"]} if "status" in manifest else {}
    return {
        "apiVersion": manifest["apiVersion"],
        "kind": manifest["kind"],
        "metadata": {**system, **(tree.get("metadata") or {})},
        **rest,
        **status,
    }


def normal(manifest: Manifest) -> Manifest:
    """Return a Secret's ``stringData`` as ``data``; other kinds as they are."""
    if manifest.get("kind") != Kind.SECRET or "stringData" not in manifest:
        return manifest
    rest = {key: value for key, value in manifest.items() if key != "stringData"}
    encoded = {key: base64.b64encode(str(text).encode()).decode() for key, text in manifest["stringData"].items()}
    return {**rest, "data": {**(manifest.get("data") or {}), **encoded}}


def check(manifest: Manifest) -> None:
    """Refuse what the schema of the kind refuses.

    Raises:
        InvalidManifest: with the path of the wrong field.
    """
    kind = manifest["kind"]
    if kind == Kind.ELASTIC_JOB:
        ElasticJob.from_manifest(manifest)
    elif kind == Kind.SCALE_PLAN:
        ScalePlan.from_manifest(manifest)
    elif kind == Kind.POD and not (manifest.get("spec") or {}).get("containers"):
        raise InvalidManifest("spec.containers", "is required, and is absent")


def with_port(service: Manifest, live: Manifest | None, allot: Callable[[], int]) -> Manifest:
    """Return a Service whose first port has a number: the one given, else the one that it had, else a new one."""
    if first_port(service):
        return service
    spec = service.get("spec") or {}
    ports = spec.get("ports") or [{}]
    had = first_port(live) if live is not None else None
    number = had if had is not None else allot()
    return {**service, "spec": {**spec, "ports": [{**ports[0], "port": number}, *ports[1:]]}}


def with_address(service: Manifest) -> Manifest:
    """Return a Service with ``status.address``, where it is reached on this machine."""
    return {**service, "status": {**(service.get("status") or {}), "address": f"{POD_IP}:{first_port(service)}"}}


def first_port(service: Manifest) -> int | None:
    """Return the number of a Service's first port, if it has one."""
    ports = (service.get("spec") or {}).get("ports") or [{}]
    number = ports[0].get("port")
    return int(number) if number else None


def taken_ports(services: Iterable[Manifest]) -> set[int]:
    """Return the ports that Services hold."""
    return {
        int(port["port"])
        for service in services
        for port in (service.get("spec") or {}).get("ports") or []
        if port.get("port")
    }


def carries(manifest: Manifest, labels: dict[str, str]) -> bool:
    """Whether the object carries all of the labels."""
    own = manifest["metadata"].get("labels") or {}
    return all(own.get(name) == value for name, value in labels.items())
