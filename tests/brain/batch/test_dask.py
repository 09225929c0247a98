"""Models fitted on a Dask cluster: a scheduler and two workers, processes each."""

import os
import signal
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from distributed import Client

from convoy.brain.batch import fit, on_dask
from convoy.brain.batch.engines import Local, fitter_of
from convoy.brain.batch.pipeline import Ending, run_window
from convoy.brain.batch.process import run_once
from convoy.brain.models.registry.codec import encode
from convoy.brain.store.engine import open_engine
from convoy.brain.store.migrate import migrate
from convoy.brain.store.model_files import Registry
from convoy.core.api.errors import InvalidInput, Unavailable, Unusable
from support.batches import NOW, WINDOW, At, fill, surroundings
from support.dask_cluster import dask_cluster
from support.stored import GIB, Stored

HOUR = timedelta(hours=1)
BOTH = ("throughput", "startup")


@pytest.fixture
def engine(home):
    url = f"sqlite:///{home / 'brain.db'}"
    migrate(url)
    engine = open_engine(url)
    yield engine
    engine.dispose()


def quiet(step):
    """Nobody looks."""


def fill_all(engine, home):
    """History of speeds, and of jobs that succeeded."""
    fill(engine, home)
    stored, generator = Stored(engine), np.random.default_rng(0)
    for number in range(12):
        job = stored.job(
            f"over-{number}", state="Succeeded", template=f"template-{number % 3}", last_seen=NOW - timedelta(hours=1)
        )
        for rank in range(2 ** (number % 3 + 1)):
            memory = round((1 + number % 3) * GIB * generator.uniform(0.9, 1.1))
            stored.pod(job, f"worker-{rank}", rank=rank, cpu_allotted=1.0, memory_allotted=memory)


def orders(engine, home, *names):
    registry = Registry(engine, home / "models")
    return [fit.read(engine, registry, name, NOW) for name in names]


def comparable(made):
    """Of each model the bytes of its file, without how long the fit took."""
    assert [one.error for one in made if one.error] == []
    return {one.name: encode(replace(one.file, facts=replace(one.file.facts, seconds=0.0))) for one in made}


@pytest.mark.timeout(180)
def test_two_workers_fit_the_same_models_bit_for_bit(engine, home, tmp_path):
    fill_all(engine, home)
    here = comparable(list(Local().make(orders(engine, home, *BOTH), quiet)))
    with dask_cluster(tmp_path / "dask") as cluster:
        fitter = fitter_of(f"dask://{cluster.address}")
        with Client(f"tcp://{cluster.address}", set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
            steps = []
            there = comparable(list(fitter.make(orders(engine, home, *BOTH), steps.append)))
            done = client.run(
                lambda dask_worker: sum("make_elsewhere" in str(entry) for entry in dask_worker.state.log)
            )
    assert set(here) == set(BOTH)
    assert there == here
    assert len(done) == 2
    assert all(done.values()), done
    assert any("by 2 workers" in step for step in steps)


@pytest.mark.long
@pytest.mark.timeout(180)
def test_a_run_on_dask_writes_what_one_here_writes_and_outlives_a_worker(engine, home, tmp_path, monkeypatch):
    fill(engine, home)
    here = run_window(surroundings(engine, home), WINDOW, 100.0)
    assert here.ending is Ending.DONE
    with dask_cluster(tmp_path / "dask") as cluster:
        url = f"sqlite:///{home / 'other.db'}"
        migrate(url)
        other = open_engine(url)
        fill(other, home)
        around = surroundings(other, home, fitter=fitter_of(f"dask://{cluster.address}"), models_dir=home / "other")
        with Client(f"tcp://{cluster.address}", set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
            killed = []

            def progress(stage, what):
                at = next((address for address, keys in client.processing().items() if keys), None)
                if stage == "fit" and at is not None and not killed:
                    killed.append(client.run(os.getpid, workers=[at])[at])
                    os.kill(killed[0], signal.SIGKILL)

            object.__setattr__(around, "progress", progress)
            there = run_window(around, WINDOW, 100.0)
            assert len(killed) == 1, "a worker was killed that had a task"
    assert there.ending is Ending.DONE, there.message
    assert there.run.engine == f"dask://{cluster.address}"
    mine, theirs = (
        Registry(one, home / name).version("throughput") for one, name in ((engine, "models"), (other, "other"))
    )
    assert (theirs.stage, theirs.score) == (mine.stage, mine.score)
    changes = [
        {name: value for name, value in one.items() if name != "id"} for one in there.run.report["plan"]["changes"]
    ]
    assert changes == [
        {name: value for name, value in one.items() if name != "id"} for one in here.run.report["plan"]["changes"]
    ]
    other.dispose()


def test_a_scheduler_that_isnt_there_is_waited_for_until_the_deadline(engine, home, monkeypatch):
    monkeypatch.setattr(on_dask, "_CONNECT_SECONDS", 1)
    fill(engine, home)
    with pytest.raises(Unavailable, match="no scheduler answers"):
        list(fitter_of("dask://127.0.0.1:9").make(orders(engine, home, "throughput"), quiet))
    around = surroundings(engine, home, fitter=fitter_of("dask://127.0.0.1:9"), clock=At())
    told = run_once(around, timedelta(hours=1), 4.0)
    assert told.outcome.ending is Ending.FAILED
    assert "deadline of 4 s passed in stage fit" in told.outcome.message
    assert "deadline of 4 s" in told.report.read_text()


@pytest.mark.timeout(120)
def test_a_worker_with_another_version_is_refused(engine, home, tmp_path, monkeypatch):
    fill(engine, home)
    with dask_cluster(tmp_path / "dask", workers=1) as cluster:
        monkeypatch.setattr(on_dask, "VERSION", "9.9")
        with pytest.raises(Unusable, match=r"has Convoy .*, not 9\.9"):
            list(fitter_of(f"dask://{cluster.address}").make(orders(engine, home, "throughput"), quiet))


@pytest.mark.parametrize("where", ["", "dask://", "spark://here", "remote"])
def test_an_engine_that_isnt_known_is_refused(where):
    with pytest.raises(InvalidInput, match="expected local, or dask://HOST:PORT"):
        fitter_of(where)
