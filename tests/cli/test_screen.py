"""What jobs say is shown as it is: never read as markup, and never cut where nobody's terminal ends."""

from __future__ import annotations

import io
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from convoy.cli import explain
from convoy.cli.demo.stage import Stage
from convoy.cli.explain import elsewhere, explanation
from convoy.cli.jobs import latest
from convoy.cli.screen import Working, counted
from convoy.cli.told import Answer, Happened, Told
from convoy.core.api.job import ElasticJob
from convoy.core.api.pod import Pod
from convoy.core.cluster.local import LocalCluster, open_cluster
from support.command import convoy
from support.manifests import job

LONG = "a-job-whose-name-is-as-long-as-names-of-jobs-may-become-in-teams"[:50]
LOG = Path("/a/state/directory/cluster/logs/default") / LONG / "0b7c.log"
SAID = "[rank1]: IndexError at [/x] :smile: [bold]x"


def failed(name: str, message: str, created: str) -> dict[str, Any]:
    training = {"state": "Failed", "reason": "FailsAtOnce", "message": message}
    condition = {"type": "Failed", "status": "True", "reason": "FailsAtOnce", "message": message}
    made = job(name)
    made["metadata"]["namespace"] = "default"
    if created:
        made["metadata"]["creationTimestamp"] = created
    return {**made, "status": {"phase": "Failed", "training": training, "conditions": [condition]}}


def pod(name: str, **status: Any) -> Pod:
    return Pod.from_manifest({"metadata": {"name": name, "namespace": "default"}, "status": status})


@pytest.fixture
def cluster(state_dir: Path) -> LocalCluster:
    return open_cluster(state_dir)


def add(cluster: LocalCluster, made: dict[str, Any]) -> None:
    cluster.create({key: value for key, value in made.items() if key != "status"}, field_manager="test")
    cluster.apply_status(made, field_manager="test")


def test_what_a_job_says_is_shown_as_it_is(cluster: LocalCluster) -> None:
    add(cluster, failed("digits", SAID, "2026-01-01T00:00:00Z"))
    shown = convoy("explain", "digits")
    assert (shown.status, shown.err) == (0, "")
    assert f"FailsAtOnce: {SAID}\n" in shown.out


def test_so_is_what_pods_and_the_brain_say() -> None:
    now = datetime.now(UTC)
    told = Told(answer=Answer(now, "HOLD", "[/x]", SAID), events=(Happened(now, "[/y]", SAID),))
    ended = pod("digits-edljob-worker-0", phase="Failed", reason=SAID)
    shown = io.StringIO()
    screen = explain.screen(shown)
    screen.print(
        explanation(ElasticJob.from_manifest(failed("digits", "", "")), [], [ended], told, [], now), crop=False
    )
    assert shown.getvalue().count(SAID) == 3


def test_names_are_whole(cluster: LocalCluster) -> None:
    add(cluster, failed(LONG, "x", "2026-01-01T00:00:00Z"))
    [row] = [line for line in convoy("jobs").out.splitlines() if line.split()[:1] == ["default"]]
    assert row.split()[:3] == ["default", LONG, "Failed"]


def test_a_pods_name_is_whole_on_a_narrow_terminal() -> None:
    name = f"{LONG}-edljob-worker-0"
    ended = pod(name, phase="Failed", reason="because of this and that and many another thing")
    shown = io.StringIO()
    told = explanation(
        ElasticJob.from_manifest(failed("digits", "", "")), [], [ended], Told(), [LOG], datetime.now(UTC)
    )
    Console(file=shown, width=60, markup=False).print(told, crop=False)
    assert any(line.split()[:1] == [name] for line in shown.getvalue().splitlines())
    assert f" {LOG}\n" in shown.getvalue()


def test_the_latest_comes_first() -> None:
    days = {"b": "2026-01-01T00:00:00Z", "c": "2026-01-03T00:00:00Z", "a": "2026-01-02T00:00:00Z"}
    jobs = [ElasticJob.from_manifest(failed(name, "x", day)) for name, day in days.items()]
    assert [one.metadata.name for one in latest(jobs)] == ["c", "a", "b"]


def test_the_latest_failure_is_named(cluster: LocalCluster) -> None:
    add(cluster, failed("a-old", "x", ""))
    time.sleep(1.1)  # dates are whole seconds
    add(cluster, failed("b-new", "x", ""))
    assert "`convoy explain b-new`" in convoy("jobs").out


def test_a_job_in_another_namespace_is_found() -> None:
    there = [("default", "mine"), ("team-a", "digits"), ("team-b", "other")]
    assert elsewhere("default", "digits", there) == "one of that name is in namespace team-a; add --namespace team-a"
    assert elsewhere("default", "digit", there) == "there is mine in that namespace"
    assert elsewhere("nobody", "digit", there) == "there are no jobs in that namespace"


def test_explain_says_where_the_job_is(cluster: LocalCluster) -> None:
    cluster.create(job("digits", metadata__namespace="team-a"), field_manager="test")
    shown = convoy("explain", "digits")
    assert shown.status == 1
    assert "--namespace team-a" in shown.err


def test_the_demo_reads_no_markup(tmp_path: Path) -> None:
    shown = io.StringIO()
    Stage(tmp_path, Console(file=shown)).say(("killed", "red"), f" {SAID}")
    assert f"killed {SAID}\n" in shown.getvalue()


def test_one_is_no_plural() -> None:
    assert [counted(number, "pod") for number in (0, 1, 2)] == ["0 pods", "1 pod", "2 pods"]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_being_done_is_shown_as_it_is_and_leaves_stdout_alone(monkeypatch, capsys):
    terminal = _Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with Working("looking") as line:
        line(f"job 1 of 2: {SAID}")
        print("the answer")
    assert SAID in terminal.getvalue()
    assert "0:00:0" in terminal.getvalue()
    assert capsys.readouterr().out == "the answer\n"
