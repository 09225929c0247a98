"""The control plane of one machine: where its state is, and how a command keeps its operator and its Brain there."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convoy.cli import database
from convoy.core.api import names
from convoy.core.api.errors import AlreadyExists, InvalidSetting, NotFound, Unavailable
from convoy.core.api.meta import Manifest
from convoy.core.cluster.port import Cluster, Kind
from convoy.core.process import paths
from convoy.core.process.lock import ProcessLock

if TYPE_CHECKING:
    from convoy.core.cluster.local import LocalCluster

_STARTUP = 10.0  # seconds within which an operator that ends has failed to start
_ATTEMPTS = 3
_IDLE = 30.0  # seconds without work after which an operator that a command started ends


def directory() -> Path:
    """Return the folder of the local cluster, absolute."""
    return paths.state_dir().expanduser().absolute()


def open_cluster() -> LocalCluster:
    """Open the local cluster, made if absent.

    Raises:
        Unusable: its folder can't be written.
    """
    from convoy.core.cluster import local as adapter

    return adapter.open_cluster(paths.ensure_writable(directory()))


def logs(namespace: str) -> Path:
    """Return the folder of what the pods of a namespace printed: a folder for each pod, kept a week after its job."""
    from convoy.core.cluster.local.layout import Layout

    return Layout.of_state_dir(directory()).all_logs / namespace


def existing_cluster() -> LocalCluster | None:
    """Open the local cluster, None where nothing was ever submitted to it."""
    return open_cluster() if (directory() / "cluster").is_dir() else None


class Operator:
    """The operator process of one state directory, as a command that waits keeps it alive.

    It outlives the command. Its output goes to ``operator.log`` in the state directory.
    """

    def __init__(self, state_dir: Path, *, exit_with: int | None = None) -> None:
        self.log = state_dir / "operator.log"
        self._state_dir = state_dir
        self._lock = ProcessLock(paths.operator_lock(state_dir))
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

    def await_end(self, seconds: float) -> bool:
        """Wait until no operator runs any more; False where one still does."""
        until = time.monotonic() + seconds
        while self.pid() is not None or (self._process is not None and self._process.poll() is None):
            if time.monotonic() >= until:
                return False
            time.sleep(0.05)
        return True

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


def run_operator(kubeconfig: Path | None = None, context: str | None = None, **flags: Any) -> None:
    """Run the operator in this process: on Kubernetes, or on this machine.

    On this machine it runs beside a Brain in its cluster unless the settings name another one. ``flags`` are settings
    of ``OperatorSettings``; None stands for one that wasn't given.

    Raises:
        InvalidSetting: the URL of the Brain's database is wrong, or a flag is for the other platform.
        Unusable: another operator runs on the state directory, it can't be written, or the database or the Kubernetes
            cluster can't be used.
        Fenced: on Kubernetes another replica leads now.
    """
    from convoy.core.cluster.platform import Platform
    from convoy.operator.settings import OperatorSettings

    settings = OperatorSettings.load(**flags)
    if settings.platform is Platform.KUBERNETES:
        from convoy.operator import on_kubernetes

        on_kubernetes.run(settings, kubeconfig, context)
        return
    if kubeconfig is not None or context is not None:
        raise InvalidSetting(
            "--kubeconfig and --context name a Kubernetes cluster: give --kubernetes, or leave them out"
        )
    from convoy.operator import on_one_machine

    if settings.brain_address is not None:
        on_one_machine.run(settings)
        return
    if ProcessLock(paths.operator_lock(directory())).holder() is None:
        with open_cluster() as cluster:
            database.settle(cluster)
    on_one_machine.run(settings, ensure_brain)


def ensure_brain(cluster: Cluster) -> str:
    """Put the Brain into the cluster if it isn't there: a token, a service with a stable port, a pod.

    Its database is the one that was settled on. It trains nothing and may wait: it runs at a lower priority than the
    jobs. Returns its address, host:port.
    """
    _ensure(cluster, _secret(names.BRAIN_TOKEN_SECRET, token=secrets.token_hex(24)))
    service = _ensure(cluster, _brain_service())
    _ensure(cluster, _brain_pod(service["spec"]["ports"][0]["port"]))
    return str(service["status"]["address"])


def _ensure(cluster: Cluster, manifest: Manifest) -> Manifest:
    metadata = manifest["metadata"]
    kind = Kind(manifest["kind"])
    try:
        return cluster.get(kind, metadata["namespace"], metadata["name"])
    except NotFound:
        try:
            return cluster.create(manifest, field_manager=names.MANAGER_CLI)
        except AlreadyExists:  # another command was quicker
            return cluster.get(kind, metadata["namespace"], metadata["name"])


def _secret(name: str, **values: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": names.SYSTEM_NAMESPACE},
        "type": "Opaque",
        "data": {key: b64encode(value.encode()).decode() for key, value in values.items()},
    }


def _brain_service() -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": database.BRAIN, "namespace": names.SYSTEM_NAMESPACE, "labels": {"app": database.BRAIN}},
        "spec": {"selector": {"app": database.BRAIN}, "ports": [{"name": "grpc"}]},
    }


def _brain_pod(port: int) -> Manifest:
    def secret(name: str, key: str) -> Manifest:
        return {"secretKeyRef": {"name": name, "key": key, "optional": True}}

    container = {
        "name": "main",
        "command": [sys.executable, "-m", "convoy.cli.main", "brain", "serve", "--port", str(port)],
        "env": [
            {"name": names.ENV_BRAIN_TOKEN, "valueFrom": secret(names.BRAIN_TOKEN_SECRET, "token")},
            {"name": database.VARIABLE, "valueFrom": secret(database.SECRET, database.KEY)},
        ],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": database.BRAIN,
            "namespace": names.SYSTEM_NAMESPACE,
            "labels": {"app": database.BRAIN},
            "annotations": {names.ANNOTATION_NICE: names.CONTROL_NICE},
        },
        "spec": {"restartPolicy": "Always", "terminationGracePeriodSeconds": 5, "containers": [container]},
    }
