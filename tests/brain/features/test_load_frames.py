import math
import tracemalloc

import pandas as pd
import pytest

from convoy.brain.features import frames
from convoy.brain.store.rollup import roll_up
from convoy.core.api.errors import InvalidInput
from support.stored import Stored, at, pod_load

MIB = 2**20


@pytest.fixture
def stored(engine):
    return Stored(engine)


@pytest.fixture(params=["rolled up", "due"])
def settle(engine, request):
    """What is done before a frame is read."""
    return (lambda: roll_up(engine)) if request.param == "rolled up" else lambda: 0


def test_a_pods_minutes_are_means_over_its_windows(engine, stored, settle):
    job = stored.job()
    place = stored.machine("machine-7")
    stored.pod(job, "worker-0", rank=3, node_id=place, accelerators=2.0)
    stored.pod_load(
        job,
        [
            pod_load(10, cpu_cores=1.0, memory_bytes=100, network_sent=5.0, cpu_allotted=2.0, seconds=10),
            pod_load(40, cpu_cores=4.0, memory_bytes=300, network_sent=1.0, cpu_allotted=4.0, seconds=30),
            pod_load(50, accelerator_busy=1.5, accelerator_memory=7, round=2),
            pod_load(70, cpu_cores=3.0),
        ],
    )
    settle()
    frame = frames.pod_load(engine, "uid-1", "1m")
    assert frame["time"].tolist() == [pd.Timestamp(at(0)), pd.Timestamp(at(60))]
    first = frame.iloc[0]
    assert first["cpu_used"] == pytest.approx((1.0 * 10 + 4.0 * 30) / 40)
    assert (first["seconds"], first["windows"], first["round"]) == (50.0, 3.0, 2.0)
    assert (first["cpu_used_max"], first["cpu_allotted"]) == (4.0, 4.0)
    assert (first["memory_used"], first["memory_used_max"]) == (200.0, 300.0)
    assert first["network_sent"] == pytest.approx(5.0 * 10 + 1.0 * 30)
    assert math.isnan(first["network_received"])
    assert (first["accelerators_used"], first["accelerator_memory_max"]) == (1.5, 7.0)
    assert (first["job"], first["pod"], first["role"], first["source"]) == ("uid-1", "worker-0", "worker", "agent")
    assert (first["machine"], first["rank"], first["accelerators_allotted"]) == ("machine-7", 3.0, 2.0)
    assert math.isnan(frame["memory_used"][1])
    by_hour = frames.pod_load(engine, "uid-1", "1h")
    assert by_hour["cpu_used"].tolist() == [pytest.approx((1.0 * 10 + 4.0 * 30 + 3.0 * 10) / 50)]


def test_of_two_sources_the_agents_measure_is_taken_where_it_has_one(engine, stored, settle):
    job = stored.job()
    stored.pod_load(
        job,
        [
            pod_load(10, cpu_cores=1.0, memory_bytes=100),
            pod_load(15, cpu_cores=9.0, memory_bytes=900, disk_read=2.0, source="prometheus", round=0),
            pod_load(75, cpu_cores=9.0, source="prometheus", round=0),
        ],
    )
    settle()
    frame = frames.pod_load(engine, "uid-1", "1m")
    assert frame["cpu_used"].tolist() == [1.0, 9.0]
    assert frame["memory_used"].tolist()[:1] == [100.0]
    assert frame["disk_read"].tolist()[:1] == [20.0]
    assert frame["source"].tolist() == ["agent", "prometheus"]
    assert frame["round"].tolist()[:1] == [1.0]
    assert math.isnan(frame["round"][1])
    assert frames.pod_load(engine, "uid-1", "raw")["source"].tolist() == ["agent", "prometheus", "prometheus"]


def test_raw_rows_are_the_windows_themselves(engine, stored):
    job = stored.job()
    stored.pod_load(job, [pod_load(second, cpu_cores=second / 10, network_sent=2.0) for second in (5, 15, 25)])
    frame = frames.pod_load(engine, "uid-1", "raw")
    assert frame["time"].tolist() == [pd.Timestamp(at(second)) for second in (5, 15, 25)]
    assert frame["cpu_used"].tolist() == [0.5, 1.5, 2.5]
    assert frame["network_sent"].tolist() == [20.0] * 3
    assert frame["windows"].tolist() == [1.0] * 3


@pytest.mark.parametrize("resolution", ["raw", "1m", "1h"])
def test_a_span_holds_its_beginning_and_not_its_end(engine, stored, settle, resolution):
    job = stored.job()
    stored.pod_load(job, [pod_load(hour * 3600) for hour in range(5)])
    settle()
    frame = frames.pod_load(engine, "uid-1", resolution, since=at(3600), until=at(3 * 3600))
    assert frame["time"].tolist() == [pd.Timestamp(at(3600)), pd.Timestamp(at(7200))]


def test_a_step_that_begins_before_a_span_is_left_out_and_one_that_begins_in_it_is_whole(engine, stored, settle):
    job = stored.job()
    stored.pod_load(job, [pod_load(second, cpu_cores=1.0) for second in (30, 61, 90, 119, 121)])
    settle()
    frame = frames.pod_load(engine, "uid-1", "1m", since=at(1), until=at(61))
    assert frame["time"].tolist() == [pd.Timestamp(at(60))]
    assert frame["windows"].tolist() == [3.0]


