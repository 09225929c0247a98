"""Objects as small as an API server takes them."""

from __future__ import annotations

from typing import Any

from convoy.core.api.meta import Manifest


def secret(name: str, **data: str) -> Manifest:
    """Return a Secret."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


def pod(name: str = "one", namespace: str = "default", **spec: Any) -> Manifest:
    """Return a pod of one container, which ``resources`` and ``env`` are of."""
    container: Manifest = {"name": "main", "image": "none"}
    container |= {key: spec.pop(key) for key in ("resources", "env") if key in spec}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}
