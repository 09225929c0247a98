import math
import random
import subprocess
import sys
import threading
from collections import defaultdict
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from convoy.brain.store import attempts, rollup, series
from convoy.brain.store.engine import reading, writing
from convoy.brain.store.rollup import HOUR, Due, roll_up, runs
from convoy.brain.store.tables import (
    AGENT,
    JobNodeLoad,
    JobNodeLoad1h,
    JobNodeLoad1m,
    NodeLoad,
    NodeLoad1h,
    RollupDue,
    TrainingSpeed,
    TrainingSpeed1h,
    TrainingSpeed1m,
)
from support.speed_rows import count, make_jobs, store, windows

BEGIN = datetime(2026, 11, 1, 10, 7, 3, tzinfo=UTC)
KEY = ("series", "subject_id", "hour", "changes")
ROLL_UP = (
    "import sys; from convoy.brain.store.engine import open_engine; from convoy.brain.store.rollup import roll_up; "
    "print(roll_up(open_engine(sys.argv[1])))"
)


def all_rows(engine, table):
    with reading(engine) as connection:
        return connection.execute(sa.select(table)).mappings().all()


def summed_by_hand(rows, length):
    """What the roll-ups must say, from the rows alone."""
    sums = defaultdict(lambda: [0, 0.0, 0.0, 0.0, 0.0])
    for row in rows:
        moment = row["ended_at"].timestamp()
        key = (row["job_id"], moment - moment % length, row["round"], row["warming"])
        rate = row["samples"] / row["seconds"]
        for place, value in enumerate((1, row["seconds"], row["samples"], rate, rate * rate)):
            sums[key][place] += value
    return dict(sums)


def rolled_up(engine, table):
    return {
        (row["job_id"], row["started_at"].timestamp(), row["round"], row["warming"]): [
            row[name] for name in ("windows", "seconds", "samples", "speeds", "squares")
        ]
        for row in all_rows(engine, table)
    }


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        assert found[key] == pytest.approx(values, rel=1e-12), key


def test_minutes_and_hours_are_the_sums_of_the_windows(engine):
    rows = windows(1, BEGIN, 1000) + windows(2, BEGIN + timedelta(minutes=50), 70, round=3)
    store(engine, rows)
    assert rollup.due_hours(engine) == 5
    assert roll_up(engine) == 5
    assert rollup.due_hours(engine) == 0
    assert_same(rolled_up(engine, TrainingSpeed1m), summed_by_hand(rows, 60))
    assert_same(rolled_up(engine, TrainingSpeed1h), summed_by_hand(rows, 3600))
    [hour] = [row for row in all_rows(engine, TrainingSpeed1h) if row["job_id"] == 2 and not row["warming"]][:1]
    assert (hour["workers"], hour["nodes"], hour["batch_size"]) == (2, 0, 8)
    assert hour["last_ended_at"] <= hour["started_at"] + HOUR
    assert hour["compute_sum"] == pytest.approx(hour["compute_time"] * 0.5)


def test_again_changes_nothing_and_a_late_row_is_taken_in(engine):
    rows = windows(1, BEGIN, 100)
    store(engine, rows[:60] + rows[61:])
    roll_up(engine)
    before = rolled_up(engine, TrainingSpeed1h)
    assert roll_up(engine) == 0
    assert rolled_up(engine, TrainingSpeed1h) == before
    store(engine, rows[60:61])
    assert roll_up(engine) == 1
    assert_same(rolled_up(engine, TrainingSpeed1h), summed_by_hand(rows, 3600))


def test_a_row_that_comes_in_while_its_hour_is_summed_leaves_the_hour_due(engine, monkeypatch):
    """A mark is taken away only where nothing was stored since it was read."""
    rows = windows(1, BEGIN, 10)
    store(engine, rows[:9])
    whole = rollup._due

    def due_then_late(given):
        for due in list(whole(given)):
            store(engine, rows[9:])
            yield due

    monkeypatch.setattr(rollup, "_due", due_then_late)
    roll_up(engine)
    monkeypatch.undo()
    assert rollup.due_hours(engine) == 1
    roll_up(engine)
    assert_same(rolled_up(engine, TrainingSpeed1h), summed_by_hand(rows, 3600))


@pytest.mark.parametrize("point", ["rollup.before-mark:2", "rollup.after-subject:1"])
def test_one_that_was_killed_is_carried_on(engine, point, monkeypatch):
    rows = windows(1, BEGIN, 500) + windows(2, BEGIN, 500) + windows(3, BEGIN, 10)
    store(engine, rows)
    monkeypatch.setenv("CONVOY_CRASH_AT", point)
    url = engine.url.render_as_string(hide_password=False)
    killed = subprocess.run([sys.executable, "-c", ROLL_UP, url], capture_output=True, timeout=50)
    assert killed.returncode == -9
    monkeypatch.delenv("CONVOY_CRASH_AT")
    assert rollup.due_hours(engine) > 0
    roll_up(engine)
    assert_same(rolled_up(engine, TrainingSpeed1m), summed_by_hand(rows, 60))
    assert_same(rolled_up(engine, TrainingSpeed1h), summed_by_hand(rows, 3600))


def test_several_at_once_beside_ingest_end_with_the_right_sums(engine):
    rows = [row for job in range(1, 7) for row in windows(job, BEGIN, 240)]
    random.Random(5).shuffle(rows)
    faults: list[BaseException] = []
    done = threading.Event()

    def guarded(work):
        try:
            work()
        except BaseException as fault:
            faults.append(fault)

    def ingest():
        for start in range(0, len(rows), 60):
            store(engine, rows[start : start + 60])
        done.set()

    def roll():
        while not done.is_set():
            roll_up(engine)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in (ingest, roll, roll)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert faults == []
    roll_up(engine)
    assert rollup.due_hours(engine) == 0
    assert count(engine, TrainingSpeed) == len(rows)
    assert_same(rolled_up(engine, TrainingSpeed1h), summed_by_hand(rows, 3600))


