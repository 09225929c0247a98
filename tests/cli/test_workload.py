"""``convoy brain workload``: past jobs become files, and the files a simulation of what was."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from convoy.brain.store.engine import open_engine
from convoy.brain.store.migrate import migrate
from support.brain_command import BrainCommand
from support.stored import Stored, at, speed

BATCH = 32


@pytest.fixture
def brain(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path) -> BrainCommand:
    return BrainCommand(monkeypatch, capsys)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store of three jobs that ended, one that runs, one of servers; two machines."""
    url = f"sqlite:///{tmp_path}/brain.db"
    migrate(url)
    engine = open_engine(url)
    stored = Stored(engine)
    shared = {"accelerator": "t4", "model": "resnet", "strategy": "allreduce"}
    for number, workers in enumerate((1, 2, 2)):
        rate = 100.0 * workers
        job = stored.job(f"job-{number}", state="Succeeded", first_seen=at(100.0 * number), **shared, user="ann")
        windows = [(10.0 * i, 100 * i, i == 0) for i in range(4)]
        stored.speed(
            job,
            [
                speed(100.0 * number + end, rate=rate, workers=workers, step=step, batch_size=BATCH, warming=warming)
                for end, step, warming in windows
            ],
        )
    stored.job("running", state="Running", **shared)
    stored.job("servers", state="Succeeded", **{**shared, "strategy": "ps"})
    for name in ("one", "two"):
        stored.machine(name, accelerator="t4", accelerators_allocatable=2.0)
    engine.dispose()
    return url


def test_past_jobs_are_simulated_as_they_were(brain: BrainCommand, url: str, tmp_path: Path) -> None:
    folder = tmp_path / "past"
    said = brain("workload", folder, "--database-url", url)
    assert said.status == 0, said.err
    assert "running is left out: it is Running" in said.err
    assert "servers is left out: its strategy is ps" in said.err
    jobs = pd.read_csv(folder / "jobs.csv").set_index("job")
    assert list(jobs.index) == ["job-0", "job-1", "job-2"]
    assert list(jobs["submitted"]) == [0.0, 100.0, 200.0]
    assert jobs.loc["job-1", "global_batch"] == 2 * BATCH
    assert (folder / "cluster.csv").read_text().splitlines()[1] == "t4,2,2"
    table = pd.read_csv(folder / "throughput.csv")
    ran = table[table["model"].eq("job-1") & table["file"].eq("measured")].iloc[0]
    assert ran["step_time"] == pytest.approx(2 * BATCH / 200.0)
    files = {name: folder / f"{name}.csv" for name in ("jobs", "throughput", "efficiency", "cluster")}
    out = tmp_path / "out.csv"
    options: list[str | Path] = [part for name, path in files.items() for part in (f"--{name}", path)]
    said = brain(
        "simulate", *options, "--policy", "requested", "--restart-seconds", "0", "--interval", "10", "-o", out
    )
    assert said.status == 0, said.err
    simulated = pd.read_csv(out).set_index("job")
    steps = pd.read_csv(folder / "efficiency.csv").set_index("application")["progress"]
    for name in ("job-0", "job-1"):
        took = float(simulated["completed"][name]) - float(simulated["started"][name])
        assert took == pytest.approx(float(steps[name]) * BATCH / 100.0, rel=1e-6)


def test_a_store_without_such_jobs_says_so(brain: BrainCommand, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/brain.db"
    migrate(url)
    said = brain("workload", tmp_path / "past", "--database-url", url)
    assert said.status == 1
    assert "no all-reduce job that succeeded" in said.err
