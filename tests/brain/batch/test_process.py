"""The batch as a process: a report a run, windows one after the other, a clean stop."""

from datetime import UTC, datetime, timedelta

import pytest

from convoy.brain.batch.pipeline import Ending
from convoy.brain.batch.process import report_file, run_every, run_once
from convoy.brain.batch.stages import STAGES
from convoy.brain.store.engine import open_engine
from convoy.brain.store.migrate import migrate
from support.batches import NOW, fill, runs_of, small_model, surroundings

HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _small_model(monkeypatch):
    small_model(monkeypatch)


@pytest.fixture
def engine(home):
    url = f"sqlite:///{home / 'brain.db'}"
    migrate(url)
    engine = open_engine(url)
    yield engine
    engine.dispose()


def test_the_report_says_what_was_learned_promoted_and_planned(engine, home):
    fill(engine, home)
    told = run_once(surroundings(engine, home), HOUR, None)
    assert told.outcome.ending is Ending.DONE
    text = told.report.read_text()
    assert text.startswith("# Batch for 2033-03-02 09:00:00 to 2033-03-02 10:00:00 UTC\n\n**Done**: 1 model fitted, ")
    for part in (
        "| throughput | version 1 fitted to 96 rows in ",
        "promoted [BetterThanBaseline]",
        "no load of machines is known; collect it with `convoy brain collect`",
        "| default/first | 1 to 8 |",
        "MoreSpeed",
        "`convoy brain accept ",
    ):
        assert part in text, part
    assert "## Errors" not in text


def test_a_report_that_was_lost_is_written_again(engine, home):
    fill(engine, home)
    around = surroundings(engine, home)
    first = run_once(around, HOUR, None)
    text = first.report.read_text()
    first.report.unlink()
    again = run_once(around, HOUR, None)
    assert (again.outcome.ending, again.report) == (Ending.ALREADY, first.report)
    assert again.report.read_text() == text


def test_a_run_that_fails_has_a_report_of_what_was_done(engine, home, monkeypatch):
    fill(engine, home)

    def broken(work):
        raise ValueError("a | b")

    monkeypatch.setattr("convoy.brain.batch.pipeline.STAGES", (*STAGES[:3], ("promote", broken), *STAGES[4:]))
    told = run_once(surroundings(engine, home), HOUR, None)
    text = told.report.read_text()
    assert "**Failed**: stage promote failed: [ValueError] a | b" in text
    assert "version 1 fitted to 96 rows" in text
    assert "## Plans" not in text


def test_a_folder_that_cant_be_written_costs_the_report_and_nothing_else(engine, home):
    (home / "reports").write_text("no folder")
    told = run_once(surroundings(engine, home), HOUR, None)
    assert (told.outcome.ending, told.report) == (Ending.DONE, None)
    assert f"reports folder {home / 'reports'}: File exists" in told.unreported


class Jumping:
    """A clock whose waits jump: a stop event and the clock of a batch that nobody waits for."""

    def __init__(self, windows):
        self._now = NOW.timestamp()
        self._windows = windows
        self.waits = []

    def now(self):
        return self._now

    def monotonic(self):
        return self._now

    def is_set(self):
        return self._windows <= 0

    def wait(self, seconds):
        self.waits.append(seconds)
        self._now += seconds
        return self.is_set()

    def ran(self, told):
        self._windows -= 1


def test_every_window_has_its_run_just_after_it_is_over(engine, home):
    fill(engine, home)
    clock = Jumping(3)
    around = surroundings(engine, home, clock=clock)
    object.__setattr__(around, "stop", clock)
    seen = []

    def on_run(told):
        seen.append((told.window.end, datetime.fromtimestamp(clock.now(), UTC)))
        clock.ran(told)

    run_every(around, HOUR, None, on_run)
    hours = [datetime(2033, 3, 2, hour, tzinfo=UTC) for hour in (10, 11, 12)]
    assert [end for end, _ in seen] == hours
    assert seen[0][1] == NOW
    assert all(timedelta(0) < at - end < timedelta(seconds=40) for end, at in seen[1:])
    assert max(clock.waits) <= 30.0, "a clock that is set is noticed"
    found = runs_of(engine)
    assert [(run.state, run.window_until) for run in found] == [("done", hour) for hour in reversed(hours)]
    assert {file.name for file in (home / "reports").iterdir()} == {report_file(home, run).name for run in found}
