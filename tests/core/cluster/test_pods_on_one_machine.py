"""What only the local cluster does with pods: logs, room, working directory, niceness, restarts, messages."""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import time
from pathlib import Path

import pytest

from convoy.core.api.errors import Unusable
from convoy.core.api.pod import Pod, PodPhase
from convoy.core.cluster.local import LocalCluster, LocalKubelet
from convoy.core.cluster.port import Kind
from support.pods import main_pid, pod, python, runs, terminated, wait_for, wait_gone, wait_phase
from support.waiting import until

pytestmark = pytest.mark.usefixtures("kubelet")


def test_a_pod_runs_soon_after_it_was_created(cluster: LocalCluster) -> None:
    seconds = []
    for number in range(6):
        since = cluster.list(Kind.POD).resource_version
        begin = time.monotonic()
        cluster.create(pod(f"p{number}", "true"), field_manager="t")
        for change in cluster.watch(Kind.POD, since, timeout=10):
            if change.object["status"]["phase"] == "Running":
                break
        seconds.append(time.monotonic() - begin)
    assert statistics.median(seconds) < 0.5, seconds  # some 0.1 s on an idle machine


def test_pods_share_no_session_with_the_kubelet(cluster: LocalCluster) -> None:
    cluster.create(pod("one", "sleep", "30"), field_manager="t")
    pid = main_pid(wait_phase(cluster, "one", "Running"))
    assert os.getsid(pid) == pid


