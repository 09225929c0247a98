"""The control plane of one machine: where its state is, and how a command keeps its operator and its Brain there."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING

from convoy.core.api import names
from convoy.core.api.errors import AlreadyExists, NotFound, Unavailable
from convoy.core.api.meta import Manifest
from convoy.core.cluster.port import Cluster, Kind
from convoy.core.process import paths
from convoy.core.process.lock import ProcessLock

if TYPE_CHECKING:
    from convoy.core.cluster.local import LocalCluster

SYSTEM_NAMESPACE = "convoy-system"
BRAIN = "convoy-brain"
BRAIN_TOKEN = "convoy-brain-token"
FIELD_MANAGER = "convoy-cli"

_STARTUP = 10.0  # seconds within which an operator that ends has failed to start
_ATTEMPTS = 3
_IDLE = 30.0  # seconds without work after which an operator that a command started ends


def directory(state_dir: Path | None) -> Path:
    """Return the folder of the local cluster: the one given, else the environment's, else XDG's; absolute."""
    return (state_dir or paths.state_dir()).expanduser().absolute()


def open_cluster(state_dir: Path | None) -> LocalCluster:
    """Open the local cluster, made if absent.

    Raises:
        Unusable: its folder can't be written.
    """
    from convoy.core.cluster import local as adapter

    return adapter.open_cluster(paths.ensure_writable(directory(state_dir)))


def existing_cluster(state_dir: Path | None) -> LocalCluster | None:
    """Open the local cluster, None where nothing was ever submitted to it."""
    return open_cluster(state_dir) if (directory(state_dir) / "cluster").is_dir() else None


class Operator:
    """The operator process of one state directory, as a command that waits keeps it alive.

    It outlives the command. Its output goes to ``operator.log`` in the state directory.
    """

    def __init__(self, state_dir: Path, *, exit_with: int | None = None) -> None:
        self.log = state_dir / "operator.log"
        self._state_dir = state_dir
        self._lock = ProcessLock(state_dir / "operator.lock")
        self._exit_with = exit_with
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._failures = 0

    def pid(self) -> int | None:
        """Return the running operator's pid, None where none runs."""
        return self._lock.holder()

    def ensure(self) -> None:
        """Start an operator if none runs and none is starting. Cheap: call it again and again.

        Raises:
            Unavailable: it ended as soon as it started, several times over.
        """
        if self._process is not None and self._process.poll() is not None:
            young = time.monotonic() - self._started < _STARTUP
            self._failures = self._failures + 1 if young and self._process.returncode not in (0, -9, -15) else 0
            self._process = None
        if self._process is not None or self.pid() is not None:
            return
        if self._failures >= _ATTEMPTS:
            last = "\n".join(self.log.read_text(errors="replace").splitlines()[-5:])
            raise Unavailable(f"the operator ends as soon as it starts; the end of {self.log}:\n{last}")
        self._start()

    def _start(self) -> None:
        command = [sys.executable, "-m", "convoy.cli.main", "operator", "--exit-when-idle", str(_IDLE)]
        if self._exit_with is not None:
            command += ["--exit-with", str(self._exit_with)]
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
                env={**os.environ, "CONVOY_STATE_DIR": str(self._state_dir)},
            )
        self._started = time.monotonic()


def ensure_brain(cluster: Cluster, database_url: str | None = None) -> None:
    """Put the Brain into the cluster if it isn't there: a token, a service with a stable port, a pod.

    It trains nothing and may wait: it runs at a lower priority than the jobs.
    """
    _ensure(cluster, _brain_secret())
    _ensure(cluster, _brain_service())
    _ensure(cluster, _brain_pod(database_url))


def _ensure(cluster: Cluster, manifest: Manifest) -> None:
    metadata = manifest["metadata"]
    try:
        cluster.get(Kind(manifest["kind"]), metadata["namespace"], metadata["name"])
    except NotFound:
        try:
            cluster.create(manifest, field_manager=FIELD_MANAGER)
        except AlreadyExists:  # another command was quicker
            return


def _brain_secret() -> Manifest:
    token = b64encode(secrets.token_hex(24).encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": BRAIN_TOKEN, "namespace": SYSTEM_NAMESPACE},
        "type": "Opaque",
        "data": {"token": token},
    }


def _brain_service() -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": BRAIN, "namespace": SYSTEM_NAMESPACE, "labels": {"app": BRAIN}},
        "spec": {"selector": {"app": BRAIN}, "ports": [{"name": "grpc"}]},
    }


def _brain_pod(database_url: str | None) -> Manifest:
    env: list[Manifest] = [
        {"name": "CONVOY_BRAIN_TOKEN", "valueFrom": {"secretKeyRef": {"name": BRAIN_TOKEN, "key": "token"}}}
    ]
    url = database_url or os.environ.get("CONVOY_DATABASE_URL")
    if url:
        env.append({"name": "CONVOY_DATABASE_URL", "value": url})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": BRAIN,
            "namespace": SYSTEM_NAMESPACE,
            "labels": {"app": BRAIN, names.LABEL_APP_NAME: BRAIN},
            "annotations": {"convoy/nice": "5"},
        },
        "spec": {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 5,
            "containers": [
                {
                    "name": "main",
                    "command": [sys.executable, "-m", "convoy.cli.main", "brain", "serve"],
                    "env": env,
                }
            ],
        },
    }
