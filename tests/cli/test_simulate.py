"""``convoy brain simulate`` as people type it: what it writes and shows, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from support.brain_command import BrainCommand
from support.made_workloads import jobs, write

HEAD = "job,submitted,application,replicas,global_batch\n"


@pytest.fixture
def brain(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path) -> BrainCommand:
    return BrainCommand(monkeypatch, capsys)


def options(paths: dict[str, Path]) -> list[str | Path]:
    return ["simulate", *(part for name, path in paths.items() for part in (f"--{name}", path))]


def test_what_became_of_each_job(brain: BrainCommand, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    command = [*options(write(tmp_path, jobs(4))), "--policy", "pollux", "--seed", "3", "-o", out]
    said = brain(*command)
    assert said.status == 0, said.err
    assert "pollux" in said.out
    rows = pd.read_csv(out)
    assert list(rows.columns) == ["job", "submitted", "started", "completed", "restarts", "gpu_seconds"]
    assert list(rows["job"]) == [f"job-{i}" for i in range(4)]
    assert (rows["submitted"] <= rows["started"]).all()
    assert (rows["started"] < rows["completed"]).all()
    first = out.read_bytes()
    brain(*command)
    assert out.read_bytes() == first


def test_gradients_may_be_of_any_norm(brain: BrainCommand, tmp_path: Path) -> None:
    paths = write(tmp_path, jobs(2))
    command = [*options(paths), "--policy", "requested", "-o", tmp_path / "out.csv"]
    brain(*command)
    small = (tmp_path / "out.csv").read_bytes()
    rows = pd.read_csv(paths["efficiency"])
    rows[["grad_sqr", "grad_var"]] *= 2.0**50  # as the first steps of public runs have them
    rows.to_csv(paths["efficiency"], index=False)
    said = brain(*command)
    assert said.status == 0, said.err
    assert (tmp_path / "out.csv").read_bytes() == small


def test_nodes_of_one_type_and_two_sizes_are_planned_or_refused(brain: BrainCommand, tmp_path: Path) -> None:
    command = options(write(tmp_path, jobs(3), nodes="aws,1,4\naws,2,2"))
    assert brain(*command, "--policy", "requested", "--policy", "pollux").status == 0
    said = brain(*command, "--policy", "convoy")
    assert said.status != 0
    assert "nodes of type aws have 2 and 4 accelerators" in said.err


def test_policies_beside_each_other_write_a_file_each(brain: BrainCommand, tmp_path: Path) -> None:
    paths = write(tmp_path, jobs(4), nodes="aws,2,4")
    paths["cluster"].write_text("node_type,nodes,accelerators_per_node,accelerator_hour_price\naws,2,4,1.5\n")
    said = brain(*options(paths), "--policy", "requested", "--policy", "sia", "-o", tmp_path / "out.csv")
    assert said.status == 0, said.err
    assert "over those of requested" in said.out
    assert "no price" not in said.out
    assert {path.name for path in tmp_path.glob("out-*.csv")} == {"out-requested.csv", "out-sia.csv"}


def test_more_nodes_fewer_nodes_and_quotas_are_asked_for(brain: BrainCommand, tmp_path: Path) -> None:
    command = [*options(write(tmp_path, jobs(6, 5.0))), "--policy", "requested", "-o", tmp_path / "out.csv"]
    means = []
    for more in ([], ["--more-nodes", "aws=-3"], ["--quota", "a=4", "--quota", "b=4"]):
        assert brain(*command, *more).status == 0
        rows = pd.read_csv(tmp_path / "out.csv")
        means.append((rows["completed"] - rows["submitted"]).mean())
    assert means[0] < means[2] < means[1]


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("jobs", "job,submitted\na,1\n", "no column application, replicas, global_batch"),
        ("jobs", HEAD + "a,1,resnet,4,64\na,2,resnet,4,64\n", "a stands twice"),
        ("jobs", HEAD + "a,soon,resnet,4,64\n", "line 2: submitted is soon"),
        ("jobs", HEAD + "a,1,resnet,1.5,64\n", "expected a whole number"),
        ("jobs", HEAD + "a,1,vgg,4,64\n", "application vgg isn't there"),
        ("jobs", "workload," + HEAD + "1,a,1,resnet,4,64\n2,b,1,resnet,4,64\n",
         "rows of one workload"),
        ("jobs", HEAD, "no row after its head"),
        ("jobs", HEAD + "a,1,resnet,4,64,9\n", "more fields than its head"),
        ("jobs", HEAD + "a,1e300,resnet,4,64\n", "at most 1e+12"),
        ("jobs", HEAD + "a,1,resnet,4,1e300\n", "at most 1e+09"),
        ("cluster", "node_type,nodes,accelerators_per_node\naws,1e15,4\n", "at most 1e+06"),
        ("cluster", "node_type,nodes,accelerators_per_node\naws,0,4\n", "no capacity"),
        ("cluster", "node_type,nodes,accelerators_per_node\nquad,4,4\n", "has no row on quad"),
        ("cluster", "node_type,nodes,accelerators_per_node\naws,4,8\n", "at most 4 accelerators a node"),
        ("cluster", "node_type,nodes,accelerators_per_node\naws,2,4\naws,1,4\n", "of one size stand twice"),
        ("throughput", "model,gpu\nresnet,aws\n", "no column num_nodes"),
        ("efficiency", "application\nresnet\n", "no column global_batch"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_right_is_named(
    brain: BrainCommand, tmp_path: Path, file: str, text: str, told: str
) -> None:
    paths = write(tmp_path, jobs(1))
    paths[file].write_text(text)
    said = brain(*options(paths), "--policy", "requested")
    assert said.status == 2
    assert told in said.err
    assert f"{tmp_path}/" in said.err


def test_a_history_is_read_before_anything_runs(brain: BrainCommand, tmp_path: Path) -> None:
    history = tmp_path / "history.csv"
    history.write_text("job,workers,throughput\nold,2,100\nold,four,190\n")
    command = [*options(write(tmp_path, jobs(2))), "--policy", "requested", "--history", history]
    said = brain(*command)
    assert said.status == 0, said.err
    assert "1 row left out; the first: " in said.err
    history.unlink()
    said = brain(*command)
    assert said.status == 2
    assert "No such file" in said.err


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--policy", "guess"], "expected one of requested, tiresias"),
        (["--policy", "requested", "--more-nodes", "azure=2"], "one of these names: aws"),
        (["--policy", "requested", "--more-nodes", "aws=some"], "'some' isn't a whole number"),
        (["--policy", "requested", "--more-nodes", "aws=-4"], "no node is left"),
        (["--policy", "requested", "--quota", "c=2"], "one of these names: a, b"),
        (["--policy", "requested", "--more-nodes", "aws=1000000000"], "at most 1000000"),
        (["--policy", "requested", "--interval", "inf"], "less than or equal to"),
        (["--policy", "requested", "-o", "/nowhere/out.csv"], "no folder /nowhere"),
        (["--policy", "requested", "-o", "/tmp"], "is a folder"),
    ],
)
def test_an_option_that_cannot_be_right_is_named(
    brain: BrainCommand, tmp_path: Path, more: list[str], told: str
) -> None:
    said = brain(*options(write(tmp_path, jobs(2))), *more)
    assert said.status == 2
    assert told in said.err
