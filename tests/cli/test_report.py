"""The demo's report from a run's folder: one page that tells the run, and a table on the terminal."""

from __future__ import annotations

import html
import io
from pathlib import Path

import pytest
from rich.console import Console

from convoy.cli.demo.measure import too_large
from convoy.cli.demo.report import Measurements, write_report
from convoy.cli.demo.scenario import Story
from convoy.cli.demo.verify.command import judge
from convoy.cli.screen import screen
from support import demo_run


def story(directory: Path) -> Story:
    begun = demo_run.START
    told = Story(uid=demo_run.JOB_UID, submitted=begun)
    told.note("1 worker trains", "state", begun + 3)
    told.note("worker killed", "fault", begun + 40)
    told.faults.append({"label": "worker killed", "killed": begun + 40, "round": 3, "first_step": begun + 41.06})
    folders = sorted((directory / "state" / "jobs" / "default").glob("digits-at-*"))
    told.measured += [{"workers": size, "steps": str(at / "steps")} for size, at in enumerate(folders, start=1)]
    told.unmeasured = too_large(4, 2)
    return told


def test_a_runs_report(tmp_path: Path) -> None:
    demo_run.write_run(tmp_path)
    console = Console(record=True, width=160)
    page = write_report(tmp_path, story(tmp_path), judge(tmp_path), console).read_text()
    for words in (
        "Speed",
        "What the Brain expected",
        "Plans",
        "Recoveries",
        "ProcessFailed happened",
        "worker killed",
    ):
        assert words in page
    assert page.count("<svg") == 4
    shown = console.export_text()
    assert "8533 (7680..9387)" in shown
    assert "8619" in shown
    assert "measured, unseen" in shown
    assert "3 and 4 don't fit 2 cores" in shown
    assert "The demo ended it early, by its finish file." in page
    assert "unseen by the Brain: 3 and 4 don't fit 2 cores." in html.unescape(page)


def test_the_table_is_whole_where_nobodys_terminal_ends(tmp_path: Path) -> None:
    demo_run.write_run(tmp_path)
    out = io.StringIO()
    write_report(tmp_path, story(tmp_path), judge(tmp_path), screen(out))
    assert "\u2026" not in out.getvalue()
    for label in ("worker killed", "measured, unseen"):
        assert any(label in line for line in out.getvalue().splitlines())
    assert any("detect" in line and "first step" in line for line in out.getvalue().splitlines())


@pytest.mark.parametrize(
    ("largest", "cores", "words"),
    [(4, 2, "3 and 4 don't fit 2 cores"), (3, 2, "3 doesn't fit 2 cores"), (4, 1, "2, 3 and 4 don't fit 1 core"),
     (4, 4, ""), (4, 64, "")],
)  # fmt: skip
def test_which_sizes_arent_measured(largest: int, cores: int, words: str) -> None:
    assert too_large(largest, cores) == words


def test_the_phases_of_a_recovery_add_up_to_it(tmp_path: Path) -> None:
    demo_run.write_run(tmp_path)
    phases = Measurements(tmp_path, story(tmp_path)).recoveries()
    assert list(phases["phase"]) == ["detect", "regroup", "start", "first step"]
    assert abs(phases["seconds"].sum() - 1.06) < 1e-3
    assert abs(phases["seconds"].iloc[0] - 0.3) < 1e-3
