"""Frames say the same whatever of the store is rolled up, and whatever of its rows was dropped since."""

import itertools
import math
import statistics
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from convoy.brain.features import frames
from convoy.brain.store import series
from convoy.brain.store.engine import open_engine, writing
from convoy.brain.store.migrate import migrate
from convoy.brain.store.retention import Retention, remove_old
from convoy.brain.store.rollup import due_hours, roll_up
from convoy.brain.store.tables import JobNodeLoad, TrainingSpeed
from support.stored import Stored, at, pod_load, speed

NUMBER = itertools.count()
MOMENTS = st.integers(0, 5 * 3600 * 10).map(lambda tenths: tenths / 10)
AMOUNTS = st.floats(0.01, 1e6)
SPEEDS = st.builds(
    speed,
    MOMENTS,
    rate=AMOUNTS,
    seconds=st.floats(0.1, 60),
    round=st.integers(1, 2),
    workers=st.integers(1, 2),
    nodes=st.sampled_from([None, 1]),
    batch_size=st.sampled_from([None, 32]),
    warming=st.booleans(),
    compute_seconds=st.none() | st.floats(0.001, 1),
)
LOADS = st.builds(
    lambda second, node, **changes: pod_load(second, node, role=node.split("-")[0], **changes),
    MOMENTS,
    st.sampled_from(["worker-0", "worker-1", "ps-0"]),
    source=st.sampled_from(["agent", "prometheus"]),
    seconds=st.floats(0.1, 60),
    round=st.integers(0, 2),
    cpu_cores=st.none() | st.floats(0, 64),
    memory_bytes=st.none() | st.integers(0, 2**40),
    network_sent=st.none() | AMOUNTS,
    accelerator_busy=st.none() | st.floats(0, 8),
    cpu_allotted=st.none() | st.sampled_from([1.0, 2.0]),
)


@pytest.fixture
def own_engine(url):
    """Of a database whose partitions are the test's to drop."""
    migrate(url)
    engine = open_engine(url)
    yield engine
    engine.dispose()


def turns(rows, *key):
    """Rows that come in a few turns, and whether they are summed after each; of a key only the first comes."""
    unique = st.lists(rows, max_size=24, unique_by=lambda row: tuple(row[name] for name in key))
    return st.tuples(unique, st.lists(st.booleans(), min_size=1, max_size=4))


def in_turns(given_rows):
    rows, summed = given_rows
    return [(rows[number :: len(summed)], summed[number]) for number in range(len(summed))]


def examples(count):
    """Each with a job of its own, in a store that all share."""
    unfit = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(max_examples=count, deadline=None, suppress_health_check=unfit)


def same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    order = list(one.columns)
    ordered = [frame.sort_values(order, ignore_index=True) for frame in (one, other)]
    assert_frame_equal(*ordered, rtol=1e-9, atol=1e-12)


def whole(engine, uid):
    history = frames.history(engine)
    return [
        history[history["job"] == uid],
        frames.pod_load(engine, uid, "1m"),
        frames.pod_load(engine, uid, "1h"),
        frames.memory_usage(engine, uid, "1h"),
    ]


def means(windows):
    """What ``observed`` says of windows past warm-up, computed one by one."""
    groups = defaultdict(list)
    for window in windows:
        if not window["warming"]:
            groups[window["round"], window["workers"], window["nodes"], window["batch_size"]].append(window)
    for (_, workers, nodes, batch), group in groups.items():
        seconds = math.fsum(window["seconds"] for window in group)
        known = [window for window in group if window["compute_seconds"] is not None]
        timed = math.fsum(window["seconds"] for window in known)
        rates = [window["samples"] / window["seconds"] for window in group]
        compute = math.fsum(window["compute_seconds"] * window["seconds"] for window in known)
        yield {
            "workers": workers,
            "nodes": math.nan if nodes is None else nodes,
            "batch_size": math.nan if batch is None else batch,
            "throughput": math.fsum(window["samples"] for window in group) / seconds,
            "throughput_sd": statistics.stdev(rates) / math.sqrt(len(rates)) if len(rates) > 1 else math.nan,
            "compute_seconds": compute / timed if known else math.nan,
            "window_seconds": seconds,
            "observed_at": pd.Timestamp(max(window["ended_at"] for window in group)),
        }


