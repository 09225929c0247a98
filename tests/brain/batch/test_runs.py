"""Rows of runs: taken, given up, kept for as long as what hangs on them."""

from datetime import timedelta

import pytest

from convoy.brain.store import runs
from convoy.brain.store.engine import writing
from convoy.brain.store.retention import Retention, remove_old
from convoy.brain.store.runs import State
from convoy.core.api.errors import Fenced
from support.batches import NOW, WINDOW, runs_of
from support.stored import Stored

HOUR = timedelta(hours=1)


def take(engine, hours=0, owner="me", mode="advise", now=NOW):
    window = (WINDOW.begin + hours * HOUR, WINDOW.end + hours * HOUR)
    with writing(engine) as connection:
        return runs.take(
            connection, window=window, mode=mode, engine="local", owner=owner, now=now, deadline_at=now + HOUR
        )


def finish(engine, run, stage, document):
    with writing(engine) as connection:
        return runs.finish_stage(connection, run, stage, document, jobs=3)


def end(engine, run, state=State.DONE):
    with writing(engine) as connection:
        return runs.end(connection, run, state, "done", NOW)


def test_a_run_is_gone_on_with_where_it_was(engine):
    first = finish(engine, take(engine), "rollup", {"hours": 7})
    again = take(engine, owner="you", now=NOW + HOUR)
    assert (again.id, again.stage, again.report, again.jobs) == (first.id, "rollup", {"rollup": {"hours": 7}}, 3)
    assert (again.began_at, again.starts, again.owner) == (NOW, 2, "you")


def test_who_lost_a_run_can_neither_go_on_with_it_nor_end_it(engine):
    mine = take(engine)
    take(engine, owner="you")
    for change in (lambda: finish(engine, mine, "rollup", {}), lambda: end(engine, mine, State.FAILED)):
        with pytest.raises(Fenced, match="another process goes on"):
            change()


def test_a_run_that_is_done_is_left_as_it_is(engine):
    done = end(engine, take(engine))
    assert take(engine, owner="you", now=NOW + HOUR) == done


def test_modes_have_runs_of_their_own_and_a_later_window_gives_up_what_never_ended(engine):
    advise, applied = take(engine), take(engine, mode="apply")
    assert advise.id != applied.id
    later = take(engine, hours=1)
    found = {run.id: run.state for run in runs_of(engine)}
    assert found == {advise.id: State.FAILED, applied.id: State.FAILED, later.id: State.RUNNING}
    assert take(engine).state is State.RUNNING, "whoever runs that window again goes on with it"


def test_old_runs_go_when_nothing_hangs_on_them(engine):
    old, kept = end(engine, take(engine)), end(engine, take(engine, hours=1))
    job = Stored(engine).job(last_seen=NOW + timedelta(days=100))
    Stored(engine).recommendation(job, "advice", run_id=kept.id)
    forever = Retention(jobs=90, speed=None, load=None, minutes=None, hours=None, events=None)
    removed = remove_old(engine, NOW + timedelta(days=100), forever)
    assert removed == {"optimization_run": 1}
    assert [run.id for run in runs_of(engine)] == [kept.id]
    assert old.id != kept.id
