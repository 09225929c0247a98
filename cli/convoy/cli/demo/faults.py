"""What the demo breaks, by SIGKILL, and the raw log of it."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

from convoy.core.api import names
from convoy.core.api.errors import NotFound
from convoy.core.api.pod import Pod, PodPhase
from convoy.core.cluster.local.processes import descendants, send
from convoy.core.cluster.port import Cluster, Kind


class Faults:
    """Kills, and appends a line for each kill to ``kills.jsonl``; the first line says the run's form."""

    def __init__(self, log: Path, form: str) -> None:
        self._log = log
        self._append({"form": form})

    def kill_worker(self, pod: str, pid: int) -> float:
        """Kill one training process; return when."""
        return self._kill("worker", pod, [pid])

    def kill_node(self, cluster: Cluster, namespace: str, pod: str) -> float:
        """Kill a pod's whole process tree at once: agent, workers and all; return when.

        Raises:
            NotFound: the pod has no process.
        """
        agent = main_pid(cluster, namespace, pod)
        return self._kill("node", pod, [agent, *descendants(agent)])

    def kill_master(self, cluster: Cluster, namespace: str, pod: str) -> float:
        """Kill the job's master; return when.

        Raises:
            NotFound: the pod has no process.
        """
        return self._kill("master", pod, [main_pid(cluster, namespace, pod)])

    def _kill(self, what: str, pod: str, pids: list[int]) -> float:
        moment = time.time()
        send(pids, signal.SIGKILL)
        self._append({"t": moment, "what": what, "pod": pod, "pid": pids[0], "all": pids})
        return moment

    def _append(self, record: dict[str, object]) -> None:
        with open(self._log, "a") as file:
            file.write(json.dumps(record) + "\n")


def main_pid(cluster: Cluster, namespace: str, pod: str) -> int:
    """Return the pid of a running pod's main process.

    Raises:
        NotFound: no such pod, or it doesn't run.
    """
    status = cluster.get(Kind.POD, namespace, pod).get("status") or {}
    found = (status.get("containerStatuses") or [{}])[0]
    if status.get("phase") != "Running" or "running" not in found.get("state", {}):
        raise NotFound(f"pod {namespace}/{pod} doesn't run")
    return int(found["pid"])


def is_running(cluster: Cluster, namespace: str, pod: str) -> bool:
    """Return whether a pod has a running process."""
    try:
        main_pid(cluster, namespace, pod)
    except NotFound:
        return False
    return True


def master_pod(cluster: Cluster, namespace: str, job: str) -> str | None:
    """Return the name of the job's running master pod, None where there is none now."""
    manifests = cluster.list(Kind.POD, namespace, {names.LABEL_JOB: job, names.LABEL_ROLE: names.MASTER}).items
    pods = [Pod.from_manifest(one) for one in manifests]
    return next((pod.name for pod in pods if pod.alive and pod.phase is PodPhase.RUNNING), None)
