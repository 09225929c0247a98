"""What a caller writes, as every adapter takes it: which object it is, what of it is the caller's to say. Pure."""

from __future__ import annotations

import base64
import re
from typing import Any

from convoy.core.api.errors import InvalidManifest
from convoy.core.api.meta import Manifest
from convoy.core.cluster.port import Kind

SYSTEM_METADATA = (
    "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
    "deletionGracePeriodSeconds", "managedFields", "selfLink",
)  # fmt: skip
"""What of ``metadata`` the cluster sets, or an object is found by."""

_WRITTEN = [kind for kind in Kind if kind not in (Kind.EVENT, Kind.NAMESPACE)]
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


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


def writable(manifest: Manifest) -> Manifest:
    """Return what a manager may write with ``apply``: all but the status and what the cluster itself sets."""
    tree = {key: value for key, value in manifest.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    metadata = {key: value for key, value in (manifest.get("metadata") or {}).items() if key not in SYSTEM_METADATA}
    return {**tree, **({"metadata": metadata} if metadata else {})}


def normal(manifest: Manifest) -> Manifest:
    """Return it without nulls, and a Secret's ``stringData`` as ``data``."""
    plain: Manifest = without_nulls(manifest)
    if plain.get("kind") != Kind.SECRET or "stringData" not in plain:
        return plain
    rest = {key: value for key, value in plain.items() if key != "stringData"}
    encoded = {key: base64.b64encode(str(text).encode()).decode() for key, text in plain["stringData"].items()}
    return {**rest, "data": {**(plain.get("data") or {}), **encoded}}


def without_nulls(value: Any) -> Any:
    """Return JSON without the fields of maps that are null: a null stands for an absent field."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value
