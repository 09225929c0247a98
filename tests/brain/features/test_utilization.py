import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.brain.features import frames
from convoy.brain.features.allotment import spread
from convoy.brain.store.rollup import roll_up
from support.stored import GIB, START, Stored, at, pod_load

HOUR = 3600.0


@pytest.fixture
def stored(engine):
    return Stored(engine)


@pytest.fixture(params=["rolled up", "due"])
def settle(engine, request):
    return (lambda: roll_up(engine)) if request.param == "rolled up" else lambda: 0


def of(frame, resource):
    return frame[frame["resource"] == resource].reset_index(drop=True)


def test_a_machines_hour_has_what_was_used_allotted_and_there(engine, stored, settle):
    node = stored.machine(
        cpu_capacity=8.0, cpu_allocatable=7.5, memory_capacity=32 * GIB, memory_allocatable=30 * GIB
    )
    job = stored.job(last_seen=at(4 * HOUR))
    stored.machine_load(
        node,
        [
            pod_load(600, cpu_cores=2.0, memory_bytes=4 * GIB, seconds=600),
            pod_load(1200, cpu_cores=4.0, memory_bytes=8 * GIB, seconds=300),
            pod_load(HOUR + 60, cpu_cores=1.0),
        ],
    )
    stored.pod(job, "half", node_id=node, cpu_allotted=4.0, memory_allotted=2 * GIB, started_at=at(HOUR / 2))
    stored.pod(job, "gone", node_id=node, cpu_allotted=2.0, started_at=at(-HOUR), ended_at=at(HOUR / 4))
    stored.pod(job, "placed elsewhere", cpu_allotted=50.0, started_at=at(0))
    stored.pod(job, "never started", node_id=node, cpu_allotted=50.0)
    settle()
    frame = frames.machine_hours(engine)
    assert len(frame) == 4
    cpu, memory = of(frame, "cpu"), of(frame, "memory")
    assert cpu["time"].tolist() == [pd.Timestamp(START), pd.Timestamp(at(HOUR))]
    assert cpu["used"].tolist() == [pytest.approx((2.0 * 600 + 4.0 * 300) / 900), 1.0]
    assert cpu["used_max"].tolist() == [4.0, 1.0]
    assert cpu["allotted"].tolist() == [pytest.approx(4.0 / 2 + 2.0 / 4), 4.0]
    assert cpu["capacity"].tolist() == [8.0] * 2
    assert cpu["allocatable"].tolist() == [7.5] * 2
    assert memory["used"].tolist()[:1] == [6.0 * GIB]
    assert math.isnan(memory["used"][1])
    assert memory["allotted"].tolist() == [1.0 * GIB, 2.0 * GIB]
    assert set(frame["machine"]) == {"machine-1"}


def test_a_pod_without_an_end_ends_with_its_job_or_its_machine(engine, stored):
    lives = {"cpu_allotted": 1.0, "started_at": at(0)}
    for name, job, machine in (
        ("ended", {"state": "Succeeded", "last_seen": at(HOUR / 2)}, {}),
        ("deleted", {"gone_at": at(HOUR / 4)}, {}),
        ("silent", {"last_seen": at(HOUR / 4)}, {}),
        ("machine gone", {}, {"gone_at": at(HOUR * 3 / 4)}),
    ):
        node = stored.machine(name, **machine)
        stored.pod(stored.job(name, **job), "worker-0", node_id=node, **lives)
        stored.machine_load(node, [pod_load(60, cpu_cores=0.5)])
    frame = of(frames.machine_hours(engine), "cpu").set_index("machine")
    assert frame["allotted"].to_dict() == {"ended": 0.5, "deleted": 0.25, "silent": 1.0, "machine gone": 0.75}


def test_accelerators_are_told_only_where_there_are_some(engine, stored, settle):
    with_some = stored.machine("gpu", accelerators_capacity=4.0, accelerators_allocatable=4.0)
    without = stored.machine("plain", accelerators_capacity=0.0)
    stored.pod(stored.job(), node_id=with_some, accelerators=2.0, started_at=at(0))
    stored.machine_load(with_some, [pod_load(60, accelerator_busy=1.5)])
    stored.machine_load(without, [pod_load(60, cpu_cores=1.0)])
    settle()
    row = of(frames.machine_hours(engine), "accelerators")
    assert row["machine"].tolist() == ["gpu"]
    assert (row["used"][0], row["allotted"][0], row["capacity"][0]) == (1.5, 2.0, 4.0)
    assert math.isnan(row["used_max"][0])
    assert of(frames.cluster_hours(engine), "accelerators")["capacity"].tolist() == [4.0]


def test_a_cluster_is_the_sum_of_its_machines_while_they_are_there(engine, stored, settle):
    rooms = {"cpu_capacity": 10.0, "cpu_allocatable": 9.0}
    whole = stored.machine("whole", **rooms)
    late = stored.machine("late", **rooms, first_seen=at(HOUR / 2))
    stored.machine("silent", **rooms)
    stored.machine("gone", **rooms, gone_at=at(0))
    elsewhere = stored.machine("whole", cluster="west", **rooms)
    for node, cores in ((whole, 4.0), (late, 6.0), (elsewhere, 1.0)):
        stored.machine_load(node, [pod_load(3000, cpu_cores=cores)])
    stored.pod(stored.job(), node_id=whole, cpu_allotted=8.0, started_at=at(HOUR / 2))
    settle()
    frame = of(frames.cluster_hours(engine), "cpu")
    assert frame["cluster"].tolist() == ["east", "west"]
    east = frame.iloc[0]
    assert east["used"] == pytest.approx(4.0 + 6.0 / 2)
    assert east["capacity"] == pytest.approx(10 + 10 / 2 + 10)
    assert east["allocatable"] == pytest.approx(9 * 2.5)
    assert east["allotted"] == pytest.approx(4.0)
    assert (east["machines"], east["measured"]) == (2.5, 1.5)
    assert frames.cluster_hours(engine, cluster="west")["cluster"].unique().tolist() == ["west"]
    assert frames.cluster_hours(engine, since=at(HOUR)).empty
    memory = of(frames.cluster_hours(engine), "memory")
    assert memory["used"].isna().all()
    assert memory["measured"].tolist() == [0.0, 0.0]


LIVES = st.lists(
    st.tuples(st.integers(1, 2), st.integers(-9000, 9000), st.none() | st.integers(-9000, 9000), st.floats(0, 64)),
    max_size=12,
)


@given(LIVES)
def test_what_was_held_in_an_hour_is_the_overlap_of_lives_with_it(lives):
    begin, end = pd.Timestamp(START), pd.Timestamp(at(2 * HOUR))
    pods = pd.DataFrame(
        [(node, at(start), None if stop is None else at(stop), cpu, None, None) for node, start, stop, cpu in lives],
        columns=["node_id", "begin", "end", "cpu", "memory", "accelerators"],
    )
    found = spread(pods, begin, end).set_index(["node_id", "time"])["cpu"]
    for node in (1, 2):
        for hour in (0, 1):
            first, last = hour * HOUR, (hour + 1) * HOUR
            held = 0.0
            for of_node, start, stop, cpu in lives:
                lived = min(last, 2 * HOUR if stop is None else stop) - max(first, start)
                held += cpu * max(0.0, lived) / HOUR if of_node == node else 0.0
            key = (node, pd.Timestamp(at(first)))
            assert (found[key] if key in found.index else 0.0) == pytest.approx(held, abs=1e-9)
