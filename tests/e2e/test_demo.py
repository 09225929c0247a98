"""``convoy demo``: its quick form from beginning to end, and nothing left of one that is stopped half-way."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from support.command import convoy, start
from support.demo_processes import processes_of
from support.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


def test_the_quick_form(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    done = convoy("demo", "--quick", "--dir", directory, timeout=240)
    assert done.status == 0, done.out + done.err
    assert "FAIL" not in done.out
    assert (directory / "report.html").read_text().count("<svg") >= 3
    assert processes_of(directory) == []
    again = convoy("demo", "--verify", directory)
    assert again.status == 0
    assert "The job ended Succeeded" in again.out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_stopped_half_way_nothing_is_left(tmp_path: Path, number: signal.Signals) -> None:
    directory = tmp_path / "demo"
    demo = start("demo", "--quick", "--dir", directory)
    until(lambda: list(directory.glob("state/jobs/default/*/steps/*.jsonl")), "the first steps", timeout=60.0)
    demo.send_signal(number)
    demo.communicate(timeout=60)
    assert demo.returncode != 0
    until(lambda: not processes_of(directory), "the end of all that it started", timeout=30.0)
