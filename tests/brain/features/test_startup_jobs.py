import math

import pandas as pd
import pytest
import sqlalchemy as sa

from convoy.brain.features import frames
from convoy.brain.models.startup import StartupModel
from convoy.brain.store import jobs
from convoy.brain.store.engine import writing
from convoy.brain.store.tables import Job
from convoy.core.api.errors import InvalidInput
from support.stored import GIB, Stored, at, speed


@pytest.fixture
def stored(engine):
    return Stored(engine)


def succeeded(stored, uid="uid-1", **changes):
    return stored.job(uid, state="Succeeded", **changes)


def test_a_job_that_succeeded_ended_with_the_size_of_its_last_round(engine, stored):
    described = {"image": "image-1", "user": "ada", "model": "dlrm", "mode": "sync", "batch_size": 512.0}
    job = succeeded(stored, strategy="ps", model_parameters=1e6, last_seen=at(100), **described)
    stored.speed(job, [speed(10, workers=1, ps=1), speed(20, round=2, workers=4, nodes=2, ps=2)])
    for rank in range(2):
        stored.pod(job, f"worker-{rank}", rank=rank, cpu_allotted=8.0, memory_allotted=4 * GIB)
        stored.pod(job, f"ps-{rank}", rank=rank, role="ps", cpu_allotted=2.0, memory_allotted=(rank + 1) * GIB)
    stored.pod(job, "master", role="dlrover-master", cpu_allotted=99.0)
    frame = frames.startup_jobs(engine)
    assert len(frame) == 1
    found = frame.iloc[0].to_dict()
    expected = {"job": "uid-1", "template": "template-1", "strategy": "ps", "dataset": None, **described}
    assert {name: found[name] for name in expected} == expected
    assert found["model_parameters"] == 1e6
    assert math.isnan(found["learning_rate"])
    assert found["completed_at"] == pd.Timestamp(at(100))
    sizes = {"workers": 4, "ps": 2, "worker_cpu": 4, "worker_memory": 2 * GIB, "ps_cpu": 2, "ps_memory": 2 * GIB}
    assert {name: found[name] for name in sizes} == sizes


def test_of_pods_in_a_rank_the_last_one_counts(engine, stored):
    job = succeeded(stored)
    stored.pod(job, "worker-0", rank=0, memory_allotted=GIB, started_at=at(1), reason="OOMKilled")
    stored.pod(job, "worker-2", rank=0, memory_allotted=2 * GIB, started_at=at(9))
    stored.pod(job, "worker-1", rank=1, memory_allotted=GIB, created_at=at(2))
    stored.pod(job, "worker-3", rank=1, memory_allotted=9 * GIB, cpu_allotted=3.0)
    frame = frames.startup_jobs(engine)
    assert frame["worker_memory"].tolist() == [2 * GIB]
    assert frame["workers"].tolist() == [2.0]
    assert math.isnan(frame["worker_cpu"][0])
    assert frame["ps"].tolist() == [0.0]


def test_only_jobs_that_succeeded_in_the_span_the_earliest_first(engine, stored):
    for uid, second in (("late", 300), ("early", 100), ("before", 50)):
        succeeded(stored, uid, last_seen=at(second))
    for state in ("Failed", "Running", "Waiting"):
        stored.job(state, state=state, last_seen=at(200))
    assert frames.startup_jobs(engine)["job"].tolist() == ["before", "early", "late"]
    assert frames.startup_jobs(engine, since=at(100), until=at(300))["job"].tolist() == ["early"]
    with pytest.raises(InvalidInput, match="since is"):
        frames.startup_jobs(engine, since="yesterday")


def test_a_job_of_which_nothing_else_is_known_has_its_row(engine, stored):
    succeeded(stored, strategy="ps")
    frame = frames.startup_jobs(engine)
    assert frame["job"].tolist() == ["uid-1"]
    assert frame[["workers", "ps", "worker_cpu", "worker_memory", "ps_cpu", "ps_memory"]].isna().all(axis=None)
    assert StartupModel().fit(frame).recommend(frame)["reason"].tolist() == ["NothingKnown"]


def test_numbers_that_masters_told_have_columns_of_their_own(engine, stored):
    first, second = (succeeded(stored, uid, last_seen=at(n)) for n, uid in enumerate(["uid-1", "uid-2"]))
    other = stored.job("uid-3")
    with writing(engine) as connection:
        jobs.set_features(connection, first, [{"name": "layers", "value": 12.0}])
        jobs.set_features(connection, second, [{"name": "layers", "value": 2.0}, {"name": "workers", "value": 7.0}])
        jobs.set_features(connection, other, [{"name": "heads", "value": 8.0}])
        jobs.set_priorities(connection, {first: 1000})  # says when a job runs, and nothing of what it needs
    frame = frames.startup_jobs(engine)
    assert list(frame.columns[-3:]) == ["completed_at", "feature_layers", "feature_workers"]
    assert frame["feature_layers"].tolist() == [12.0, 2.0]
    assert math.isnan(frame["feature_workers"][0])
    assert frame["workers"].isna().all()


def test_the_model_learns_from_the_frame_what_a_job_will_need(engine, stored):
    for number in range(40):
        parameters = 1e6 * (1 + number % 10)
        job = succeeded(stored, f"uid-{number}", model_parameters=parameters, user=f"user-{number % 3}")
        stored.pod(job, rank=0, cpu_allotted=2.0, memory_allotted=round(parameters * 1000))
    frame = frames.startup_jobs(engine)
    with writing(engine) as connection:
        connection.execute(sa.update(Job).values(state="Running"))
    assert frames.startup_jobs(engine).empty
    asked = pd.DataFrame({"template": ["template-1"], "strategy": ["allreduce"], "model_parameters": [3e6]})
    answer = StartupModel().fit(frame).recommend(asked).iloc[0]
    assert answer["reason"] == "Learned"
    assert answer["worker_memory"] == pytest.approx(3e9, rel=0.1)
    assert answer[["workers", "ps", "worker_cpu"]].tolist() == [1.0, 0.0, pytest.approx(2.0)]
