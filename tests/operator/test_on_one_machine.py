"""The operator's process on a real local cluster: real pods, real deaths; a shell stands for the master."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from convoy.core.api import names
from convoy.core.api.meta import Manifest
from convoy.core.cluster.local import LocalCluster, open_cluster
from convoy.core.cluster.port import Kind
from convoy.core.process.lock import ProcessLock
from support.operator_world import job_manifest, plan_manifest, pod_meta
from support.waiting import until

# "$$$$" is "$$" once the manifest's own references are expanded
MASTER = 'echo "$CONVOY_JOB_DIR" $$$$ $(date +%s.%N) >> "$CONVOY_STATE_DIR/masters"; exec sleep 600'
RUN = """
import sys
from convoy.core.api.errors import ConvoyError
from convoy.operator.on_one_machine import run
from convoy.operator.settings import OperatorSettings
flags = dict(zip(sys.argv[2::2], map(float, sys.argv[3::2])))
if "exit_with" in flags:
    flags["exit_with"] = int(flags["exit_with"])
try:
    run(OperatorSettings.load(master_command=["sh", "-c", sys.argv[1], "master"], **flags))
except ConvoyError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_status)
"""


class Operator:
    """An operator's process."""

    def __init__(self, state: Path, *, crash_at: str = "", **flags: Any) -> None:
        words = [str(word) for pair in flags.items() for word in pair]
        self.log = state / "operator.log"
        self._file = open(self.log, "ab")  # noqa: SIM115 (closed by end)
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN, MASTER, *words],
            stderr=self._file,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **({"CONVOY_CRASH_AT": crash_at} if crash_at else {})},
        )

    def end(self, number: int = signal.SIGTERM, *, within: float = 15.0) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(within)
        self._file.close()
        return status

    def wait(self, within: float = 15.0) -> int:
        status = self.process.wait(within)
        self._file.close()
        return status


@pytest.fixture
def cluster(state_dir: Path) -> Iterator[LocalCluster]:
    with open_cluster(state_dir) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _no_pod_left(state_dir: Path) -> Iterator[None]:
    yield
    companion = subprocess.Popen(["true"])
    companion.wait()
    Operator(state_dir, exit_with=companion.pid).wait(30)  # ends all pods, then itself


def worker_job(name: str = "digits") -> Manifest:
    job = job_manifest(name)
    container = job["spec"]["replicaSpecs"]["worker"]["template"]["spec"]["containers"][0]
    container |= {"command": ["sleep", "600"], "resources": {}}
    return job


def pods(cluster: LocalCluster) -> dict[str, Manifest]:
    return {pod["metadata"]["name"]: pod for pod in cluster.list(Kind.POD, "default").items}


def running(cluster: LocalCluster, name: str) -> Manifest | None:
    pod = pods(cluster).get(name)
    return pod if pod is not None and pod["status"].get("phase") == "Running" else None


def masters(state: Path) -> list[tuple[str, int, float]]:
    """Return the masters that started: their folder, pid and time."""
    path = state / "masters"
    lines = path.read_text().splitlines() if path.exists() else []
    found = [line.split() for line in lines if len(line.split()) == 3]
    return [(folder, int(pid), float(moment)) for folder, pid, moment in found]


def master_says(cluster: LocalCluster, **training: Any) -> None:
    manifest = {
        "apiVersion": names.API_VERSION,
        "kind": "ElasticJob",
        "metadata": {"name": "digits", "namespace": "default"},
        "status": {"master": {"epoch": 1}, "training": training},
    }
    cluster.apply_status(manifest, field_manager="convoy-master")


