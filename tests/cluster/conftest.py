from support.api_server import admin, identities, kubeconfig, namespace

__all__ = ["admin", "identities", "kubeconfig", "namespace"]
