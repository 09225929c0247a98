"""What an API server does to an object before it is stored: checks, defaults, ports. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from convoy.core.api.errors import InvalidManifest
from convoy.core.api.job import ElasticJob
from convoy.core.api.meta import Manifest
from convoy.core.api.plan import ScalePlan
from convoy.core.cluster.local.apply import Tree
from convoy.core.cluster.local.environment import POD_IP
from convoy.core.cluster.manifests import SYSTEM_METADATA
from convoy.core.cluster.port import Kind


def with_tree(manifest: Manifest, tree: Tree) -> Manifest:
    """Return the object with ``tree`` in the place of what a manager may write; ``generation`` follows the spec."""
    system = {key: value for key, value in manifest["metadata"].items() if key in SYSTEM_METADATA}
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
