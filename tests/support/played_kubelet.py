"""Scheduler and kubelet, played: the pods of one namespace of a real API server run as processes of this machine.

There is no network of pods: each has 127.0.0.1, and a job's service is a port of this machine that its masters share.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convoy.core.api import names
from convoy.core.api.errors import ConvoyError, NotFound
from convoy.core.cluster.follow import follow
from convoy.core.cluster.kubernetes import KubernetesCluster
from convoy.core.cluster.local.environment import base_environment, command, container, environment
from convoy.core.cluster.local.processes import descendants
from convoy.core.cluster.port import Change, Kind
from support.accounts import kubeconfig_of

Manifest = dict[str, Any]
_LOOK_SECONDS = 0.05


@dataclass
class Run:
    """A pod's process."""

    name: str
    process: subprocess.Popen[bytes]
    told: bool = False


class PlayedKubelet:
    """Runs what is stored, until its end; what runs can be killed, pod by pod."""

    def __init__(self, cluster: KubernetesCluster, kubeconfig: Path, namespace: str, folder: Path) -> None:
        self._cluster = cluster
        self._kubeconfig = kubeconfig
        self._namespace = namespace
        self._folder = folder
        self._runs: dict[str, Run] = {}
        self._ports: dict[str, int] = {}
        self._guard = threading.Lock()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=target, daemon=True) for target in (self._follow, self._reap)]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Kill all that runs."""
        self._stop.set()
        with self._guard:
            for run in self._runs.values():
                _kill(run.process)

    def pid(self, pod: str) -> int:
        """Return the process of a pod that runs."""
        with self._guard:
            return next(
                run.process.pid for run in self._runs.values() if run.name == pod and run.process.poll() is None
            )

    def log(self, pod: str) -> str:
        """Return what the pods of a name printed."""
        return "".join(file.read_text(errors="replace") for file in sorted(self._folder.glob(f"{pod}.*.log")))

    def _follow(self) -> None:
        for told in follow(self._cluster, Kind.POD, self._namespace, stop=self._stop):
            if isinstance(told, Change):
                self._see(told)

    def _see(self, change: Change) -> None:
        pod, uid = change.object, change.object["metadata"]["uid"]
        with self._guard:
            run = self._runs.get(uid)
            if change.type == "DELETED":
                if run is not None:
                    _kill(run.process)
            elif run is None and not self._stop.is_set():
                self._runs[uid] = Run(pod["metadata"]["name"], self._started(pod))
                self._say(
                    pod, {"phase": "Running", "podIP": "127.0.0.1", "containerStatuses": [_main({"running": {}})]}
                )

    def _started(self, pod: Manifest) -> subprocess.Popen[bytes]:
        job = pod["metadata"]["labels"][names.LABEL_JOB]
        port = self._ports.setdefault(job, _free_port())
        base = base_environment(os.environ, str(Path(sys.executable).parent), str(self._folder))
        env = environment(pod, {**base, "KUBECONFIG": str(self._account(pod))}, self._secret)
        env[names.ENV_MASTER_PORT] = str(port)
        if names.ENV_MASTER_ADDRESS in env:
            env[names.ENV_MASTER_ADDRESS] = f"127.0.0.1:{port}"
        output = self._folder / f"{pod['metadata']['name']}.{pod['metadata']['uid']}.log"
        with open(output, "ab") as log:
            return subprocess.Popen(
                command(pod, env),
                env=env,
                cwd=container(pod).get("workingDir") or self._folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _account(self, pod: Manifest) -> Path:
        """Return the kubeconfig of who the pod is."""
        name = pod["spec"].get("serviceAccountName", "default")
        return kubeconfig_of(self._kubeconfig, self._namespace, name, self._folder)

    def _secret(self, name: str) -> Manifest | None:
        with suppress(NotFound):
            return self._cluster.get(Kind.SECRET, self._namespace, name)
        return None

    def _reap(self) -> None:
        while not self._stop.wait(_LOOK_SECONDS):
            with self._guard:
                over = [run for run in self._runs.values() if not run.told and run.process.poll() is not None]
            for run in over:
                run.told = True
                code = run.process.returncode
                ended = {"exitCode": code if code >= 0 else 128 - code, "reason": "Error" if code else "Completed"}
                phase = "Failed" if code else "Succeeded"
                pod = {"metadata": {"name": run.name}}
                self._say(pod, {"phase": phase, "containerStatuses": [_main({"terminated": ended})]})

    def _say(self, pod: Manifest, status: Manifest) -> None:
        metadata = {"name": pod["metadata"]["name"], "namespace": self._namespace}
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status}
        with suppress(ConvoyError):  # it is gone
            self._cluster.apply_status(manifest, field_manager="played-kubelet")


def _main(state: Manifest) -> Manifest:
    """Return the status of a container; the API server wants all of these fields."""
    return {
        "name": "main",
        "image": "",
        "imageID": "",
        "ready": "running" in state,
        "restartCount": 0,
        "state": state,
    }


def _kill(process: subprocess.Popen[bytes]) -> None:
    for pid in (*descendants(process.pid), process.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def played_kubelet(
    cluster: KubernetesCluster, kubeconfig: Path, namespace: str, folder: Path
) -> Iterator[PlayedKubelet]:
    """Run the pods of a namespace; all of them end at the end."""
    kubelet = PlayedKubelet(cluster, kubeconfig, namespace, folder)
    kubelet.start()
    try:
        yield kubelet
    finally:
        kubelet.end()
