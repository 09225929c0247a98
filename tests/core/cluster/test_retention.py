"""Logs go when pod, job and a week are over, and no sooner; a stuck kubelet keeps what it uses."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from convoy.core.api import names
from convoy.core.api.errors import Unusable
from convoy.core.cluster.local import LocalCluster, LocalKubelet, retention
from convoy.core.cluster.local.retention import Job
from support.operator_world import job_manifest
from support.pods import end_all, pod, wait_gone, wait_phase
from support.waiting import until

NOW, WEEK = 1_000_000_000.0, 7 * 86_400.0


def log_of(folder: Path, pod: str, uid: str, last_line: float) -> Path:
    path = folder / "default" / pod / f"{uid}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("printed\n")
    os.utime(path, (last_line, last_line))
    return path


def test_a_log_stays_with_its_pod_with_its_job_and_a_week_longer(home: Path) -> None:
    job = Job("default", "digits", NOW - 3 * WEEK)
    long_ago = NOW - 2 * WEEK
    kept = [
        log_of(home, "some", "running", long_ago),
        log_of(home, names.pod("digits", "worker", 1), "u1", long_ago),
        log_of(home, names.master_pod("digits", 0), "u2", long_ago),
        log_of(home, names.pod("deleted", "worker", 1), "u3", NOW - WEEK + 60),
    ]
    gone = [
        log_of(home, "some", "ended", long_ago),
        log_of(home, names.pod("digits", "worker", 1), "of-an-earlier-job", NOW - 4 * WEEK),
        log_of(home, names.pod("deleted", "worker", 0), "u4", long_ago),
        log_of(home, names.pod("digits-2", "worker", 0), "u5", long_ago),
    ]
    assert retention.prune(home, {"running"}, [job], NOW) == len(gone)
    assert [path for path in kept if not path.exists()] == []
    assert [path for path in gone if path.exists()] == []
    assert not gone[2].parent.exists()


def test_a_starting_kubelet_removes_old_logs(cluster: LocalCluster) -> None:
    folder = cluster.layout.all_logs
    cluster.create(job_manifest("kept"), field_manager="test")
    old = log_of(folder, names.pod("deleted", "worker", 0), "u", time.time() - 2 * WEEK)
    wanted = log_of(folder, names.pod("kept", "worker", 0), "u", time.time())
    kubelet = LocalKubelet(cluster)
    kubelet.start()
    try:
        until(lambda: not old.exists(), "the old log to go")
        assert wanted.exists()
        cluster.create(pod("once", "echo", "hello"), field_manager="test")
        uid = wait_phase(cluster, "once", "Succeeded")["metadata"]["uid"]
        cluster.delete("Pod", "default", "once", grace_seconds=0)  # type: ignore[arg-type]
        wait_gone(cluster, "once")
        assert "hello" in cluster.layout.log("default", "once", uid).read_text()
    finally:
        end_all(cluster)
        kubelet.stop()


def test_a_kubelet_that_is_stuck_keeps_what_it_uses(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck, go_on = threading.Event(), threading.Event()
    kubelet = LocalKubelet(cluster)

    def reconcile() -> None:
        stuck.set()
        go_on.wait(30)

    monkeypatch.setattr(kubelet, "_reconcile", reconcile)
    kubelet.start()
    assert stuck.wait(5)
    wake = kubelet._wake
    kubelet.stop(timeout=0.1)
    os.fstat(wake)  # it is open still: no other file can get its number
    with pytest.raises(Unusable):
        LocalKubelet(cluster).start()
    go_on.set()
    kubelet.stop()
    later = LocalKubelet(cluster)
    later.start()
    later.stop()