def status(cluster: LocalCluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.get(Kind.ELASTIC_JOB, "default", "digits").get("status") or {}
    return found


def test_a_job_from_its_submission_to_its_end(cluster: LocalCluster, state_dir: Path) -> None:
    operator = Operator(state_dir)
    cluster.create(worker_job(), field_manager="convoy-cli")
    until(lambda: running(cluster, names.master_pod("digits", 0)) and masters(state_dir), "the master")
    uid = cluster.get(Kind.ELASTIC_JOB, "default", "digits")["metadata"]["uid"]
    assert masters(state_dir)[0][0] == str(state_dir / "jobs" / "default" / f"digits-{uid[:8]}")
    assert Path(masters(state_dir)[0][0]).is_dir()

    master_says(cluster, state="Running")
    written = time.monotonic()
    cluster.create(plan_manifest(0, createPods=[pod_meta(0), pod_meta(1)]), field_manager="convoy-master")
    until(lambda: len(pods(cluster)) == 3, "the plan's pods", every=0.002)
    created = time.monotonic() - written
    assert created < 1.0  # the aim is 0.1 s; a busy machine may take longer
    until(lambda: running(cluster, "digits-edljob-worker-1"), "the workers")
    until(lambda: status(cluster).get("phase") == "Running", "phase Running")

    pid = masters(state_dir)[0][1]
    killed = time.time()
    os.kill(pid, signal.SIGKILL)
    until(lambda: len(masters(state_dir)) == 2, "the next master")
    assert masters(state_dir)[1][2] - killed < 3.0  # the aim is 0.3 s
    until(lambda: running(cluster, names.master_pod("digits", 1)), "the next master's pod")
    assert masters(state_dir)[1][0] == masters(state_dir)[0][0]
    print(
        f"plan to pods {created * 1000:.0f} ms, master to master {(masters(state_dir)[1][2] - killed) * 1000:.0f} ms"
    )

    master_says(cluster, state="Succeeded", reason="AllNodesDone")
    os.kill(masters(state_dir)[1][1], signal.SIGKILL)
    until(lambda: status(cluster).get("phase") == "Succeeded", "phase Succeeded")
    assert status(cluster)["completionTime"]
    assert len(masters(state_dir)) == 2
    assert operator.end() == 0


def test_pods_outlive_the_operator_and_the_next_one_goes_on(cluster: LocalCluster, state_dir: Path) -> None:
    first = Operator(state_dir)
    cluster.create(worker_job(), field_manager="convoy-cli")
    until(lambda: running(cluster, names.master_pod("digits", 0)) and masters(state_dir), "the master")
    assert first.end() == 0
    pid = masters(state_dir)[0][1]
    assert psutil.Process(pid).is_running()

    second = Operator(state_dir)
    master_says(cluster, state="Waiting")
    cluster.create(plan_manifest(0, createPods=[pod_meta(0)]), field_manager="convoy-master")
    until(lambda: running(cluster, "digits-edljob-worker-0"), "the worker")
    second.process.kill()  # without a farewell
    second.wait()
    cluster.create(plan_manifest(1, createPods=[pod_meta(1)]), field_manager="convoy-master")
    third = Operator(state_dir)
    until(lambda: running(cluster, "digits-edljob-worker-1"), "the second worker")
    assert [moment[1] for moment in masters(state_dir)] == [pid]
    assert psutil.Process(pid).is_running()
    assert third.end() == 0


def test_a_second_operator_is_refused_and_names_the_first(state_dir: Path) -> None:
    first = Operator(state_dir)
    until(lambda: "operator runs" in first.log.read_text(), "the first operator")
    begun = time.monotonic()
    second = Operator(state_dir)
    assert second.wait() == 2
    assert time.monotonic() - begun < 5
    assert f"pid {first.process.pid}" in second.log.read_text()
    assert first.end() == 0


def test_an_operator_without_work_ends_and_takes_convoys_own_pods_along(
    cluster: LocalCluster, state_dir: Path
) -> None:
    own = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "brain", "namespace": "convoy-system"},
        "spec": {"restartPolicy": "Always", "containers": [{"name": "main", "command": ["sleep", "600"]}]},
    }
    cluster.create(own, field_manager="convoy-cli")
    cluster.create(worker_job(), field_manager="convoy-cli")
    operator = Operator(state_dir, exit_when_idle=0.5)
    until(lambda: running(cluster, names.master_pod("digits", 0)) and masters(state_dir), "the master")
    time.sleep(1)
    assert operator.process.poll() is None  # there is an unfinished job
    master_says(cluster, state="Succeeded")
    os.kill(masters(state_dir)[0][1], signal.SIGTERM)
    assert operator.wait() == 0
    assert cluster.list(Kind.POD, "convoy-system").items == []
    assert list(pods(cluster)) == [names.master_pod("digits", 0)]  # it ended; its logs can still be read
    assert status(cluster)["phase"] == "Succeeded"


def test_a_job_that_comes_while_an_idle_operator_ends_is_run(cluster: LocalCluster, state_dir: Path) -> None:
    """Who submits it sees the operator's lock held, and starts none."""
    slow = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "brain", "namespace": "convoy-system"},
        "spec": {"containers": [{"name": "main", "command": ["sh", "-c", "trap '' TERM; sleep 2; sleep 600"]}]},
    }
    cluster.create(slow, field_manager="convoy-cli")
    operator = Operator(state_dir, exit_when_idle=0.5)
    until(lambda: "deletionTimestamp" in _only_pod(cluster)["metadata"], "the idle operator to end")
    lock = ProcessLock(state_dir / "operator.lock")
    assert lock.holder() == operator.process.pid
    cluster.create(worker_job(), field_manager="convoy-cli")
    assert lock.holder() == operator.process.pid
    until(lambda: running(cluster, names.master_pod("digits", 0)), "the master", timeout=20)
    assert lock.holder() == operator.process.pid
    assert "it goes on" in operator.log.read_text()
    assert operator.end() == 0


