"""How the API server is reached and who asks, by the Kubernetes client's own loaders, read anew when they rotate.

- In a pod: the loader reads the service account's token again every minute.
- A kubeconfig with ``exec`` or an identity provider: its loader asks again when the credential expires.
- A kubeconfig with ``tokenFile``: read again every minute here, for its loader reads it once.
- In each case: once more when the server refuses the credential (``renew``).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import urllib3
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
from kubernetes.config.kube_config import KubeConfigMerger

from convoy.core.api.errors import Unusable
from convoy.core.process import logs
from convoy.core.process.clock import Clock, SystemClock

_REREAD_SECONDS = 60.0
_POOL = 64
"""Connections that are kept for the next request: as many as threads may ask at once."""
_IN_CLUSTER = "KUBERNETES_SERVICE_HOST"
_CONNECTION = ("host", "ssl_ca_cert", "cert_file", "key_file", "verify_ssl", "tls_server_name", "proxy", "no_proxy")
"""What of a configuration makes a new pool of connections necessary."""

Headers = dict[str, str]


class Access:
    """The pool of connections to one API server, and the headers that say who asks. Several threads may use it."""

    def __init__(self, load: Callable[[], Configuration], clock: Clock, *, rereads: bool) -> None:
        self._load = load
        self._clock = clock
        self._rereads = rereads
        self._guard = threading.Lock()
        self._log = logs.get("cluster.kubernetes")
        self._take(load())
        self._headers = _headers(self._configuration)
        if not self._configuration.verify_ssl:
            self._log.warning("the API server's certificate isn't verified: the kubeconfig says so", at=self.address)

    @property
    def address(self) -> str:
        """The API server's address, for messages."""
        url = urllib3.util.parse_url(self._configuration.host)
        return url._replace(auth=None).url

    @property
    def url(self) -> str:
        """What paths are appended to."""
        return str(self._configuration.host).rstrip("/")

    @property
    def pool(self) -> urllib3.PoolManager:
        """The connections."""
        return self._pool

    def headers(self) -> Headers:
        """Return who asks; what can't be read now, in the middle of a rotation, stays as it was."""
        with self._guard:
            try:
                if self._rereads and self._clock.monotonic() >= self._stale_at:
                    self._take(self._load())
                self._headers = _headers(self._configuration)
            except (ConfigException, OSError, Unusable) as error:
                self._log.warning("credentials can't be read again: the last ones are used", message=_unquoted(error))
            return self._headers

    def renew(self, refused: Headers) -> None:
        """Read all anew, unless another thread did since ``refused`` was handed out.

        Raises:
            Unusable: the configuration can't be used any more.
        """
        with self._guard:
            if self._headers == refused:
                self._take(self._load(), reconnect=True)  # a client certificate is as old as its connections
                self._headers = _headers(self._configuration)

    def close(self) -> None:
        """Close the connections that nobody uses now."""
        self._pool.clear()

    def _take(self, new: Configuration, *, reconnect: bool = False) -> None:
        old = getattr(self, "_configuration", None)
        if reconnect or any(getattr(old, name, None) != getattr(new, name, None) for name in _CONNECTION):
            new.retries = False  # who asks decides about that
            new.keep_alive = True
            new.connection_pool_maxsize = _POOL
            self._pool: urllib3.PoolManager = RESTClientObject(new).pool_manager
        self._configuration = new
        self._stale_at = self._clock.monotonic() + _REREAD_SECONDS


def find_access(kubeconfig: Path | None = None, context: str | None = None, clock: Clock | None = None) -> Access:
    """Return the access that a kubeconfig or the pod around this process gives (see ``open_reader`` for the order).

    Raises:
        Unusable: there is none, or it can't be used.
    """
    files = str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    found = any(os.path.exists(os.path.expanduser(file)) for file in files.split(os.pathsep) if file)
    if not found and (kubeconfig or context or os.environ.get("KUBECONFIG") or _IN_CLUSTER not in os.environ):
        raise Unusable(
            f"no Kubernetes configuration: {files} isn't there, and this process doesn't run in a pod; name a"
            " kubeconfig (KUBECONFIG), or use a service account",
            reason="NoKubernetesConfiguration",
        )
    if found:
        rereads: bool = _usable(files, lambda: _names_token_file(files, context))
        return Access(lambda: _from_file(files, context), clock or SystemClock(), rereads=rereads)
    return Access(_from_pod, clock or SystemClock(), rereads=False)


def _from_file(files: str, context: str | None) -> Configuration:
    new = Configuration()
    _usable(files, lambda: load_kube_config(files, context, new))  # type: ignore[no-untyped-call]
    return new


def _from_pod() -> Configuration:
    new = Configuration()
    _usable("the pod's service account", lambda: load_incluster_config(new))  # type: ignore[no-untyped-call]
    return new


def _usable(source: str, read: Callable[[], Any]) -> Any:
    """Read a configuration; what goes wrong is told without a word of what the file holds."""
    try:
        return read()
    except ConfigException as error:
        raise Unusable(f"{source}: {_unquoted(error)}", reason="KubernetesConfiguration") from None
    except OSError as error:
        raise Unusable(f"{source}: {error.strerror}: {error.filename}", reason="KubernetesConfiguration") from None
    except Exception as error:
        raise Unusable(
            f"{source}: not a kubeconfig that can be used ({type(error).__name__}); see `kubectl config view`",
            reason="KubernetesConfiguration",
        ) from None


def _unquoted(error: Exception) -> str:
    """Return what an error says but for the part of the configuration, secrets and all, that loaders end with."""
    return str(error).partition("{")[0]


def _names_token_file(files: str, context: str | None) -> bool:
    merged: Any = KubeConfigMerger(files).config  # type: ignore[no-untyped-call]
    chosen = merged["contexts"].get_with_name(context or merged["current-context"])["context"]
    user: Any = merged["users"].get_with_name(chosen["user"], safe=True) if "user" in chosen else None
    return user is not None and "tokenFile" in user["user"]


def _headers(configuration: Configuration) -> Headers:
    settings: dict[str, Any] = dict(configuration.auth_settings())
    return {one["key"]: one["value"].strip() for one in settings.values() if one["value"]}
