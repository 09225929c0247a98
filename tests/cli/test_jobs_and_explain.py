"""``jobs``, ``explain`` and ``delete`` on a cluster whose objects say what they have to say."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from convoy.cli import printed
from convoy.cli.follow import Snapshot, failure, happened
from convoy.core.api import names
from convoy.core.api.errors import NotFound
from convoy.core.cluster.local import LocalCluster, open_cluster
from convoy.core.cluster.port import Kind
from convoy.core.process.lock import ProcessLock
from support import demo_run
from support.command import convoy
from support.manifests import job

STATUS: dict[str, Any] = {
    "phase": "Running",
    "conditions": [
        {"type": "MasterAvailable", "status": "True", "reason": "MasterRuns", "message": "epoch 2",
         "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ],
    "master": {"epoch": 2, "pod": "elasticjob-digits-dlrover-master-1"},
    "training": {"state": "Running", "nodes": 2, "step": 120, "samplesPerSecond": 4321.0, "restarts": 1},
}  # fmt: skip
PLAN: dict[str, Any] = {
    "apiVersion": "elastic.iml.github.io/v1alpha1",
    "kind": "ScalePlan",
    "metadata": {"name": "digits-scaleplan-1", "namespace": "default"},
    "spec": {
        "ownerJob": "digits",
        "replicaResourceSpecs": {"worker": {"replicas": 2}},
        "createPods": [{"name": "digits-edljob-worker-1", "type": "worker", "id": 1, "rankIndex": 1}],
        "explanation": {
            "reason": "FasterAtLarger", "message": "2 workers are faster", "recommendation": "r-1",
            "predictedSamplesPerSecond": 8000.0, "predictedLower": 7600.0, "predictedUpper": 8400.0,
            "pricePerHour": 0.25,
        },
    },
}  # fmt: skip


@pytest.fixture
def cluster(state_dir: Path) -> LocalCluster:
    cluster = open_cluster(state_dir)
    created = cluster.create(job("digits"), field_manager="test")
    identity = {key: created[key] for key in ("apiVersion", "kind")}
    status = {**identity, "metadata": {"name": "digits", "namespace": "default"}, "status": STATUS}
    cluster.apply_status(status, field_manager="test")
    cluster.create(PLAN, field_manager="test")
    return cluster


def test_jobs_lists_them(cluster: LocalCluster) -> None:
    shown = convoy("jobs")
    assert shown.status == 0
    for words in ("digits", "Running", "120", "4321"):
        assert words in shown.out
    assert "digits" not in convoy("jobs", "--namespace", "other").out


def test_a_failed_jobs_logs_are_named(cluster: LocalCluster, state_dir: Path) -> None:
    logs = state_dir / "cluster" / "logs" / "default"
    assert "explain" not in convoy("jobs").out
    training = {**STATUS["training"], "state": "Failed", "reason": "FailsAtOnce", "message": "no such batch"}
    ended = {**job("digits"), "status": {**STATUS, "phase": "Failed", "training": training}}
    cluster.apply_status(ended, field_manager="test")
    shown = convoy("jobs").out
    assert "`convoy explain digits` says why it failed" in shown
    assert str(logs) in shown

    end = Snapshot.take(cluster, "default", "digits")
    first, second = failure(end, []).splitlines()
    assert first == "default/digits failed: FailsAtOnce: no such batch"
    assert second == "`convoy explain digits` says how it came to it; its pods printed nothing"
    log = logs / "digits-edljob-worker-1" / "uid.log"
    assert failure(end, [log]).endswith(f"what its pods printed:\n  {log}")


def test_a_pod_that_waits_for_room_says_so(cluster: LocalCluster) -> None:
    before = Snapshot.take(cluster, "default", "digits")
    why = "0/1 nodes are available: cpu requested 1, free 0 of 2"
    placed = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
    name = "digits-edljob-worker-0"
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}}
    labels = {names.LABEL_JOB: "digits", names.LABEL_ROLE: "worker"}
    pod["metadata"]["labels"] = labels
    cluster.create({**pod, "spec": {"containers": [{"name": "main", "command": ["true"]}]}}, field_manager="test")
    cluster.apply_status({**pod, "status": {"phase": "Pending", "conditions": [placed]}}, field_manager="test")
    after = Snapshot.take(cluster, "default", "digits")
    assert happened(before, after) == [f"pod {name} waits: {why}"]
    assert happened(after, after) == []
    shown = convoy("explain", "digits").out
    assert f"{name}: {why}" in shown
    assert any(line.split()[:1] == [name] and line.rstrip().endswith(why) for line in shown.splitlines())


def test_the_newest_log_of_each_pod_is_named(cluster: LocalCluster, state_dir: Path) -> None:
    logs = state_dir / "cluster" / "logs" / "default"
    worker, master = "digits-edljob-worker-{}", "elasticjob-digits-dlrover-master-0"
    now = time.time() + 10
    ages = {
        (worker.format(10), "a"): 0, (worker.format(2), "old"): 5, (worker.format(2), "new"): 1, (master, "m"): 0,
        (worker.format(3), "earlier-job"): 1000, ("digits-two-edljob-worker-0", "other-job"): 0,
    }  # fmt: skip
    for (pod, uid), seconds in ages.items():
        (logs / pod).mkdir(parents=True, exist_ok=True)
        (logs / pod / f"{uid}.log").touch()
        os.utime(logs / pod / f"{uid}.log", (now - seconds, now - seconds))
    expected = [logs / worker.format(2) / "new.log", logs / worker.format(10) / "a.log", logs / master / "m.log"]
    found = printed.files(Snapshot.take(cluster, "default", "digits").job)
    assert found == expected
    lines = [line.strip() for line in convoy("explain", "digits").out.splitlines()]
    assert lines[-3:] == [str(log) for log in expected]


def test_jobs_as_json(cluster: LocalCluster) -> None:
    [one] = json.loads(convoy("jobs", "--json").out)
    assert one["status"]["training"]["step"] == 120


def test_there_are_no_jobs(state_dir: Path) -> None:
    assert "no jobs" in convoy("jobs").out
    assert convoy("jobs", "--json").out.strip() == "[]"
    assert list(state_dir.iterdir()) == []


def test_explain_tells_conditions_plans_and_predictions(cluster: LocalCluster) -> None:
    shown = convoy("explain", "digits").out
    for words in (
        "MasterRuns",
        "epoch 2",
        "digits-scaleplan-1",
        "FasterAtLarger",
        "predicted 8000 samples/s",
        "7600 to 8400",
        "0.250",
    ):
        assert words in shown
    assert "worker: 2 nodes, +1" in " ".join(shown.split())


def test_explain_names_the_jobs_that_are_there(cluster: LocalCluster) -> None:
    assert "there is digits in that namespace" in convoy("explain", "digit").err


def test_what_happened_is_told_once(cluster: LocalCluster) -> None:
    first = Snapshot.take(cluster, "default", "digits")
    lines = happened(None, first)
    assert "job is Running" in lines
    assert any("FasterAtLarger" in line and "worker: 2 nodes, +1" in line for line in lines)
    assert happened(first, Snapshot.take(cluster, "default", "digits")) == []


def test_a_replaced_master_and_a_restart_are_told(cluster: LocalCluster) -> None:
    first = Snapshot.take(cluster, "default", "digits")
    training = {**STATUS["training"], "restarts": 2}
    master = {"epoch": 3, "pod": "elasticjob-digits-dlrover-master-2"}
    status = {**job("digits"), "status": {**STATUS, "training": training, "master": master}}
    cluster.apply_status(status, field_manager="test")
    lines = happened(first, Snapshot.take(cluster, "default", "digits"))
    assert lines == [
        "master replaced: elasticjob-digits-dlrover-master-2 (epoch 3); the workers train on",
        "workers restarted in place (2 so far)",
    ]


def test_delete_drops_the_job(cluster: LocalCluster, state_dir: Path) -> None:
    with ProcessLock(state_dir / "operator.lock"):
        shown = convoy("delete", "digits")
    assert (shown.status, shown.out) == (0, "deleted job default/digits and 0 pods of it\n")
    with pytest.raises(NotFound):
        cluster.get(Kind.ELASTIC_JOB, "default", "digits")


def test_explain_tells_what_the_brain_knows(tmp_path: Path) -> None:
    demo_run.write_run(tmp_path)
    shown = convoy("explain", "digits", "--state-dir", tmp_path / "state").out
    for words in (
        "realized 8,619 samples/s, +1% against the predicted one (within 7,680 to 9,387)",
        "CHANGE [FasterAtLarger]",
        "2 workers are faster",
        "- the limit is computing, 80 % of a step",
        "ProcessFailed happened",
    ):
        assert words in shown


def test_explain_without_the_brains_store(cluster: LocalCluster) -> None:
    shown = convoy("explain", "digits")
    assert shown.status == 0
    assert "its store can't be read" in shown.out
