"""What can't be right is refused within two seconds, by one message with the thing, its value and the remedy."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from convoy.core.cluster.local import open_cluster
from convoy.core.process.lock import ProcessLock
from support import manifests
from support.command import Ended, convoy
from support.manifests import job, write


def refused(ended: Ended, *words: str) -> None:
    assert ended.status == 2, ended
    took = f"took {ended.seconds:.2f} s, {ended.cpu:.2f} s of them processor time: {ended}"
    assert ended.cpu < 2.0, took
    assert ended.seconds < 10.0, took  # it waits for nothing; what is above its processor time is the machine's load
    assert ended.err.startswith("convoy: ")
    assert len(ended.err.splitlines()) == 1
    assert "Traceback" not in ended.err
    for word in words:
        assert word in ended.err


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (job(worker__replica=2), ["spec.replicaSpecs.worker.replica", "no such field", "2"]),
        (job(worker__replicas="many"), ["spec.replicaSpecs.worker.replicas", "'many'"]),
        (job(worker__replicas=-1), ["spec.replicaSpecs.worker.replicas", "-1"]),
        (job(worker__maxReplicas=2, worker__minReplicas=3), ["minReplicas 3 is more than maxReplicas 2"]),
        (job(spec__distributionStrategy="RingStrategy"), ["spec.distributionStrategy", "RingStrategy", "Allreduce"]),
        (job(spec__optimizeMode="magic"), ["spec.optimizeMode", "magic", "cluster"]),
        (job(container__resources={"requests": {"cpu": "lots"}}), ["requests.cpu", "'lots'", "500m"]),
        (job(container__resources={"requests": {"cpu": "4096"}}), ["requests.cpu", "4096", "ask for"]),
        (job(container__resources={"requests": {"memory": "900Ti"}}), ["requests.memory", "900Ti", "ask for"]),
        (
            job(worker__minReplicas=100_000, worker__replicas=None, container__resources={"requests": {"cpu": "1"}}),
            ["minReplicas", "100000"],
        ),
        (job(container__command=["dlrover-run", "absent.py"]), ["command", "absent.py", "manifest's folder"]),
        (job(container__command=["no-such-launcher", "train.py"]), ["command", "'no-such-launcher'", "install"]),
        (job(container__command=None), ["containers[0].command", "write the command"]),
        (job(container__workingDir="/nowhere"), ["workingDir", "/nowhere"]),
        (job(kind="PyTorchJob"), ["kind", "ElasticJob", "PyTorchJob"]),
        (job(apiVersion="v1"), ["apiVersion", "'v1'"]),
        (job("Not_A_Name"), ["metadata.name", "Not_A_Name"]),
        ("a: [1\n", ["job.yaml", "line 2", "not YAML"]),
        ("", ["job.yaml", "0 objects"]),
        ("a: 1\n---\nb: 2\n", ["job.yaml", "2 objects", "split"]),
        ("- 1\n", ["job.yaml", "a list"]),
        ("kind: ElasticJob\nspec: {}\nspec: {}\n", ["job.yaml", "line 3", "'spec' stands there twice"]),
        ("[" * 1000, ["job.yaml", "nested too deeply"]),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_a_manifest_that_cant_be_right(tmp_path: Path, manifest: manifests.Manifest | str, words: list[str]) -> None:
    ended = convoy("submit", write(tmp_path, manifest), "--local")
    refused(ended, *words)


def test_a_manifest_that_isnt_there(tmp_path: Path) -> None:
    refused(convoy("submit", tmp_path / "job.yaml", "--local"), "job.yaml", "no such file")


def test_submit_without_local(tmp_path: Path) -> None:
    refused(convoy("submit", write(tmp_path, job())), "no jobs on Kubernetes", "--local")


@pytest.mark.parametrize(
    "command", [["jobs"], ["explain", "job"], ["delete", "job"], ["submit", "job.yaml", "--local"]]
)
@pytest.mark.parametrize("option", [["--context", "prod"], ["--kubeconfig", "~/.kube/config"]])
def test_another_cluster(command: list[str], option: list[str]) -> None:
    refused(convoy(*command, *option), *option, "no jobs on Kubernetes", "leave it out")


@pytest.mark.parametrize("command", [["submit", "job.yaml", "--local"], ["operator"], ["brain", "migrate"]])
def test_a_state_directory_that_cant_be_written(tmp_path: Path, command: list[str]) -> None:
    write(tmp_path, job())
    ended = convoy(*command, "--state-dir", "/proc/convoy", cwd=tmp_path)
    refused(ended, "/proc/convoy", "CONVOY_STATE_DIR")


def test_a_job_that_is_there_already(tmp_path: Path, state_dir: Path) -> None:
    file = write(tmp_path, job("twice"))
    with ProcessLock(state_dir / "operator.lock") as held:  # as if an operator ran, which would start nothing
        assert held
        open_cluster(state_dir).create(job("twice"), field_manager="test")
        refused(convoy("submit", file, "--local"), "metadata.name", "default/twice", "convoy delete twice")


def test_a_second_operator(state_dir: Path) -> None:
    with ProcessLock(state_dir / "operator.lock"):
        refused(convoy("operator"), str(state_dir), str(os.getpid()), "--state-dir")


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_the_brains_port_is_in_use(taken_port: int) -> None:
    refused(convoy("brain", "serve", "--port", str(taken_port)), str(taken_port), "in use")


def test_a_masters_port_is_in_use(taken_port: int, state_dir: Path) -> None:
    open_cluster(state_dir).create(job(), field_manager="test")
    ended = convoy("master", "--job", "job", "--port", str(taken_port))
    *logged, last = ended.err.splitlines(keepends=True)  # by then it runs, and has a log
    assert all(line.startswith("{") for line in logged)
    refused(replace(ended, err=last), str(taken_port), "in use")


@pytest.mark.parametrize("command", ["serve", "migrate", "recommend"])
@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://u:hidden@127.0.0.1:1/convoy", ["127.0.0.1:1", "--database-url"]),
        ("sqlite:////nowhere/brain.db", ["/nowhere", "--database-url"]),
        ("oracle://x/y", ["oracle", "sqlite:////"]),
        ("nonsense", ["database_url", "sqlite:////"]),
    ],
)
def test_a_database_that_isnt_there(command: str, url: str, words: list[str]) -> None:
    job = ["job"] if command == "recommend" else []
    ended = convoy("brain", command, *job, "--database-url", url)
    refused(ended, *words)
    assert "hidden" not in ended.err


@pytest.mark.parametrize("command", [["explain"], ["delete"]])
def test_a_job_that_isnt_there(command: list[str]) -> None:
    ended = convoy(*command, "absent")
    assert ended.status == 1
    assert "default/absent" in ended.err


def test_a_folder_without_a_demo(tmp_path: Path) -> None:
    refused(convoy("demo", "--verify", tmp_path), "kills.jsonl", "convoy demo")


@pytest.mark.parametrize("command", [["brain", "migrate"], ["brain", "serve"], ["brain", "recommend", "job"]])
def test_an_extra_that_isnt_installed(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "sqlalchemy.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'sqlalchemy'\", name='sqlalchemy')"
    )
    ended = convoy(*command, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    refused(ended, "sqlalchemy isn't installed", "pip install 'convoy-train[demo]'")
