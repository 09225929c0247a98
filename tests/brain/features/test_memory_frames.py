import math

import pandas as pd
import pytest

from convoy.brain.features import frames
from convoy.brain.store.rollup import roll_up
from support.stored import GIB, Stored, at, pod_load


@pytest.fixture
def stored(engine):
    return Stored(engine)


@pytest.mark.parametrize("resolution", ["1h", "1m", "raw"])
def test_a_row_holds_the_most_that_a_pod_used_and_its_limit(engine, stored, resolution):
    job = stored.job()
    stored.pod(job, "worker-0", rank=2, memory_allotted=3 * GIB)
    stored.pod(job, "worker-1", memory_allotted=5 * GIB)
    stored.pod_load(
        job,
        [
            pod_load(10, memory_bytes=GIB, memory_allotted=2 * GIB),
            pod_load(3700, memory_bytes=GIB // 4),
            pod_load(20, "worker-1", memory_bytes=4 * GIB),
            pod_load(30, "worker-1"),
        ],
    )
    roll_up(engine)
    frame = frames.memory_usage(engine, resolution=resolution)
    assert frame["container"].tolist() == ["uid-1/worker-0", "uid-1/worker-0", "uid-1/worker-1"]
    assert frame["used_bytes"].tolist() == [GIB, GIB / 4, 4 * GIB]
    assert frame["limit_bytes"].tolist() == [2 * GIB, 3 * GIB, 5 * GIB]
    assert frame["rank"].tolist()[:2] == [2.0, 2.0]
    assert set(frame["template"]) == {"template-1"}
    assert not frame["oom"].any()


def test_the_most_of_an_hour_counts_and_an_agent_before_prometheus(engine, stored):
    job = stored.job()
    stored.pod(job)
    stored.pod_load(job, [pod_load(second, memory_bytes=used) for second, used in ((5, 10), (15, 30), (25, 20))])
    stored.pod_load(job, [pod_load(16, memory_bytes=99, source="prometheus")])
    for _ in range(2):
        assert frames.memory_usage(engine, "uid-1", "1h")["used_bytes"].tolist() == [30.0]
        roll_up(engine)
    assert sorted(frames.memory_usage(engine, "uid-1", "raw")["used_bytes"]) == [10.0, 20.0, 30.0, 99.0]


def test_a_pod_that_was_killed_for_its_memory_has_one_more_row_at_its_limit(engine, stored):
    job = stored.job(last_seen=at(999))
    stored.pod(job, "worker-0", rank=0, memory_allotted=GIB, reason="OOMKilled", ended_at=at(100))
    stored.pod(job, "worker-1", memory_allotted=GIB, reason="Error", ended_at=at(100))
    stored.pod(job, "worker-2", reason="OOMKilled")
    stored.pod_load(job, [pod_load(90, memory_bytes=GIB // 2)])
    frame = frames.memory_usage(engine, "uid-1", "raw")
    assert frame["oom"].tolist() == [False, True, True]
    assert frame["time"].tolist() == [pd.Timestamp(at(second)) for second in (90, 100, 999)]
    assert frame["used_bytes"].tolist()[:2] == [GIB / 2, GIB]
    assert frame["limit_bytes"].tolist()[1:2] == [GIB]
    assert math.isnan(frame["used_bytes"][2])
    assert frame["role"].tolist() == ["worker"] * 3
    assert frames.memory_usage(engine, "uid-1", "raw", until=at(100))["oom"].tolist() == [False]


def test_one_job_or_all_whole_or_in_chunks(engine, stored):
    for uid in ("uid-1", "uid-2"):
        job = stored.job(uid, template=f"of-{uid}")
        stored.pod(job)
        stored.pod_load(job, [pod_load(minute * 60, memory_bytes=minute) for minute in range(100)])
    frame = frames.memory_usage(engine, resolution="1m")
    assert frame.groupby("template").size().to_dict() == {"of-uid-1": 100, "of-uid-2": 100}
    assert set(frames.memory_usage(engine, "uid-2", "1m")["template"]) == {"of-uid-2"}
    parts = list(frames.memory_usage(engine, resolution="1m", chunks=33))
    assert max(len(part) for part in parts) <= 33
    joined = pd.concat(parts).sort_values(["container", "time"], ignore_index=True)
    pd.testing.assert_frame_equal(joined, frame)


def test_rows_of_no_job_are_left_out(engine, stored):
    stored.pod_load(4711, [pod_load(5, memory_bytes=10)])
    assert frames.memory_usage(engine).empty
