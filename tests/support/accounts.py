"""The accounts and rights of deploy/, in one namespace of a real API server, and kubeconfigs of who has them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client, dynamic

from servers.objects import connected

DEPLOY = Path(__file__).parents[2] / "deploy"
_SYSTEM = "convoy-system"
_APPLY = "application/apply-patch+yaml"


@contextmanager
def applied(kubeconfig: Path, file: Path, namespace: str) -> Iterator[None]:
    """Apply a file whose ``convoy-system`` is this namespace for now; its bindings to the cluster end with it."""
    documents = [_moved(one, namespace) for one in yaml.safe_load_all(file.read_text()) if one["kind"] != "Namespace"]
    with connected(kubeconfig) as connection:
        server: Any = dynamic.DynamicClient(connection)  # type: ignore[no-untyped-call]
        for one in documents:
            resource = server.resources.get(api_version=one["apiVersion"], kind=one["kind"])
            server.server_side_apply(
                resource, body=one, namespace=one["metadata"].get("namespace"), field_manager="convoy-tests"
            )
        try:
            yield
        finally:
            rbac = client.RbacAuthorizationV1Api(connection)
            for one in documents:
                if one["kind"] == "ClusterRoleBinding":
                    rbac.delete_cluster_role_binding(one["metadata"]["name"])


def kubeconfig_of(kubeconfig: Path, namespace: str, account: str, folder: Path) -> Path:
    """Return a kubeconfig for a service account, by a token of an hour."""
    with connected(kubeconfig) as connection:
        core: Any = client.CoreV1Api(connection)
        wanted = {"spec": {"audiences": [], "expirationSeconds": 3600}}
        token = core.create_namespaced_service_account_token(account, namespace, wanted).status.token
    config = yaml.safe_load(kubeconfig.read_text())
    context = next(one for one in config["contexts"] if one["name"] == config["current-context"])
    config["users"] = [{"name": account, "user": {"token": token}}]
    config["contexts"] = [{**context, "context": {**context["context"], "user": account}}]
    path = folder / f"{namespace}-{account}.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    return path


def _moved(document: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Return a document with another namespace; a binding to the cluster gets a name of its own."""
    metadata = document["metadata"]
    if metadata.get("namespace") == _SYSTEM:
        metadata["namespace"] = namespace
    if document["kind"] == "ClusterRoleBinding":
        metadata["name"] += f"-{namespace}"
    for subject in document.get("subjects", ()):
        if subject.get("namespace") == _SYSTEM:
            subject["namespace"] = namespace
    return document
