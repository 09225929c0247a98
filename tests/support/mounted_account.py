"""A service account's folder as the kubelet mounts it into a pod, whose token can be rotated."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client

from servers.objects import connected

NAMESPACE = "default"


class MountedAccount:
    """A new service account in ``default``, with the rights of a cluster role, and its files in a folder.

    ``token``, ``ca.crt`` and ``namespace`` are what a client in a pod reads; ``address`` is where it calls. Each
    token is bound to a secret, and refused within 10 s of that secret's end: so long the API server trusts what it
    has checked.
    """

    def __init__(self, kubeconfig: Path, folder: Path, *, role: str = "cluster-admin") -> None:
        self.folder = folder
        self.name = f"account-{uuid.uuid4().hex[:8]}"
        self._kubeconfig = kubeconfig
        self._secret = ""
        cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
        self.address: str = cluster["server"]
        folder.mkdir(parents=True)
        (folder / "ca.crt").write_bytes(Path(cluster["certificate-authority"]).read_bytes())
        (folder / "namespace").write_text(NAMESPACE)
        with connected(kubeconfig) as connection:
            core: Any = client.CoreV1Api(connection)  # its annotations know objects alone, and it takes mappings
            rbac: Any = client.RbacAuthorizationV1Api(connection)
            core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": self.name}})
            rbac.create_cluster_role_binding(
                {
                    "metadata": {"name": self.name},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                    "subjects": [{"kind": "ServiceAccount", "name": self.name, "namespace": NAMESPACE}],
                }
            )
        self.rotate()

    def rotate(self) -> None:
        """Put a new token in the place of the old, all at once, and let the old one end."""
        with connected(self._kubeconfig) as connection:
            core: Any = client.CoreV1Api(connection)
            secret = core.create_namespaced_secret(NAMESPACE, {"metadata": {"generateName": f"{self.name}-"}})
            bound = {"apiVersion": "v1", "kind": "Secret", "name": secret.metadata.name}
            wanted = {"spec": {"audiences": [], "boundObjectRef": bound, "expirationSeconds": 3600}}
            issued = core.create_namespaced_service_account_token(self.name, NAMESPACE, wanted)
            partial = self.folder / "token.partial"
            partial.touch(mode=0o600)
            partial.write_text(issued.status.token)
            os.replace(partial, self.folder / "token")
            if self._secret:
                core.delete_namespaced_secret(self._secret, NAMESPACE)
            self._secret = secret.metadata.name