def test_machines_have_their_capacity_beside_their_load(engine, stored, settle):
    one = stored.machine("a", cpu_capacity=8.0, memory_capacity=64 * MIB, node_type="m5")
    other = stored.machine("a", cluster="west")
    for node, cores in ((one, 2.0), (other, 3.0)):
        stored.machine_load(node, [pod_load(10, cpu_cores=cores), pod_load(20, cpu_cores=cores + 1)])
    settle()
    frame = frames.machine_load(engine, "1h")
    assert frame["cluster"].tolist() == ["east", "west"]
    assert frame["cpu_used"].tolist() == [2.5, 3.5]
    assert frame["cpu_capacity"].tolist()[:1] == [8.0]
    assert frame["memory_capacity"].tolist()[:1] == [64.0 * MIB]
    assert frame["node_type"].tolist() == ["m5", None]
    assert frames.machine_load(engine, "1m", cluster="west")["cpu_used"].tolist() == [3.5]
    assert frames.machine_load(engine, "raw", machine="a", until=at(20))["cpu_used"].tolist() == [2.0, 3.0]
    assert frames.machine_load(engine, "raw", machine="b").empty


@pytest.mark.parametrize("resolution", ["raw", "1m"])
def test_chunks_hold_the_same_rows_a_few_at_a_time(engine, stored, resolution):
    job = stored.job()
    node = stored.machine()
    rows = [pod_load(minute * 60, cpu_cores=float(minute), memory_bytes=minute) for minute in range(200)]
    stored.pod_load(job, rows[:90])
    stored.machine_load(node, rows[:90])
    roll_up(engine)
    stored.pod_load(job, rows[90:])
    stored.machine_load(node, rows[90:])
    for whole, parts in (
        (frames.pod_load(engine, "uid-1", resolution), frames.pod_load(engine, "uid-1", resolution, chunks=30)),
        (frames.machine_load(engine, resolution), frames.machine_load(engine, resolution, chunks=30)),
    ):
        given = list(parts)
        assert max(len(part) for part in given) <= 30
        assert {tuple(part.dtypes) for part in given} == {tuple(whole.dtypes)}
        joined = pd.concat(given).sort_values("time", ignore_index=True)
        pd.testing.assert_frame_equal(joined, whole)
        assert len(whole) == 200


def test_what_isnt_a_resolution_or_a_size_is_refused_at_once(engine, stored):
    stored.job()
    with pytest.raises(InvalidInput, match="resolution is '5m': expected one of raw, 1m, 1h"):
        frames.pod_load(engine, "uid-1", "5m")
    with pytest.raises(InvalidInput, match="resolution is 'day'"):
        frames.machine_load(engine, "day")
    with pytest.raises(InvalidInput, match="chunks is 0: expected a number of rows"):
        frames.pod_load(engine, "uid-1", chunks=0)
    with pytest.raises(InvalidInput, match="since is 2026-03-02 09:00:00: expected a moment with its time zone"):
        frames.pod_load(engine, "uid-1", "raw", since=at(0).replace(tzinfo=None))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda engine, given: frames.pod_load(engine, "uid-1", since=given), "since"),
        (lambda engine, given: frames.memory_usage(engine, until=given), "until"),
        (lambda engine, given: frames.machine_load(engine, since=given), "since"),
        (lambda engine, given: frames.machine_hours(engine, until=given), "until"),
        (lambda engine, given: frames.cluster_hours(engine, since=given), "since"),
        (lambda engine, given: frames.plan_outcomes(engine, since=given), "since"),
        (lambda engine, given: frames.history(engine, over_since=given), "over_since"),
    ],
)
def test_a_moment_that_is_text_or_a_day_is_refused_with_a_right_one(engine, stored, call, name):
    stored.job()
    right = r"expected a moment with its time zone, such as datetime\(2026, 3, 1, tzinfo=timezone.utc\)"
    with pytest.raises(InvalidInput, match=rf"^{name} is '2026-03-02T09:00:00Z', a str: {right}"):
        call(engine, "2026-03-02T09:00:00Z")
    with pytest.raises(InvalidInput, match=rf"^{name} is datetime.date\(2026, 3, 2\), a date: {right}"):
        call(engine, at(0).date())
    assert call(engine, pd.Timestamp(at(0))).empty


def test_memory_stays_flat_however_many_rows_chunks_go_through(engine, stored):
    job = stored.job()
    stored.pod_load(job, [pod_load(second, cpu_cores=1.0, memory_bytes=second) for second in range(12_000)])

    def peak(until):
        tracemalloc.start()
        try:
            count = sum(len(part) for part in frames.pod_load(engine, "uid-1", "raw", until=at(until), chunks=1000))
            return count, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(100)  # imports and caches
    few, many = peak(2_000), peak(12_000)
    assert (few[0], many[0]) == (2_000, 12_000)
    assert many[1] < 1.3 * few[1]
