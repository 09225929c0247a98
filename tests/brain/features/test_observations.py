import math

import pandas as pd
import pytest
import sqlalchemy as sa

from convoy.brain.features import frames
from convoy.brain.features.loading import loader_wait_of
from convoy.brain.ingest.history import import_history
from convoy.brain.ingest.reports import Ingest
from convoy.brain.models.efficiency import EfficiencyModel
from convoy.brain.models.throughput.frame import observations_of
from convoy.brain.store import jobs
from convoy.brain.store.engine import writing
from convoy.brain.store.tables import Recommendation
from support.clock import FakeClock
from support.reports import NOW, envelope, job, load, report, window

GIB = 2**30


@pytest.fixture
def ingest(engine):
    return Ingest(engine, FakeClock(NOW))


def send(ingest, given, uid="uid-1", sequence=1, incarnation=1):
    ack = ingest.store(envelope(sequence, uid=uid, incarnation=incarnation), given)
    assert ack.refused == []


def rounds(uid="uid-1", state="Running"):
    """One worker at 100, 110, 90 after a slow start; two workers at 180, 220; one worker at 106."""
    windows = [
        window(1, rate=5, warming=True),
        *(window(2 + n, rate=rate) for n, rate in enumerate([100, 110, 90])),
        window(10, rate=9, workers=2, round=2, warming=True),
        *(window(11 + n, rate=rate, workers=2, round=2) for n, rate in enumerate([180, 220])),
        window(20, rate=106, round=3),
    ]
    return report(*windows, of=job(uid, state=state))


def test_a_running_job_has_a_row_a_round_without_its_warm_up(engine, ingest):
    send(ingest, rounds())
    frame = frames.observed(engine, "uid-1")
    assert frame["workers"].tolist() == [1.0, 2.0, 1.0]
    assert frame["throughput"].tolist() == [100.0, 200.0, 106.0]
    assert frame["throughput_sd"].tolist()[:2] == pytest.approx([10 / math.sqrt(3), 20.0])
    assert math.isnan(frame["throughput_sd"][2])
    assert frame["window_seconds"].tolist() == [3.0, 2.0, 1.0]
    assert frame["batch_size"].tolist() == [256.0, 128.0, 256.0]
    assert frame["compute_seconds"].tolist() == pytest.approx([0.01] * 3)
    assert frame["observed_at"][0] == pd.Timestamp(NOW - 1000 + 4, unit="s", tz="UTC")
    assert set(frame["job"]) == {"uid-1"}
    assert set(frame["mode"]) == {"sync"}
    assert frame["cluster"].tolist() == [None] * 3
    assert frame.dtypes.to_dict() == frames.observed(engine, "nobody").dtypes.to_dict()


def test_history_has_a_row_a_configuration_of_each_other_job(engine, ingest):
    send(ingest, rounds())
    send(ingest, rounds("uid-2"), uid="uid-2")
    assert set(frames.history(engine)["job"]) == {"uid-1", "uid-2"}
    frame = frames.history(engine, exclude_job="uid-1").sort_values("workers")
    assert set(frame["job"]) == {"uid-2"}
    assert frame["workers"].tolist() == [1.0, 2.0]
    assert frame["throughput"].tolist() == pytest.approx([(100 + 110 + 90 + 106) / 4, 200.0])
    assert frame["window_seconds"].tolist() == [4.0, 2.0]
    spread = pd.Series([100, 110, 90, 106]).std() / 2
    assert frame["throughput_sd"].iloc[0] == pytest.approx(spread)


def test_only_jobs_that_are_over_where_asked(engine, ingest):
    send(ingest, rounds())
    send(ingest, rounds("uid-2", state="Succeeded"), uid="uid-2")
    long_ago = pd.Timestamp(NOW - 10, unit="s", tz="UTC").to_pydatetime()
    assert set(frames.history(engine, over_since=long_ago)["job"]) == {"uid-2"}
    later = pd.Timestamp(NOW + 10, unit="s", tz="UTC").to_pydatetime()
    assert set(frames.history(engine, over_since=later)["job"]) == {"uid-1", "uid-2"}


def test_load_is_that_of_steady_windows_shared_out_among_a_pods_processes(engine, ingest):
    given = rounds()
    for sample in given.speed:
        sample.nodes = 1  # two workers are two processes of one pod
    busy = {2: 0.5, 3: 0.7}
    for number, cores in {1: 9.0, **busy, 30: 9.0}.items():
        given.load.append(load(number))
        given.load[-1].cpu_cores = cores
    for number, cores in {11: 1.0, 12: 1.2}.items():
        given.load.append(load(number, round=2))
        given.load[-1].cpu_cores = cores
        given.load[-1].cpu_allotted = 2.0
        given.load[-1].memory_allotted = 4 * GIB
    send(ingest, given)
    frame = frames.observed(engine, "uid-1")
    assert frame["worker_cpu_used"].tolist()[:2] == pytest.approx([0.6, 0.55])
    assert frame["worker_cpu"].tolist()[:2] == [1.0, 1.0]
    assert frame["worker_memory"][1] == 2 * GIB
    assert frame["worker_memory_used"].tolist()[:2] == [400 * 2**20, 200 * 2**20]
    assert math.isnan(frame["worker_cpu_used"][2])
    assert frame["ps_cpu_used"].isna().all()
    merged = frames.history(engine)
    assert merged["worker_cpu_used"].tolist() == pytest.approx([0.6, 0.55])


