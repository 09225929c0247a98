"""``convoy brain backtest`` as people type it: on made-up public data, on a store, and refused."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest

from convoy.brain.store.engine import open_engine
from support.brain_command import BrainCommand
from support.made_measurements import write_measurements, write_pods
from support.stored import Stored, at, pod_load, speed

QUICK = ("--seeds", "1", "--method", "matrix factorization", "--method", "optimus", "--method", "no change")


@pytest.fixture
def brain(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path) -> BrainCommand:
    return BrainCommand(monkeypatch, capsys)


def test_tables_results_and_figures(brain: BrainCommand, tmp_path: Path) -> None:
    data = write_measurements(tmp_path / "data", "dl2_ps")
    output = tmp_path / "report"
    said = brain("backtest", "--data", data, "--output", output, *QUICK, "--method", "nearest neighbour")
    assert said.status == 0, said.err
    for title in ("dl2_ps, P1 (3 jobs", "dl2_ps, P2 (3 jobs", "dl2_ps, P3", "dl2_ps, P4", "dl2_ps, load"):
        assert title in said.out
    assert "sia_allreduce: not in" in said.err
    assert "matrix factorization" in said.out
    cases = pd.read_csv(output / "cases.csv")
    assert set(cases["protocol"]) == {"P1", "P2", "P3", "P4", "load"}
    summary = pd.read_csv(output / "summary.csv")
    p1 = summary[(summary["protocol"] == "P1") & (summary["score"] == "mdape") & summary["method"].eq("optimus")]
    assert p1.set_index("k").loc["8", "mean"] < 10
    assert (p1["lower"].dropna() <= p1["mean"].dropna()).all()
    for name in ("dl2_ps-p1.svg", "dl2_ps-p4.svg"):
        text = (output / name).read_text()
        ElementTree.fromstring(text)
        assert "matrix factorization" in text
        assert "%" in text  # axes say their units
    assert "configurations seen" in (output / "dl2_ps-p1.svg").read_text()


def test_only_what_is_asked_for(brain: BrainCommand, tmp_path: Path) -> None:
    data = write_measurements(tmp_path / "data")
    said = brain("backtest", "--data", data, "--data-set", "cmdare_ps", "--protocol", "P2", "--all-history", *QUICK)
    assert said.status == 0, said.err
    assert "cmdare_ps, P2" in said.out
    assert "P1" not in said.out
    assert "dl2_ps" not in said.out


def test_on_the_store_split_by_time_and_by_job(brain: BrainCommand, tmp_path: Path) -> None:
    moments = pd.date_range("2026-01-01", periods=10, freq="D", tz="UTC")
    rows = [
        {"job": f"job-{number}", "workers": workers, "nodes": workers, "batch_size": 32, "strategy": "allreduce",
         "throughput": (100 + number) * workers / (1 + 0.1 * workers), "observed_at": moment.isoformat()}
        for number, moment in enumerate(moments)
        for workers in (1, 2, 4, 8)
    ]  # fmt: skip
    pd.DataFrame(rows).to_csv(tmp_path / "history.csv", index=False)
    assert brain("import", tmp_path / "history.csv").status == 0
    said = brain("backtest", "--output", tmp_path / "report", "--protocol", "P1", *QUICK)
    assert said.status == 0, said.err
    assert "store, P1 (8 jobs" in said.out  # nothing comes before the first two
    cases = pd.read_csv(tmp_path / "report" / "cases.csv")
    known = cases[(cases["method"] == "matrix factorization") & (cases["k"] == 1)]
    assert known["mdape"].max() < 5  # all scale alike: from one size, what history says of the others is right


def test_a_store_of_too_few_jobs(brain: BrainCommand) -> None:
    assert brain("migrate").status == 0
    said = brain("backtest")
    assert said.status == 1
    assert "knows 0 jobs" in said.err
    assert "--data" in said.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--data-set", "dl3_ps"), "expected one of dl2_ps"),
        (("--protocol", "P5"), "expected one of P1; P2; P3; P4; load"),
        (("--method", "oracle"), "expected one of convoy"),
    ],
)
def test_names_that_are_not_there(brain: BrainCommand, tmp_path: Path, arguments: tuple[str, str], said: str) -> None:
    found = brain("backtest", "--data", write_measurements(tmp_path / "data"), *arguments)
    assert found.status == 2
    assert f"{arguments[0]} {arguments[1]}" in found.err
    assert said in found.err


@pytest.mark.parametrize("chosen", [("c3o", "P4"), ("dl2_ps", "memory")])
def test_a_protocol_that_no_chosen_set_has_a_case_for(
    brain: BrainCommand, tmp_path: Path, chosen: tuple[str, str]
) -> None:
    name, protocol = chosen
    data = write_measurements(tmp_path / "data")
    said = brain("backtest", "--data", data, "--data-set", name, "--protocol", protocol, *QUICK)
    assert said.status == 2
    assert f"--protocol {protocol}: the data sets that were chosen have no case for it" in said.err


def test_folders_that_cannot_be_used(brain: BrainCommand, tmp_path: Path) -> None:
    missing = brain("backtest", "--data", tmp_path / "nowhere")
    assert missing.status == 2
    assert "no such folder" in missing.err
    (tmp_path / "empty").mkdir()
    empty = brain("backtest", "--data", tmp_path / "empty")
    assert empty.status == 2
    assert "holds none of dl2_ps" in empty.err
    (tmp_path / "file").write_text("")
    taken = brain("backtest", "--data", write_measurements(tmp_path / "data"), "--output", tmp_path / "file" / "in")
    assert taken.status == 2
    assert "--output" in taken.err


def test_a_data_set_that_cannot_be_used_is_named(brain: BrainCommand, tmp_path: Path) -> None:
    data = write_measurements(tmp_path, "sia_allreduce")
    (data / "sia_allreduce" / "sia_throughput.csv").write_text("model,gpu\n")
    said = brain("backtest", "--data", data)
    assert said.status == 2
    assert "sia_throughput.csv: no column num_nodes" in said.err


def test_demand_and_start_up_on_the_store(brain: BrainCommand, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'brain.db'}"
    assert brain("migrate", "--database-url", url).status == 0
    wanted = ("--protocol", "demand", "--protocol", "startup", "--database-url", url)
    empty = brain("backtest", *wanted)
    assert empty.status == 0, empty.err
    assert "no cluster was measured for five weeks" in empty.err
    assert "0 jobs of the store succeeded" in empty.err

    engine = open_engine(url)
    stored = Stored(engine)
    machine = stored.machine(cpu_capacity=8.0)
    used = [2.0 + hour % 24 / 12 + hour * 7919 % 13 / 50 for hour in range(36 * 24)]
    stored.machine_load(
        machine, [pod_load(3600.0 * hour + 600, cpu_cores=cores, seconds=600) for hour, cores in enumerate(used)]
    )
    for number in range(12):
        job = stored.job(f"uid-{number}", state="Succeeded", strategy="allreduce", last_seen=at(3600.0 * number))
        stored.speed(job, [speed(3600.0 * number, workers=2 + number % 3)])
    engine.dispose()
    said = brain("backtest", *wanted, "--output", tmp_path / "report")
    assert said.status == 0, said.err
    assert "demand for cpu in" in said.out
    assert "seasonal_naive" in said.out
    assert "start-up of jobs" in said.out
    (scores,) = (tmp_path / "report").glob("demand-for-cpu-in-*[!y].csv")
    assert pd.read_csv(scores)["mae"].max() < 0.5  # the same every day


@pytest.mark.timeout(180)  # memory limits are learned, twice
def test_memory_of_public_pods(brain: BrainCommand, tmp_path: Path) -> None:
    data = write_pods(tmp_path / "data")
    said = brain("backtest", "--data", data, "--protocol", "memory", "--output", tmp_path / "report")
    assert said.status == 0, said.err
    assert "memory of pods, an hour ahead" in said.out
    assert "bitbrains: not in" in said.err
    summary = pd.read_csv(tmp_path / "report" / "memory-of-pods-an-hour-ahead-summary.csv")
    assert {"ours", "vpa", "dlrover"} <= set(summary["method"])
    assert summary["rate"].between(0, 1).all()
