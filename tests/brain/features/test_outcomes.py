import math

import pandas as pd
import pytest

from convoy.brain.features import frames
from support.stored import Stored, at, pod_load, speed


@pytest.fixture
def stored(engine):
    return Stored(engine)


def test_a_plan_stands_beside_what_came_of_it(engine, stored):
    job = stored.job(user="ada", cluster="east")
    stored.recommendation(job, "r-1")
    known = {"predicted": 200.0, "predicted_lower": 180.0, "predicted_upper": 230.0}
    stored.plan(job, "inside", **known, realized=220.0, realized_seconds=60.0, recommendation_id="r-1")
    stored.plan(job, "below", **known, realized=150.0, rolled_back=True, created_at=at(10), restart_seconds=12.5)
    stored.plan(job, "on the edge", **known, realized=180.0, created_at=at(20), carried_out_at=at(25))
    stored.plan(job, "not yet", **known, created_at=at(30))
    stored.plan(job, "by hand", realized=100.0, created_at=at(40), workers_before=4, workers_after=3)
    frame = frames.plan_outcomes(engine)
    assert frame["plan"].tolist() == ["inside", "below", "on the edge", "not yet", "by hand"]
    assert frame["error"].tolist()[:3] == pytest.approx([0.1, -0.25, -0.1])
    assert frame["error"][3:].isna().all()
    assert frame["within"].tolist() == [True, False, True, pd.NA, pd.NA]
    assert frame["rolled_back"].tolist() == [False, True, False, False, False]
    assert frame["recommendation"].tolist() == ["r-1", None, None, None, None]
    assert frame["restart_seconds"][1] == 12.5
    assert math.isnan(frame["restart_seconds"][0])
    assert frame["carried_out_at"][2] == pd.Timestamp(at(25))
    assert (frame["workers_before"][4], frame["workers_after"][4]) == (4.0, 3.0)
    assert set(frame["user"]) == {"ada"}


def test_of_one_job_or_of_a_span_of_time(engine, stored):
    for number, uid in enumerate(("uid-1", "uid-2")):
        stored.plan(stored.job(uid), created_at=at(number))
    assert frames.plan_outcomes(engine, "uid-2")["job"].tolist() == ["uid-2"]
    assert frames.plan_outcomes(engine, since=at(1))["job"].tolist() == ["uid-2"]
    assert frames.plan_outcomes(engine, until=at(1))["job"].tolist() == ["uid-1"]
    assert frames.plan_outcomes(engine, "uid-1", since=at(1)).empty


def test_what_predicted_a_plan_and_what_its_pods_used_stand_beside_it(engine, stored):
    """Two pods from second 100 on, restarted at 200; one from second 300 on, by another plan."""
    job = stored.job()
    stored.recommendation(
        job,
        "r-1",
        price_per_hour=0.25,
        evidence={
            "model": {"from": "champion", "version": 3, "digest": "abc"},
            "roles": [{"role": "ps", "cpu_used": 9.0}, {"role": "worker", "cpu_used": 1.5, "memory_used": None}],
        },
    )
    stored.recommendation(job, "r-2", evidence={"model": {"from": "store", "why": "NoChampion"}})
    stored.plan(job, "up", recommendation_id="r-1", carried_out_at=at(100), workers_after=2)
    stored.plan(
        job,
        "down",
        recommendation_id="r-2",
        created_at=at(290),
        carried_out_at=at(300),
        workers_after=1,
        realized=9.0,
    )
    stored.plan(job, "never", created_at=at(400))
    windows, loads = [], []
    for number, (begin, nodes, cores) in enumerate([(0, 1, 0.5), (100, 2, 1.0), (200, 2, 1.4), (300, 1, 0.6)], 1):
        changes = {"round": number, "workers": nodes, "nodes": nodes}
        windows += [
            speed(begin + 10, warming=True, **changes),
            speed(begin + 20, **changes),
            speed(begin + 50, **changes),
        ]
        loads += [
            pod_load(begin + second, f"worker-{pod}", round=number, cpu_cores=cores, cpu_allotted=2.0,
                     memory_bytes=2**30, memory_allotted=2**31)
            for pod in range(nodes)
            for second in (30, 40)
        ]  # fmt: skip
    stored.speed(job, windows)
    stored.pod_load(job, loads)
    frame = frames.plan_outcomes(engine).set_index("plan")
    assert frame["model"].tolist() == ["abc", None, None]
    assert frame.loc["up", ["price_per_hour", "worker_cpu_upper"]].tolist() == [0.25, 1.5]
    assert frame["worker_memory_upper"].isna().all()
    assert frame.loc["up", "worker_cpu_used"] == pytest.approx(1.2), "mean of its two rounds"
    assert frame.loc["down", "worker_cpu_used"] == pytest.approx(0.6)
    assert frame.loc["up", ["worker_cpu", "worker_memory", "worker_memory_used"]].tolist() == [2.0, 2**31, 2**30]
    assert math.isnan(frame.loc["never", "worker_cpu_used"])
    pd.testing.assert_frame_equal(frames.plan_outcomes(engine, "uid-1").set_index("plan"), frame)
