"""Applied to the API server of the tests: the custom resource definitions of this checkout, a reader's rights."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client, config

from servers.identities import READER
from servers.process import Failed

DEFINITIONS = Path(__file__).parents[2] / "deploy" / "crds"
SERVED_SECONDS = 30.0

_MANAGER = "convoy-tests"
_APPLY = "application/apply-patch+yaml"
_RIGHTS = f"convoy-tests:{READER}"
_RBAC = "rbac.authorization.k8s.io"
_ROLE = {
    "apiVersion": f"{_RBAC}/v1",
    "kind": "ClusterRole",
    "metadata": {"name": _RIGHTS},
    "rules": [
        {"apiGroups": [""], "resources": ["pods", "nodes", "events"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["elastic.iml.github.io"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
    ],
}
_BINDING = {
    "apiVersion": f"{_RBAC}/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": _RIGHTS},
    "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": _RIGHTS},
    "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": READER}],
}


@contextmanager
def connected(kubeconfig: Path, context: str | None = None) -> Iterator[client.ApiClient]:
    """Give a client for one context of a kubeconfig, without one for the current."""
    connection: client.ApiClient = config.new_client_from_config(  # type: ignore[no-untyped-call]
        config_file=str(kubeconfig), context=context
    )
    with connection:
        yield connection


def apply_definitions(kubeconfig: Path) -> None:
    """Apply every file of ``deploy/crds``, and wait until the API server serves its kind.

    Raises:
        Failed: one isn't served within 30 s.
    """
    definitions = [yaml.safe_load(file.read_text()) for file in sorted(DEFINITIONS.glob("*.yaml"))]
    with connected(kubeconfig) as connection:
        api = client.ApiextensionsV1Api(connection)
        for definition in definitions:
            name = definition["metadata"]["name"]
            api.patch_custom_resource_definition(
                name, definition, field_manager=_MANAGER, force=True, _content_type=_APPLY
            )
        for definition in definitions:
            _wait_until_served(client.CustomObjectsApi(connection), definition["spec"])


def let_reader_read(kubeconfig: Path) -> None:
    """Give ``reader`` its rights."""
    with connected(kubeconfig) as connection:
        api = client.RbacAuthorizationV1Api(connection)
        api.patch_cluster_role(_RIGHTS, _ROLE, field_manager=_MANAGER, force=True, _content_type=_APPLY)
        api.patch_cluster_role_binding(_RIGHTS, _BINDING, field_manager=_MANAGER, force=True, _content_type=_APPLY)


def _wait_until_served(objects: client.CustomObjectsApi, spec: dict[str, Any]) -> None:
    until = time.monotonic() + SERVED_SECONDS
    kind = spec["group"], spec["versions"][0]["name"], spec["names"]["plural"]
    while True:
        try:
            objects.list_cluster_custom_object(*kind, limit=1)
            return
        except client.ApiException as error:
            if error.status != 404:
                raise
            if time.monotonic() > until:
                raise Failed(f"{'/'.join(kind)} isn't served {SERVED_SECONDS:g} s after it was defined") from error
            time.sleep(0.05)