def test_a_pods_load_is_summed_apart_where_its_round_trained_steadily(engine):
    make_jobs(engine, 1, last_seen=BEGIN)
    speed = windows(1, BEGIN, 30)
    loads = [
        {"job_id": 1, "ended_at": BEGIN + timedelta(seconds=10 * number - 20), "node": "w-0", "source": AGENT,
         "seconds": 10.0, "role": "worker", "rank": 0, "round": 1, "cpu_cores": float(number), "memory_bytes": None
         if number == 5 else 100 * number, "cpu_allotted": 4.0, "memory_allotted": None, "network_received": 8.0}
        for number in range(34)
    ]  # fmt: skip
    with writing(engine) as connection:
        attempts.follow(connection, 1, speed)
        series.insert(connection, TrainingSpeed, speed)
        series.insert(connection, JobNodeLoad, loads)
    roll_up(engine)
    steady = [load for load in loads if speed[1]["ended_at"] <= load["ended_at"] <= speed[-1]["ended_at"]]
    hours = {row["steady"]: row for row in all_rows(engine, JobNodeLoad1h)}
    assert hours[True]["windows"] == len(steady)
    assert hours[False]["windows"] == len(loads) - len(steady)
    assert hours[True]["cpu_sum"] == pytest.approx(sum(load["cpu_cores"] * 10 for load in steady))
    assert hours[True]["memory_windows"] == len(steady) - 1
    assert hours[True]["memory_sum"] == pytest.approx(sum(load["memory_bytes"] or 0 for load in steady))
    assert hours[True]["memory_max"] == max(load["memory_bytes"] or 0 for load in steady)
    assert hours[True]["network_received"] == pytest.approx(80.0 * len(steady))
    assert (hours[True]["disk_read"], hours[True]["accelerator_time"]) == (None, 0)
    assert (hours[True]["cpu_allotted"], hours[True]["memory_allotted"], hours[True]["role"]) == (4.0, None, "worker")
    assert sum(row["windows"] for row in all_rows(engine, JobNodeLoad1m)) == len(loads)


def test_a_machines_load_is_summed_over_the_time_in_which_it_was_known(engine):
    rows = [
        {"node_id": 7, "ended_at": BEGIN + timedelta(seconds=15 * number), "seconds": 15.0,
         "cpu_cores": None if number % 4 == 0 else 2.0, "accelerator_busy": 0.5, "accelerator_memory": number}
        for number in range(20)
    ]  # fmt: skip
    with writing(engine) as connection:
        series.insert(connection, NodeLoad, rows)
    roll_up(engine)
    [hour] = all_rows(engine, NodeLoad1h)
    assert (hour["seconds"], hour["cpu_time"], hour["cpu_sum"]) == (300.0, 225.0, 450.0)
    assert (hour["accelerator_sum"], hour["accelerator_memory_max"]) == (150.0, 19)


marks = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 3), st.integers(0, 60)), unique=True, max_size=90
)


@given(marks)
def test_runs_hold_each_hour_once_in_order_and_without_gaps(found):
    page = [(name, subject, BEGIN + hour * HOUR, 1) for name, subject, hour in sorted(found)]
    gathered: list[Due] = list(runs(page))
    again = [(due.series, due.subject, hour, changes) for due in gathered for hour, changes in due.hours]
    assert again == page
    for due in gathered:
        assert len(due.hours) <= 24
        assert due.end - due.begin == len(due.hours) * HOUR
    assert len(gathered) >= math.ceil(len(page) / 24)


def test_a_mark_that_took_another_ones_place_stays(engine):
    """As it is where two sum at once, since one has lost its lock: what it read is done, and more came in since."""
    store(engine, windows(1, BEGIN, 5))
    [read] = runs([tuple(row[name] for name in KEY) for row in all_rows(engine, RollupDue)])
    roll_up(engine)
    store(engine, windows(1, BEGIN + timedelta(minutes=10), 5))
    with writing(engine) as connection:
        rollup._sum(connection, read)
    assert count(engine, RollupDue) == 1


def test_of_hours_on_both_sides_of_what_is_kept_the_later_ones_are_summed(engine):
    bound = BEGIN.replace(hour=0, minute=0, second=0) + timedelta(days=1)
    rows = windows(1, bound - 2 * HOUR, 4 * 36, seconds=100.0)
    store(engine, rows)
    with writing(engine) as connection:
        series.set_complete_since(connection, "training_speed", bound)
    roll_up(engine)
    kept = [row for row in rows if row["ended_at"] >= bound]
    assert 0 < len(kept) < len(rows)
    assert_same(rolled_up(engine, TrainingSpeed1h), summed_by_hand(kept, 3600))
    assert count(engine, RollupDue) == 0


def test_marks_count_the_transactions_that_stored_in_an_hour(engine):
    rows = windows(1, BEGIN, 10)
    store(engine, rows[:5])
    store(engine, rows[5:])
    [mark] = all_rows(engine, RollupDue)
    assert (mark["series"], mark["subject_id"]) == ("training_speed", 1)
    store(engine, rows[5:])
    [later] = all_rows(engine, RollupDue)
    assert later["changes"] == mark["changes"] + 1
    assert mark["hour"] == BEGIN.replace(minute=0, second=0)
