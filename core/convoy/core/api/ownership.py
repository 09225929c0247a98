"""Whose a job's numbers are: what Convoy itself wrote into a spec is not what its user asked for. Pure.

An API server can't serve ``/scale`` of a job without ``replicas``. So where the user gave none, the operator applies
the present number under its own name, and what reads the job leaves that out again. A number that anyone else wrote,
``kubectl scale`` included, takes the field from the operator and is the user's.
"""

from __future__ import annotations

from typing import Any

from convoy.core.api import names
from convoy.core.api.meta import Manifest


def as_asked(manifest: Manifest) -> Manifest:
    """Return a job's manifest without the numbers that the operator wrote; one that isn't a job's stays as it is."""
    metadata: Any = manifest.get("metadata")
    if not says_owners(manifest):
        return manifest
    rest = {name: one for name, one in metadata.items() if name != "managedFields"}
    asked = {**manifest, "metadata": rest}
    spec: Any = manifest.get("spec")
    roles: Any = spec.get("replicaSpecs") if isinstance(spec, dict) else None
    ours = [role for role in (roles if isinstance(roles, dict) else {}) if _is_ours(role, metadata["managedFields"])]
    if not ours:
        return asked
    kept = {role: _without_replicas(one) if role in ours else one for role, one in roles.items()}
    return {**asked, "spec": {**spec, "replicaSpecs": kept}}


def says_owners(manifest: Manifest) -> bool:
    """Whether a manifest says which manager wrote which field, as an API server's do."""
    metadata: Any = manifest.get("metadata")
    return isinstance(metadata, dict) and isinstance(metadata.get("managedFields"), list)


def _is_ours(role: str, managed: list[Any]) -> bool:
    """Whether the operator owns a role's ``replicas``, and nobody else does."""
    owners = {entry.get("manager") for entry in managed if isinstance(entry, dict) and _names_replicas(entry, role)}
    return owners == {names.MANAGER_OPERATOR}


def _names_replicas(entry: dict[str, Any], role: str) -> bool:
    node: Any = entry.get("fieldsV1")
    for key in ("f:spec", "f:replicaSpecs", f"f:{role}"):
        node = node.get(key) if isinstance(node, dict) else None
    return isinstance(node, dict) and "f:replicas" in node


def _without_replicas(role: Any) -> Any:
    return {name: one for name, one in role.items() if name != "replicas"} if isinstance(role, dict) else role