def test_parameter_servers_load_has_the_busiest_apart(engine, ingest):
    given = report(window(1), window(2), of=job())
    for node, cores in (("ps-0", 0.2), ("ps-1", 1.8)):
        given.load.append(load(1, node))
        given.load[-1].role = "ps"
        given.load[-1].cpu_cores = cores
    send(ingest, given)
    frame = frames.observed(engine, "uid-1")
    assert frame["ps_cpu_used"].tolist() == pytest.approx([1.0])
    assert frame["ps_cpu_used_max"].tolist() == pytest.approx([1.8])


def test_imported_rows_come_as_they_were_written(engine, ingest, home):
    path = home / "history.csv"
    path.write_text(
        "job,template,model,workers,cluster_cpu,throughput,throughput_sd,observed_at,window_seconds,status\n"
        "past,t,resnet,2,8,123.5,1.5,2026-01-31T12:00:00Z,30,ok\n"
        "past,t,resnet,4,8,,,,,failed\n"
    )
    import_history(engine, path)
    send(ingest, rounds())
    frame = frames.history(engine, exclude_job="uid-1")
    assert frame["job"].tolist() == ["past", "past"]
    assert frame["cluster_cpu"].tolist() == [8.0, 8.0]
    assert frame["status"].tolist() == ["ok", "failed"]
    assert frame["strategy"].tolist() == [None, None]
    assert len(frames.history(engine)) == 4
    assert frames.history(engine).dtypes.to_dict() == frames.observed(engine, "nobody").dtypes.to_dict()
    assert len(observations_of(frame)) == 1


def test_the_room_that_a_job_had_is_what_its_master_last_said(engine, ingest):
    send(ingest, rounds())
    empty = {"options": [], "request": {}, "evidence": {}, "message": "", "reason": "", "currency": "USD"}
    row = {
        "id": "r1",
        "made_at": pd.Timestamp(NOW, unit="s", tz="UTC").to_pydatetime(),
        "stage": "RUNNING",
        "decision": "KEEP",
        "workers_before": 1,
        "free_cpu": 2.0,
        "observations": 1,
        "history_jobs": 0,
        "seconds": 0.1,
    }
    with writing(engine) as connection:
        number = jobs.job_id(connection, "uid-1")
        connection.execute(sa.insert(Recommendation), [{"job_id": number, **row, **empty}])
    assert frames.observed(engine, "uid-1")["cluster_cpu"].tolist() == [2.0] * 3


def test_the_noise_of_gradients_is_the_newest_hours_at_the_smallest_batch(engine, ingest):
    """Told a sample, asked for at the job's smallest global batch: 256 on one worker, 2 x 512 on two."""
    told = [
        window(1, noise=(9.0, 9.0), warming=True),
        *(window(2 + n, noise=(sqr, 512.0)) for n, sqr in enumerate([3.0, -1.0])),
        window(5, workers=2, batch=1024, round=2, noise=(0.5, 1024.0)),
        window(9, workers=2, batch=1024, round=3),
    ]
    send(ingest, report(*told))
    frame = frames.observed(engine, "uid-1")
    assert frame["grad_sqr"].tolist()[:2] == [1.0, 0.5]
    assert frame["grad_var"].tolist()[:2] == [2.0, 4.0]
    assert math.isnan(frame["grad_var"][2])
    said = EfficiencyModel().predict(frame, frame)
    assert set(said["reason"]) == {"InitialBatch", "Observed"}


def test_without_the_noise_of_gradients_it_is_unknown(engine, ingest):
    send(ingest, rounds())
    assert frames.observed(engine, "uid-1")[["grad_sqr", "grad_var"]].isna().all(axis=None)
    assert frames.history(engine)[["grad_sqr", "grad_var"]].isna().all(axis=None)


def test_the_wait_for_data_stands_by_configuration_and_number_of_loaders(engine, ingest):
    told = [
        window(1, loading=(5.0, 0), warming=True),
        *(window(2 + n, loading=(wait, 0)) for n, wait in enumerate([0.6, 0.8])),
        window(5, loading=(0.0, 4), rate=4000.0),
        window(6, workers=2, round=2, loading=(0.1, 4)),
        window(7, workers=2, round=2),
    ]
    send(ingest, report(*told))
    frame = frames.loader_wait(engine)
    assert frame["loader_workers"].tolist() == [0.0, 4.0, 4.0]
    assert frame["loader_wait"].tolist() == pytest.approx([0.7, 0.0, 0.1])
    assert frame["workers"].tolist() == [1.0, 1.0, 2.0]
    assert frame["step_seconds"].tolist() == [1.0, 1.0, 1.0]
    assert frame["window_seconds"].tolist() == [2.0, 1.0, 1.0]
    since = pd.Timestamp(NOW - 996, unit="s", tz="UTC").to_pydatetime()
    assert loader_wait_of(engine, "uid-1", since)["loader_wait"].tolist() == pytest.approx([0.0, 0.1])
    assert loader_wait_of(engine, "uid-2", since).empty
