"""SIGKILL to each process that a pod hangs on: what was the pod is dead before it is reported so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from convoy.core.cluster.local import LocalCluster, LocalKubelet
from convoy.core.cluster.port import Kind
from support.pods import (
    end_all,
    main_pid,
    pod,
    python,
    read_pids,
    runs,
    shim_pid,
    terminated,
    wait_for,
    wait_gone,
    wait_phase,
)
from support.waiting import until

FAMILY = """
import os, subprocess, sys, time
flags = "os.O_WRONLY | os.O_APPEND | os.O_CREAT"
note = f"import os; os.write(os.open({sys.argv[1]!r}, {flags}), b'%d ' % os.getpid())"
exec(note)
proof = note + "; import signal,time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; time.sleep(300)"
subprocess.Popen([sys.executable, "-c", proof])
subprocess.Popen([sys.executable, "-c", proof], start_new_session=True)
if os.fork() == 0:      # a daemon: its parent ends at once, and it leads a session of its own
    os.setsid()
    if os.fork() == 0:
        exec(note)
        time.sleep(300)
    os._exit(0)
time.sleep(float(sys.argv[2]))
"""
"""A main process, a child, a child in a session of its own and a daemon; each notes its pid."""

KUBELET = """
import sys, time
from pathlib import Path
from convoy.core.cluster.local import LocalKubelet, open_cluster
kubelet = LocalKubelet(open_cluster(Path(sys.argv[1])))
kubelet.start()
print("ready", flush=True)
time.sleep(300)
"""


@contextmanager
def kubelet_process(state_dir: Path, **env: str) -> Iterator[subprocess.Popen[str]]:
    """A kubelet in a process of its own, killed at the end."""
    with subprocess.Popen(
        [sys.executable, "-c", KUBELET, state_dir],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **env},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def kubelet_here(cluster: LocalCluster) -> Iterator[None]:
    """A kubelet in this process, which ends all pods at the end."""
    kubelet = LocalKubelet(cluster)
    kubelet.start()
    try:
        yield
        end_all(cluster)
    finally:
        kubelet.stop()


def start_family(cluster: LocalCluster, path: Path, name: str = "family") -> list[int]:
    cluster.create(python(name, FAMILY, path, "300"), field_manager="t")
    wait_phase(cluster, name, "Running")
    pids = read_pids(path, 4)
    assert all(map(runs, pids))
    return pids


@pytest.mark.usefixtures("kubelet")
class TestKillsWithinAPod:
    def test_the_main_process(self, cluster: LocalCluster, tmp_path: Path) -> None:
        pids = start_family(cluster, tmp_path / "pids")
        since = cluster.list(Kind.POD).resource_version
        begin = time.monotonic()
        os.kill(pids[0], signal.SIGKILL)
        change = next(cluster.watch(Kind.POD, since, timeout=10))
        seconds = time.monotonic() - begin
        alive = [pid for pid in pids if runs(pid)]
        assert change.object["status"]["phase"] == "Failed"
        assert terminated(change.object)["exitCode"] == 137
        assert terminated(change.object)["reason"] == "Killed"
        assert alive == [], "reported as over while parts of it ran"
        assert seconds < 0.5

    def test_the_main_process_and_all_of_its_children(self, cluster: LocalCluster, tmp_path: Path) -> None:
        pids = start_family(cluster, tmp_path / "pids")
        begin = time.monotonic()
        for pid in pids:
            with suppress(ProcessLookupError):  # the shim may be quicker, once the first one is gone
                os.kill(pid, signal.SIGKILL)
        ended = wait_phase(cluster, "family", "Failed")
        assert terminated(ended)["exitCode"] == 137
        assert time.monotonic() - begin < 0.5

    def test_the_shim(self, cluster: LocalCluster, tmp_path: Path) -> None:
        pids = start_family(cluster, tmp_path / "pids")
        shim = shim_pid(cluster.get(Kind.POD, "default", "family"))
        since = cluster.list(Kind.POD).resource_version
        begin = time.monotonic()
        os.kill(shim, signal.SIGKILL)
        change = next(cluster.watch(Kind.POD, since, timeout=10))
        alive = [pid for pid in pids if runs(pid)]
        assert change.object["status"]["phase"] == "Failed"
        assert (terminated(change.object)["exitCode"], terminated(change.object)["reason"]) == (137, "ShimLost")
        assert alive == [], "reported as lost while parts of it ran"
        assert time.monotonic() - begin < 1.0

    def test_the_shim_of_a_pod_that_restarts(self, cluster: LocalCluster) -> None:
        cluster.create(pod("server", "sleep", "60", restartPolicy="Always"), field_manager="t")
        first = wait_phase(cluster, "server", "Running")
        os.kill(shim_pid(first), signal.SIGKILL)
        again = wait_for(
            cluster,
            "server",
            lambda one: one["status"]["containerStatuses"][0].get("pid", main_pid(first)) != main_pid(first),
            "a restart",
        )
        assert not runs(main_pid(first))
        assert again["status"]["containerStatuses"][0]["restartCount"] == 1
        assert again["status"]["containerStatuses"][0]["lastState"]["terminated"]["reason"] == "ShimLost"

    def test_a_stopped_shim_doesnt_hold_up_a_deletion(
        self, cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("convoy.core.cluster.local.lifecycle.OVERDUE_SECONDS", 0.3)
        pids = start_family(cluster, tmp_path / "pids")
        os.kill(shim_pid(cluster.get(Kind.POD, "default", "family")), signal.SIGSTOP)
        cluster.delete(Kind.POD, "default", "family", grace_seconds=0.2)
        wait_gone(cluster, "family", timeout=5)
        assert not [pid for pid in pids if runs(pid)]

    def test_what_a_main_process_leaves_behind_goes_with_it(self, cluster: LocalCluster, tmp_path: Path) -> None:
        cluster.create(python("parent", FAMILY, tmp_path / "pids", "1.5"), field_manager="t")
        pids = read_pids(tmp_path / "pids", 4)
        wait_phase(cluster, "parent", "Succeeded")
        assert not [pid for pid in pids if runs(pid)]


class TestKillsOfTheKubelet:
    def test_pods_go_on_and_the_next_kubelet_adopts_them(
        self, cluster: LocalCluster, state_dir: Path, tmp_path: Path
    ) -> None:
        with kubelet_process(state_dir) as first:
            pids = start_family(cluster, tmp_path / "pids")
            before = cluster.get(Kind.POD, "default", "family")
            first.kill()
            first.wait()
            time.sleep(0.2)
            assert all(map(runs, pids))
        with kubelet_here(cluster):
            time.sleep(0.3)
            assert cluster.get(Kind.POD, "default", "family") == before
            assert all(map(runs, pids))
            os.kill(shim_pid(before), signal.SIGKILL)
            ended = wait_phase(cluster, "family", "Failed", timeout=3)
            assert terminated(ended)["reason"] == "ShimLost"
            assert not [pid for pid in pids if runs(pid)]

    def test_an_adopted_pod_can_be_deleted(self, cluster: LocalCluster, state_dir: Path, tmp_path: Path) -> None:
        with kubelet_process(state_dir):
            pids = start_family(cluster, tmp_path / "pids")
        cluster.delete(Kind.POD, "default", "family", grace_seconds=1)
        assert all(map(runs, pids)), "nobody is there to end them yet"
        with kubelet_here(cluster):
            wait_gone(cluster, "family", timeout=5)
            assert not [pid for pid in pids if runs(pid)]

    def test_a_pod_that_ends_meanwhile_tells_its_outcome(self, cluster: LocalCluster, state_dir: Path) -> None:
        with kubelet_process(state_dir):
            cluster.create(pod("brief", "sh", "-c", "sleep 0.7; exit 4"), field_manager="t")
            wait_phase(cluster, "brief", "Running")
        ended = wait_phase(cluster, "brief", "Failed", timeout=5)
        assert terminated(ended)["exitCode"] == 4
        with kubelet_here(cluster):
            time.sleep(0.2)
            assert cluster.get(Kind.POD, "default", "brief") == ended

    def test_a_shim_that_is_lost_meanwhile_is_found_and_its_pod_fenced(
        self, cluster: LocalCluster, state_dir: Path, tmp_path: Path
    ) -> None:
        with kubelet_process(state_dir) as kubelet:
            pids = start_family(cluster, tmp_path / "pids")
            kubelet.kill()
            os.kill(shim_pid(cluster.get(Kind.POD, "default", "family")), signal.SIGKILL)
            until(lambda: not runs(pids[0]), "the main process to die with its shim", timeout=2)
        with kubelet_here(cluster):
            ended = wait_phase(cluster, "family", "Failed", timeout=5)
            assert terminated(ended)["reason"] == "ShimLost"
            assert not [pid for pid in pids if runs(pid)]

    def test_an_always_pod_that_ended_meanwhile_is_restarted(self, cluster: LocalCluster, state_dir: Path) -> None:
        with kubelet_process(state_dir):
            cluster.create(pod("server", "sleep", "60", restartPolicy="Always"), field_manager="t")
            first = main_pid(wait_phase(cluster, "server", "Running"))
        os.kill(first, signal.SIGKILL)
        with kubelet_here(cluster):
            wait_for(
                cluster,
                "server",
                lambda one: one["status"]["containerStatuses"][0].get("pid", first) != first,
                "a restart",
            )

    def test_pods_created_meanwhile_are_started(self, cluster: LocalCluster) -> None:
        cluster.create(pod("early", "true"), field_manager="t")
        with kubelet_here(cluster):
            wait_phase(cluster, "early", "Succeeded")


@pytest.mark.parametrize(
    ("point", "reason"),
    [
        ("shim.before-start", "ShimLost"),
        ("shim.running", "ShimLost"),
        ("shim.before-outcome", "ShimLost"),
        ("shim.after-outcome", "Completed"),
    ],
)
def test_a_shim_that_dies_at_a_point_leaves_one_honest_outcome(
    cluster: LocalCluster, state_dir: Path, point: str, reason: str
) -> None:
    with kubelet_process(state_dir, CONVOY_CRASH_AT=point):
        cluster.create(pod("one", "sh", "-c", "echo started"), field_manager="t")
        ended = wait_for(cluster, "one", lambda one: one["status"]["phase"] in ("Succeeded", "Failed"), "its end")
        assert terminated(ended)["reason"] == reason
        assert cluster.logs("default", "one").count("started") <= 1
        end_all(cluster)


def test_killed_at_any_moment_while_pods_start_every_pod_runs_once(
    cluster: LocalCluster, state_dir: Path, tmp_path: Path
) -> None:
    names = [f"p{number}" for number in range(8)]
    for name in names:
        cluster.create(pod(name, "sh", "-c", f"echo x >> {tmp_path / name}"), field_manager="t")
    for pause in (0.02, 0.05, 0.1):
        with kubelet_process(state_dir):
            time.sleep(pause)
    with kubelet_here(cluster):
        for name in names:
            wait_phase(cluster, name, "Succeeded", timeout=20)
    assert [(tmp_path / name).read_text() for name in names] == ["x\n"] * len(names)
