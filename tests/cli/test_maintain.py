"""``convoy brain maintain`` as people run it, and the Brain that does it by itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from convoy.brain.store import rollup
from convoy.brain.store.engine import open_engine
from convoy.brain.store.maintain import Maintained
from convoy.brain.store.tables import TrainingSpeed, TrainingSpeed1h
from convoy.cli.maintain import told
from support.brain import BrainProcess
from support.command import convoy
from support.speed_rows import count, make_jobs, store, windows

NOW = datetime.now(UTC)


@pytest.fixture
def full(home: Path) -> str:
    """Return the URL of a store with an hour to sum, a day that is too old, and rows of no job."""
    url = f"sqlite:///{home / 'full.db'}"
    assert convoy("brain", "migrate", "--database-url", url).status == 0
    engine = open_engine(url)
    make_jobs(engine, 1, last_seen=NOW)
    store(engine, windows(1, NOW.replace(minute=0) - timedelta(hours=2), 60))
    store(engine, windows(1, NOW.replace(minute=0) - timedelta(days=40), 60, round=2))
    store(engine, windows(9, NOW.replace(minute=0) - timedelta(hours=2), 3))
    engine.dispose()
    return url


def test_it_says_what_it_did_and_then_that_there_is_nothing_to_do(full):
    first = convoy("brain", "maintain", "--database-url", full)
    assert (first.status, first.err) == (0, "")
    assert "3 subject-hours of series summed" in first.out
    assert "60 old rows of training_speed removed" in first.out
    assert "3 rows of training_speed without a job or machine removed" in first.out
    second = convoy("brain", "maintain", "--database-url", full)
    assert second.out.endswith(": nothing was to be done\n")


def test_a_store_that_isnt_there_is_refused(home):
    ended = convoy("brain", "maintain", "--database-url", f"sqlite:///{home / 'none.db'}")
    assert ended.status == 2
    assert "there is no such file" in ended.err


def test_what_is_told_where_days_are_removed_or_another_is_at_it():
    done = Maintained(removed={"training_speed": 2, "job_event": 7})
    assert told(done, by_day=True) == "2 old days of training_speed removed, 7 old rows of job_event removed"
    assert "another process" in told(Maintained(busy=True), by_day=False)


def test_a_serving_brain_maintains_its_store(full):
    brain = BrainProcess(full, CONVOY_MAINTAIN_EVERY_SECONDS="0.5")
    done = brain.event("store maintained")
    assert (done["hours"], done["orphans"]["training_speed"]) == (3, 3)
    assert brain.end() == 0
    engine = open_engine(full)
    assert rollup.due_hours(engine) == 0
    assert count(engine, TrainingSpeed) == 60
    assert count(engine, TrainingSpeed1h) == 4
    engine.dispose()


def test_one_that_is_told_not_to_leaves_it(full):
    brain = BrainProcess(full, CONVOY_MAINTAIN_EVERY_SECONDS="0")
    assert brain.address
    brain.event("learned from history")
    assert brain.end() == 0
    engine = open_engine(full)
    assert rollup.due_hours(engine) == 3
    engine.dispose()