def test_an_operator_outlives_a_cluster_that_cannot_be_read_for_a_while(
    cluster: LocalCluster, state_dir: Path
) -> None:
    cluster.create(worker_job(), field_manager="convoy-cli")
    operator = Operator(state_dir, exit_when_idle=0.5)
    until(lambda: running(cluster, names.master_pod("digits", 0)), "the master", timeout=20)
    with sqlite3.connect(cluster.layout.database, timeout=10) as database:
        database.execute("ALTER TABLE objects RENAME TO away")
    try:
        until(lambda: "the cluster couldn't be read" in operator.log.read_text(), "a look that failed")
    finally:
        with sqlite3.connect(cluster.layout.database, timeout=10) as database:
            database.execute("ALTER TABLE away RENAME TO objects")
    cluster.create(worker_job("other"), field_manager="convoy-cli")
    until(lambda: running(cluster, names.master_pod("other", 0)), "the next job's master", timeout=20)
    assert operator.end() == 0


def _only_pod(cluster: LocalCluster) -> Manifest:
    (pod,) = cluster.list(Kind.POD).items
    return pod


def test_an_operator_ends_with_its_companion_and_so_do_all_pods(cluster: LocalCluster, state_dir: Path) -> None:
    companion = subprocess.Popen(["sleep", "30"])
    operator = Operator(state_dir, exit_with=companion.pid)
    cluster.create(worker_job(), field_manager="convoy-cli")
    until(lambda: running(cluster, names.master_pod("digits", 0)) and masters(state_dir), "the master")
    pid = masters(state_dir)[0][1]
    companion.kill()
    companion.wait()
    assert operator.wait() == 0
    assert cluster.list(Kind.POD).items == []
    assert not psutil.pid_exists(pid)


def test_a_job_that_is_refused_leaves_the_others_alone(cluster: LocalCluster, state_dir: Path) -> None:
    wrong = worker_job("wrong")
    wrong["spec"]["distributionStrategy"] = "ParameterServerStrategy"
    cluster.create(wrong, field_manager="convoy-cli")
    cluster.create(worker_job(), field_manager="convoy-cli")
    operator = Operator(state_dir)
    until(lambda: running(cluster, names.master_pod("digits", 0)), "the other job's master")
    until(lambda: cluster.get(Kind.ELASTIC_JOB, "default", "wrong").get("status"), "the wrong job's status")
    refused = cluster.get(Kind.ELASTIC_JOB, "default", "wrong")["status"]
    assert refused["phase"] == "Failed"
    (failed,) = [one for one in refused["conditions"] if one["type"] == "Failed"]
    assert failed["reason"] == "InvalidManifest"
    assert "spec.distributionStrategy" in failed["message"]
    assert operator.end() == 0


@pytest.mark.long
def test_an_operator_killed_between_any_two_actions_is_followed_by_one_that_goes_on(
    cluster: LocalCluster, state_dir: Path
) -> None:
    cluster.create(worker_job(), field_manager="convoy-cli")
    nodes = [pod_meta(number) for number in range(3)]
    cluster.create(plan_manifest(0, createPods=nodes), field_manager="convoy-master")
    deaths = 0
    for number in range(20):
        operator = Operator(state_dir, crash_at=f"operator.action:{2 + number % 3}")
        done = until(
            lambda one=operator: (
                one.process.poll() is not None  # type: ignore[misc]
                or (len(pods(cluster)) == 4 and status(cluster).get("scalePlan"))
            ),
            "a death, or all pods",
        )
        if operator.process.poll() is None:
            assert done
            operator.end()
            break
        assert operator.wait() == -signal.SIGKILL
        deaths += 1
    else:
        raise AssertionError(f"after 20 operators: {sorted(pods(cluster))}")
    assert deaths > 3
    assert sorted(pods(cluster)) == [
        *(f"digits-edljob-worker-{number}" for number in range(3)),
        *(name for name in pods(cluster) if "master" in name),
    ]
    assert len([name for name in pods(cluster) if "master" in name]) == 1