def test_the_environment_is_clean_and_knows_the_cluster(
    cluster: LocalCluster, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of the user")
    cluster.create(pod("one", "env"), field_manager="t")
    wait_phase(cluster, "one", "Succeeded")
    env = dict(line.split("=", 1) for line in cluster.logs("default", "one").splitlines())
    assert env["CONVOY_STATE_DIR"] == str(state_dir)
    assert env["PATH"].startswith(f"{Path(sys.executable).parent}:")
    assert "AWS_SECRET_ACCESS_KEY" not in env


def test_the_working_directory_is_the_containers_else_the_annotations(cluster: LocalCluster, tmp_path: Path) -> None:
    for name, working in (("a", None), ("b", str(tmp_path / "own"))):
        manifest = pod(name, "pwd", **({"workingDir": working} if working else {}))
        manifest["metadata"]["annotations"] = {"convoy/working-directory": str(tmp_path)}
        (tmp_path / "own").mkdir(exist_ok=True)
        cluster.create(manifest, field_manager="t")
        wait_phase(cluster, name, "Succeeded")
        assert cluster.logs("default", name).strip() == (working or str(tmp_path))


def test_a_nice_pod_yields_the_cpu(cluster: LocalCluster) -> None:
    manifest = pod("nice", "nice")
    manifest["metadata"]["annotations"] = {"convoy/nice": "5"}
    cluster.create(manifest, field_manager="t")
    wait_phase(cluster, "nice", "Succeeded")
    assert int(cluster.logs("default", "nice")) == os.nice(0) + 5


@pytest.mark.parametrize(
    ("command", "more", "named"),
    [
        (["no-such-program", "x"], {}, "'no-such-program'"),
        (["/no/such/program"], {}, "'/no/such/program'"),
        (["true"], {"workingDir": "/no/such/folder"}, "/no/such/folder"),
        (["true"], {"env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}, "Secret 's'"),
        ([], {"args": []}, "no command"),
    ],
)
def test_what_cant_be_started_fails_and_is_named(
    cluster: LocalCluster, command: list[str], more: dict[str, object], named: str
) -> None:
    cluster.create(pod("bad", *command, **more), field_manager="t")
    ended = terminated(wait_phase(cluster, "bad", "Failed"))
    assert (ended["exitCode"], ended["reason"]) == (127, "StartError")
    assert named in ended["message"]


def test_the_message_is_the_logs_last_lines(cluster: LocalCluster) -> None:
    cluster.create(
        python("bad", "for i in range(5000): print('line', i)\nraise SystemExit('the end')"), field_manager="t"
    )
    message = terminated(wait_phase(cluster, "bad", "Failed"))["message"]
    assert message.endswith("line 4999\nthe end")
    assert len(message) <= 2048
    assert message.startswith("line ")


def test_signals_keep_their_usual_meaning(cluster: LocalCluster) -> None:
    cluster.create(pod("pipe", "sh", "-c", "yes | head -n 1; kill -TERM $$$$"), field_manager="t")
    ended = wait_phase(cluster, "pipe", "Failed")
    assert terminated(ended)["exitCode"] == 143
    assert terminated(ended)["reason"] == "Killed"
    assert cluster.logs("default", "pipe") == "y\n"


def test_a_pod_is_read_as_the_slim_record(cluster: LocalCluster) -> None:
    cluster.create(pod("slim", "sh", "-c", "echo why; exit 7"), field_manager="t")
    record = Pod.from_manifest(wait_phase(cluster, "slim", "Failed"))
    assert (record.phase, record.exit_code, record.reason, record.message) == (PodPhase.FAILED, 7, "Error", "why")
    assert record.node == "local"


def test_a_pod_waits_until_another_makes_room(cluster: LocalCluster) -> None:
    all_of_it = {"requests": cluster.get(Kind.NODE, "", "local")["status"]["allocatable"]}
    cluster.create(pod("first", "sleep", "30", resources=all_of_it), field_manager="t")
    wait_phase(cluster, "first", "Running")
    cluster.create(pod("second", "true", resources=all_of_it), field_manager="t")
    waiting = wait_for(cluster, "second", lambda one: "conditions" in one["status"], "a condition")
    assert waiting["status"]["conditions"][0]["reason"] == "Unschedulable"
    assert "free 0 of" in waiting["status"]["conditions"][0]["message"]
    cluster.delete(Kind.POD, "default", "first", grace_seconds=0)
    wait_phase(cluster, "second", "Succeeded")


def test_an_always_pod_restarts_with_growing_pauses(cluster: LocalCluster) -> None:
    cluster.create(pod("loop", "sh", "-c", "date +%s.%N; exit 1", restartPolicy="Always"), field_manager="t")
    starts = until(lambda: found if len(found := cluster.logs("default", "loop").split()) >= 4 else [], "4 starts")
    pauses = [float(later) - float(sooner) for sooner, later in itertools.pairwise(starts)]
    assert pauses[1] > pauses[0]
    assert pauses[2] > 0.9
    waiting = wait_for(
        cluster,
        "loop",
        lambda one: (
            "waiting" in one["status"]["containerStatuses"][0]["state"]
            and one["status"]["containerStatuses"][0]["restartCount"] >= 3
        ),
        "back-off",
    )
    status = waiting["status"]["containerStatuses"][0]
    assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert status["lastState"]["terminated"]["exitCode"] == 1
    assert waiting["status"]["phase"] == "Running"
    cluster.delete(Kind.POD, "default", "loop")
    wait_gone(cluster, "loop", timeout=3)


def test_the_log_stays_when_the_pod_is_gone_and_a_new_pod_begins_its_own(cluster: LocalCluster) -> None:
    cluster.create(pod("one", "echo", "first"), field_manager="t")
    wait_phase(cluster, "one", "Succeeded")
    cluster.delete(Kind.POD, "default", "one")
    wait_gone(cluster, "one")
    assert cluster.logs("default", "one") == "first\n"
    cluster.create(pod("one", "echo", "second"), field_manager="t")
    wait_phase(cluster, "one", "Succeeded")
    assert cluster.logs("default", "one") == "second\n"


def test_a_long_log_is_read_from_its_end(cluster: LocalCluster) -> None:
    cluster.create(python("long", "for i in range(100_000): print(i)\nprint('last', end='')"), field_manager="t")
    wait_phase(cluster, "long", "Succeeded")
    assert cluster.logs("default", "long", tail=2) == "99999\nlast"
    assert cluster.logs("default", "long", tail=0) == ""
    assert cluster.logs("default", "long").count("\n") == 100_000


def test_grace_may_be_shortened_afterwards(cluster: LocalCluster) -> None:
    code = "import signal,time\nsignal.signal(15, signal.SIG_IGN)\nprint('up')\ntime.sleep(60)"
    cluster.create(python("stubborn", code), field_manager="t")
    pid = main_pid(wait_phase(cluster, "stubborn", "Running"))
    until(lambda: cluster.logs("default", "stubborn"), "the handler")
    cluster.delete(Kind.POD, "default", "stubborn", grace_seconds=60)
    time.sleep(0.3)
    assert runs(pid)
    cluster.delete(Kind.POD, "default", "stubborn", grace_seconds=0)
    wait_gone(cluster, "stubborn", timeout=5)
    assert not runs(pid)


def test_a_job_takes_its_pods_along_when_it_is_deleted(cluster: LocalCluster) -> None:
    owner = cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "owner"}}, field_manager="t")
    owned = pod("owned", "sleep", "60", terminationGracePeriodSeconds=5)
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Secret", "name": "owner", "uid": owner["metadata"]["uid"], "controller": True}
    ]
    cluster.create(owned, field_manager="t")
    pid = main_pid(wait_phase(cluster, "owned", "Running"))
    cluster.delete(Kind.SECRET, "default", "owner")
    wait_gone(cluster, "owned", timeout=5)
    assert not runs(pid)


def test_a_second_kubelet_is_refused(cluster: LocalCluster) -> None:
    with pytest.raises(Unusable, match=str(os.getpid())):
        LocalKubelet(cluster).start()


def test_many_pods_at_once(cluster: LocalCluster) -> None:
    for number in range(12):
        cluster.create(pod(f"p{number}", "sh", "-c", f"exit {number % 2}"), field_manager="t")
    for number in range(12):
        wait_phase(cluster, f"p{number}", "Failed" if number % 2 else "Succeeded", timeout=30)
