"""Kubernetes without nodes for the tests: etcd, API server and controller manager, with our CRDs.

    python tests/servers/api_server.py start   # prints CONVOY_TEST_KUBECONFIG=...; builds the programs where Go is
    python tests/servers/api_server.py url     # the same line if it runs, status 1 otherwise
    python tests/servers/api_server.py stop

Objects are kept, owned ones collected and quotas counted; no pod is scheduled or run. Each ``start`` applies the CRDs
of this checkout anew. Where the user has set CONVOY_TEST_KUBECONFIG, that cluster is used, and gets the CRDs.
"""

from __future__ import annotations

import http.client
import json
import ssl
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from servers.certificates import write_certificates
from servers.identities import ADMIN, read_tokens, write_kubeconfig, write_tokens
from servers.objects import apply_definitions, let_reader_read
from servers.process import Process, free_port, stop_all
from servers.programs import GoModule
from servers.shared import Server, main

VERSION = "1.37.2"
VARIABLE = "CONVOY_TEST_KUBECONFIG"

_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
_RELEASE = {"gitVersion": f"v{VERSION}", "gitMajor": VERSION.split(".")[0], "gitMinor": VERSION.split(".")[1]}
KUBERNETES = GoModule(
    "kubernetes",
    tuple(f"k8s.io/kubernetes/cmd/{name}" for name in _PROGRAMS),
    # Clients parse the server's version, which a build of a module doesn't set.
    " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in _RELEASE.items()),
)
ETCD = GoModule("etcd", ("go.etcd.io/etcd/server/v3",))

CONTROLLERS = ("garbage-collector", "namespace", "resourcequota", "root-ca-certificate-publisher", "serviceaccount")
"""Those that serve objects alone: others would take away the pods of nodes that only a test made up."""


class ApiServer(Server):
    """One API server and its etcd; the port stays as long as the object lives, the data as long as the folder.

    Args:
        folder: where all of it lies.
        controllers: whether a controller manager runs. Without one, namespaces have no service account, stay in
            ``Terminating``, and what is owned isn't collected.
        flags: further ones of the API server, which prevail, such as ``--watch-cache=false``.
    """

    name = "api-server"
    variables = (VARIABLE,)

    def __init__(self, folder: Path, *, controllers: bool = True, flags: Sequence[str] = ()) -> None:
        super().__init__(folder)
        self.port = free_port()
        self.kubeconfig = folder / "kubeconfig"
        self.etcd = Process("etcd", folder)
        self.process = Process("kube-apiserver", folder)
        self.controller_manager = Process("kube-controller-manager", folder) if controllers else None
        self._etcd_port, self._peer_port = free_port(), free_port()
        self._certificates = folder / "certificates"
        self._tokens = folder / "tokens.csv"
        self._flags = tuple(flags)

    def install(self) -> None:
        """Build what isn't built."""
        ETCD.install()
        KUBERNETES.install()

    def start(self) -> None:
        """Start what of it doesn't run, with empty data where there are none."""
        try:
            self._write_files()
            if not self.etcd.running():
                self.etcd.start(self._etcd_command(), self._etcd_answers)
            if not self.process.running():
                self.process.start(self._api_server_command(), lambda: self.get("/readyz") == 200)
            apply_definitions(self.kubeconfig)
            let_reader_read(self.kubeconfig)
            if self.controller_manager and not self.controller_manager.running():
                # After the CRDs: it learns of new kinds only each half minute.
                self.controller_manager.start(self._controller_manager_command(), self._accounts_are_made)
        except BaseException:
            self.stop()
            raise

    def running(self) -> bool:
        """Return whether all of it runs."""
        return all(process.running() for process in self._processes())

    def stop(self) -> None:
        """End all of it in order."""
        stop_all(self._processes())

    def kill(self) -> None:
        """End the API server as a crash does; ``start`` brings it back, and etcd has what it had stored."""
        self.process.kill()

    def freeze(self) -> None:
        """Let the API server answer nothing, its connections open, until ``thaw``."""
        self.process.freeze()

    def thaw(self) -> None:
        """Let it go on."""
        self.process.thaw()

    def compact(self) -> int:
        """Have etcd forget all versions before now, so that what asks for an older one gets 410 (Gone).

        An API server answers from its watch cache what it can: ``flags=["--watch-cache=false"]`` takes that away.

        Returns:
            The first resource version that is still there.
        """
        now = int(self._ask_etcd("/v3/kv/range", {"key": "AA=="})["header"]["revision"])
        self._ask_etcd("/v3/kv/compaction", {"revision": str(now), "physical": True})
        return now

    def environment(self) -> dict[str, str]:
        """Return where its kubeconfig is."""
        return {VARIABLE: str(self.kubeconfig)}

    def settle(self, environment: dict[str, str]) -> None:
        """Apply the CRDs of this checkout."""
        apply_definitions(Path(environment[VARIABLE]))

    def get(self, path: str, token: str = "") -> int:
        """Return the HTTP status of a path, 0 where nothing answers."""
        trust = ssl.create_default_context(cafile=str(self._certificates / "ca.crt"))
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=5, context=trust)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()

    def _processes(self) -> list[Process]:
        """Return its processes, those first that stand on the others."""
        return [*([self.controller_manager] if self.controller_manager else []), self.process, self.etcd]

    def _write_files(self) -> None:
        if not self._tokens.is_file():
            write_certificates(self._certificates)
            write_tokens(self._tokens)
        authority = self._certificates / "ca.crt"
        write_kubeconfig(self.kubeconfig, f"https://127.0.0.1:{self.port}", authority, read_tokens(self._tokens))

    def _etcd_answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._etcd_port}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _ask_etcd(self, path: str, request: dict[str, object]) -> dict[str, Any]:
        """Call etcd's gateway: https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway/"""
        address = f"http://127.0.0.1:{self._etcd_port}{path}"
        with urllib.request.urlopen(address, json.dumps(request).encode(), timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def _accounts_are_made(self) -> bool:
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        return self.get(account, read_tokens(self._tokens)[ADMIN]) == 200

    def _etcd_command(self) -> list[str]:
        client, peer = (f"http://127.0.0.1:{port}" for port in (self._etcd_port, self._peer_port))
        return [
            ETCD.program("server"),
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",  # what is written outlives the process, though not the machine's fall
            "--log-level=warn",
        ]

    def _api_server_command(self) -> list[str]:
        key = self._certificates / "service-accounts.key"
        return [
            KUBERNETES.program("kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--cert-dir={self._certificates}",
            f"--tls-cert-file={self._certificates / 'server.crt'}",
            f"--tls-private-key-file={self._certificates / 'server.key'}",
            f"--token-auth-file={self._tokens}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",  # nothing calls it by its service
            # Where no controller makes the accounts, pods have to do without.
            *([] if self.controller_manager else ["--disable-admission-plugins=ServiceAccount"]),
            *self._flags,
        ]

    def _controller_manager_command(self) -> list[str]:
        return [
            KUBERNETES.program("kube-controller-manager"),
            f"--kubeconfig={self.kubeconfig}",
            f"--controllers={','.join(f'{name}-controller' for name in CONTROLLERS)}",
            f"--service-account-private-key-file={self._certificates / 'service-accounts.key'}",
            f"--root-ca-file={self._certificates / 'ca.crt'}",
            "--leader-elect=false",
            "--secure-port=0",
        ]


if __name__ == "__main__":
    main(ApiServer)
