"""This machine as a cluster for a test: jobs submitted by the command, watched through the port, ended at the end."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convoy.core.api import names
from convoy.core.api.job import ElasticJob
from convoy.core.api.pod import Pod
from convoy.core.cluster.local import LocalCluster, open_cluster
from convoy.core.cluster.local.processes import descendants
from convoy.core.cluster.port import Kind
from convoy.core.process.lock import ProcessLock
from support import manifests
from support.command import COMMAND, convoy
from support.waiting import until

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = ["--global-batch=64", "--width=8", "--depth=1", "--checkpoint-every=5"]


def digits(name: str, *flags: str, workers: int = 1, **changes: Any) -> manifests.Manifest:
    """Return a small training job that is sized by hand; without ``--steps`` it trains until it is told to finish."""
    steps = [] if any(flag.startswith("--steps") for flag in flags) else ["--steps=1000000"]
    command = ["dlrover-run", f"--nnodes=1:{workers}", "--max-restarts=1000", "digits.py", *SMALL, *steps, *flags]
    one = {"name": "OMP_NUM_THREADS", "value": "1"}
    made = manifests.job(name, container__command=command, container__env=[one], worker__replicas=workers, **changes)
    container = made["spec"]["replicaSpecs"]["worker"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "500m", "memory": "256Mi"}}
    made["metadata"]["annotations"] = {names.ANNOTATION_WORKING_DIRECTORY: str(EXAMPLES)}
    return made


@dataclass(frozen=True)
class Record:
    """One finished step of one process."""

    t: float
    step: int
    round: int
    rank: int
    world: int
    pid: int
    pod: str
    global_batch: int


def records_in(job_dir: Path) -> list[Record]:
    """Return the steps that processes logged in the folder that their job's pods share, in the order of time."""
    found = []
    for file in (job_dir / "steps").glob("*.jsonl"):
        for line in file.read_text().splitlines():
            fields: dict[str, Any] = json.loads(line) if line.endswith("}") else {"event": "torn"}
            if "event" not in fields:
                found.append(Record(**{key: fields[key] for key in Record.__dataclass_fields__}))
    return sorted(found, key=lambda record: record.t)


class Machine:
    """A state directory with its operator."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self.cluster: LocalCluster = open_cluster(state_dir)

    def submit(self, directory: Path, manifest: manifests.Manifest) -> str:
        """Submit a job without waiting; return its name."""
        done = convoy("submit", manifests.write(directory, manifest), "--local", "--detach")
        assert done.status == 0, done
        return str(manifest["metadata"]["name"])

    def job(self, name: str) -> ElasticJob:
        """Return the job as it is now."""
        return ElasticJob.from_manifest(self.cluster.get(Kind.ELASTIC_JOB, "default", name))

    def pods(self, name: str, role: str = names.WORKER) -> list[Pod]:
        """Return the job's pods of a role that run."""
        found = self.cluster.list(Kind.POD, "default", {names.LABEL_JOB: name, names.LABEL_ROLE: role}).items
        return [pod for pod in map(Pod.from_manifest, found) if pod.alive and self._pid(pod) is not None]

    def pid(self, pod: Pod) -> int:
        """Return the main process of a pod."""
        pid = self._pid(pod)
        assert pid is not None
        return pid

    def _pid(self, pod: Pod) -> int | None:
        status = self.cluster.get(Kind.POD, pod.namespace, pod.name).get("status") or {}
        running = (status.get("containerStatuses") or [{}])[0]
        return running.get("pid") if "running" in (running.get("state") or {}) else None

    def brain_pid(self) -> int | None:
        """Return the Brain's process, None while there is none."""
        status = self.cluster.get(Kind.POD, "convoy-system", "convoy-brain").get("status") or {}
        running = (status.get("containerStatuses") or [{}])[0]
        return running.get("pid") if "running" in (running.get("state") or {}) else None

    def operator_pid(self) -> int | None:
        """Return the operator's process, None where none runs."""
        return ProcessLock(self.state_dir / "operator.lock").holder()

    def kill_node(self, pod: Pod) -> None:
        """Kill all of a pod's processes but its shim."""
        agent = self.pid(pod)
        for pid in (agent, *descendants(agent)):
            os.kill(pid, signal.SIGKILL)

    def job_dir(self, name: str) -> Path:
        """Return the folder that the job's pods share."""
        return self.state_dir / "jobs" / "default" / f"{name}-{self.job(name).metadata.uid[:8]}"

    def records(self, name: str) -> list[Record]:
        """Return the steps that the job's processes logged, in the order of time."""
        return records_in(self.job_dir(name))

    def last_step(self, name: str) -> int:
        """Return the highest step that was finished, 0 where none was."""
        return max((record.step for record in self.records(name)), default=0)

    def await_step(self, name: str, step: int, *, timeout: float = 40.0) -> None:
        """Wait until a step is finished."""
        until(lambda: self.last_step(name) >= step, f"step {step} of {name}", timeout=timeout, every=0.1)

    def await_more(self, name: str, steps: int = 10, *, timeout: float = 40.0) -> None:
        """Wait until so many more steps are finished."""
        self.await_step(name, self.last_step(name) + steps, timeout=timeout)

    def await_world(self, name: str, world: int, *, timeout: float = 40.0) -> None:
        """Wait until the job trains with so many processes."""
        until(lambda: (r := self.records(name)) and r[-1].world == world, f"{world} processes", timeout=timeout)

    def finish(self, name: str, *, timeout: float = 30.0) -> None:
        """Have the job stop at its next step, and wait until it has Succeeded."""
        (self.job_dir(name) / "finish").touch()
        try:
            until(
                lambda: self.job(name).status.phase == "Succeeded", f"{name} to succeed", timeout=timeout, every=0.1
            )
        except AssertionError as error:
            error.add_note(self.account(name))
            raise

    def _succeeded(self, name: str) -> bool:
        return self.job(name).status.phase == "Succeeded"

    def account(self, name: str) -> str:
        """Return what the cluster and its logs say of a job, for whoever reads of a test that failed."""
        pods = self.cluster.list(Kind.POD, "default", {names.LABEL_JOB: name}).items
        logs = [self.state_dir / "operator.log", *(self.state_dir / "cluster" / "logs" / "default").glob("*/*.log")]
        return "\n".join(
            [
                f"operator: {self.operator_pid()}; last step: {self.last_step(name)}",
                json.dumps(self.job(name).to_manifest()["status"]),
                *(json.dumps({"pod": pod["metadata"]["name"], **(pod.get("status") or {})}) for pod in pods),
                *(line for log in logs for line in [f"--- {log}", *log.read_text().splitlines()[-25:]]),
            ]
        )

    def end(self) -> None:
        """End the operator and all pods."""
        if (pid := self.operator_pid()) is not None:
            os.kill(pid, signal.SIGTERM)
            until(lambda: self.operator_pid() is None, "the operator's end", timeout=20.0)
        gone = subprocess.Popen(["true"])
        gone.wait()
        # An operator whose companion is gone ends all pods, then itself.
        subprocess.run(
            [*COMMAND, "operator", "--exit-with", str(gone.pid)], check=True, timeout=60, capture_output=True
        )
        self.cluster.close()


@contextmanager
def machine(state_dir: Path) -> Iterator[Machine]:
    """Give the machine, and end all that runs on it."""
    made = Machine(state_dir)
    try:
        yield made
    finally:
        made.end()


def alive(pid: int) -> bool:
    """Return whether a process runs; while any thread of it is left it does, and holds its locks."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        ended, _, _ = select.select([process], [], [], 0)
        return not ended
    finally:
        os.close(process)