@examples(15)
@given(turns(SPEEDS, "ended_at", "round"))
def test_speed_is_that_of_the_windows_whatever_is_summed(engine, speeds):
    stored = Stored(engine)
    uid = f"speed-{next(NUMBER)}"
    job = stored.job(uid)
    for rows, summed in in_turns(speeds):
        stored.speed(job, rows)
        if summed:
            roll_up(engine)
    found = frames.observed(engine, uid)
    expected = pd.DataFrame(list(means(speeds[0])), columns=list(next(means([speed(0)]))))
    names = [name for name in expected.columns if name != "throughput_sd"]
    expected = expected.astype({**dict.fromkeys(names, "float64"), "observed_at": found["observed_at"].dtype})
    same(found[names], expected[names])
    # The spread of nearly equal speeds is what is left of two large sums: right to a millionth of the speed itself.
    spread = [frame.sort_values(names)["throughput_sd"].fillna(-1).tolist() for frame in (found, expected)]
    assert spread[0] == pytest.approx(spread[1], rel=1e-6, abs=1e-6 * found["throughput"].max() if len(found) else 0)


@examples(6)
@given(st.lists(SPEEDS, max_size=8), turns(LOADS, "ended_at", "node", "source"))
def test_all_frames_are_the_same_before_between_and_after_roll_ups(engine, speeds, loads):
    stored = Stored(engine)
    number = next(NUMBER)
    uids = f"summed-{number}", f"plain-{number}"
    windows = list({(row["ended_at"], row["round"]): row for row in speeds}.values())
    for uid, may_be_summed in zip(uids, (True, False), strict=True):
        job = stored.job(uid)
        stored.speed(job, windows)
        for rows, summed in in_turns(loads):
            stored.pod_load(job, rows)
            if summed and may_be_summed:
                roll_up(engine)
    between, plain = (whole(engine, uid) for uid in uids)
    roll_up(engine)
    assert due_hours(engine) == 0
    after = whole(engine, uids[0])
    for one, other, without in zip(between, after, plain, strict=True):
        same(one, other)
        for name in ("job", "container"):
            if name in one:
                without[name] = without[name].str.replace("plain", "summed")
        same(one, without)


def test_frames_outlive_the_rows_and_a_mark_of_hours_whose_rows_are_gone(own_engine):
    engine = own_engine
    stored = Stored(engine)
    job = stored.job()
    stored.speed(job, [speed(n * 600, rate=100 + n) for n in range(30)])
    stored.pod_load(job, [pod_load(n * 600, cpu_cores=n / 30, memory_bytes=n * 2**20) for n in range(30)])
    before = whole(engine, "uid-1")
    roll_up(engine)
    long_after = datetime(2100, 1, 1, tzinfo=UTC)
    removed = remove_old(engine, long_after, Retention(minutes=None, hours=None, jobs=None))
    assert {"training_speed", "job_node_load"} <= set(removed)
    assert len(frames.pod_load(engine, "uid-1", "raw")) == 0
    for one, other in zip(before, whole(engine, "uid-1"), strict=True):
        same(one, other)
    with writing(engine) as connection:
        for table in (TrainingSpeed, JobNodeLoad):
            series.mark_due(connection, table, [(job, at(0))])
    for one, other in zip(before, whole(engine, "uid-1"), strict=True):
        same(one, other)


def test_load_past_the_last_window_known_when_its_hour_was_summed_counts_once_the_hour_is_summed_again(engine):
    stored = Stored(engine)
    job = stored.job()
    stored.speed(job, [speed(10), speed(20)])
    stored.pod_load(job, [pod_load(15, cpu_cores=1.0), pod_load(25, cpu_cores=2.0)])
    assert frames.observed(engine, "uid-1")["worker_cpu_used"].tolist() == [1.0]
    roll_up(engine)
    stored.speed(job, [speed(30)])
    assert frames.observed(engine, "uid-1")["worker_cpu_used"].tolist() == [1.0]
    stored.pod_load(job, [pod_load(28, cpu_cores=3.0)])
    assert frames.observed(engine, "uid-1")["worker_cpu_used"].tolist() == [2.0]


def test_nothing_is_missed_or_counted_twice_while_hours_are_summed_and_rows_come_in(engine):
    stored = Stored(engine)
    job = stored.job()
    stored.speed(job, [speed(60 * n) for n in range(1, 200)])
    count, stop = 199, threading.Event()

    def busy():
        nonlocal count
        while not stop.is_set():
            stored.speed(job, [speed(60 * (count + 1))])
            count += 1
            roll_up(engine)

    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(busy)
        try:
            for _ in range(40):
                least = count
                windows = frames.observed(engine, "uid-1")["window_seconds"].sum() / 10.0
                assert least <= windows <= count + 1
        finally:
            stop.set()
        work.result()
