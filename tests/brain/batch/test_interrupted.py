"""A run of the batch that is killed, or whose database goes away: gone on with, it writes what others write."""

import json
import threading
import time

import pytest

from convoy.brain.batch.pipeline import Ending
from convoy.brain.batch.work import Mode
from convoy.brain.store.engine import open_engine
from convoy.brain.store.migrate import migrate
from convoy.brain.store.tables import ModelVersion
from convoy.core.cluster.port import Kind
from support.batches import (
    JOBS,
    all_rows,
    cluster_with_jobs,
    fill,
    in_process,
    proposed,
    run,
    small_model,
    surroundings,
    written,
)
from support.disposable import disposable_mariadb
from support.waiting import until


@pytest.fixture(autouse=True)
def _small_model(monkeypatch):
    small_model(monkeypatch)


POINTS = (
    "batch.begun",
    "batch.rollup.before-commit",
    "batch.rollup.after-commit",
    "batch.features.before-commit",
    "batch.features.after-commit",
    "models.after-file",
    "models.after-row",
    "batch.fit.after-model",
    "batch.fit.before-commit",
    "batch.fit.after-commit",
    "models.before-commit",
    "models.after-commit",
    "batch.promote.before-commit",
    "batch.promote.after-commit",
    "batch.feedback.before-commit",
    "batch.feedback.after-commit",
    "batch.plan.before-commit",
    "batch.plan.after-commit",
    "batch.apply.after-accept",
    "batch.delivery.after-plan",
    "batch.apply.before-commit",
    "batch.apply.after-commit",
    "batch.ended",
)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What a run in mode apply writes that nothing happens to."""
    home = tmp_path_factory.mktemp("undisturbed")
    url = f"sqlite:///{home / 'brain.db'}"
    migrate(url)
    engine = open_engine(url)
    with pytest.MonkeyPatch.context() as patch:
        small_model(patch)
        (home / "s").mkdir()
        with cluster_with_jobs(home / "s") as (cluster, uids):
            fill(engine, home, uids=uids)
            assert run(surroundings(engine, home, mode=Mode.APPLY, cluster=cluster)).ending is Ending.DONE
    found = written(engine)
    engine.dispose()
    return found


def killed_at(points, engine, url, home, state_dir, undisturbed):
    with cluster_with_jobs(state_dir) as (cluster, uids):
        fill(engine, home, uids=uids)
        for point in points:
            ended = in_process(url, home, mode="apply", CONVOY_CRASH_AT=point)
            assert ended.returncode == -9, (point, ended.stdout, ended.stderr)
        last = in_process(url, home, mode="apply")
        assert last.returncode == 0, last.stderr
        assert json.loads(last.stdout)["ending"] in ("done", "already done")
        plans = cluster.list(Kind.SCALE_PLAN, "default").items
    assert sorted(plan["spec"]["ownerJob"] for plan in plans) == ["first", "second"]
    assert written(engine) == undisturbed


@pytest.mark.timeout(180)
@pytest.mark.parametrize("point", ["batch.fit.after-model", "batch.plan.before-commit", "batch.delivery.after-plan"])
def test_killed_and_gone_on_with_it_writes_what_an_undisturbed_run_writes(
    point, engine, store, home, state_dir, undisturbed
):
    killed_at([point], engine, store, home, state_dir, undisturbed)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_killed_at_each_boundary_in_turn_it_writes_what_an_undisturbed_run_writes(
    engine, store, home, state_dir, undisturbed
):
    killed_at(POINTS, engine, store, home, state_dir, undisturbed)


@pytest.mark.servers
def test_a_database_that_goes_away_and_comes_back_is_waited_for(home, tmp_path, monkeypatch):
    with disposable_mariadb(tmp_path / "mariadb") as server:
        migrate(server.url)
        engine = open_engine(server.url)
        fill(engine, home)
        around = surroundings(engine, home)
        gone = threading.Event()

        def away(stage, what):
            if stage == "fit" and not gone.is_set():
                gone.set()
                server.kill()

        object.__setattr__(around, "progress", away)
        outcomes = []
        thread = threading.Thread(target=lambda: outcomes.append(run(around, seconds=50.0)))
        thread.start()
        until(gone.is_set, "the batch to be at its models")
        time.sleep(2.0)
        server.start()
        thread.join(50)
        assert outcomes[0].ending is Ending.DONE, outcomes[0].message
        assert outcomes[0].run.starts == 2
        assert len(all_rows(engine, ModelVersion)) == 1
        assert len(proposed(engine)) == len(JOBS)
        engine.dispose()


@pytest.mark.servers
def test_a_database_that_stays_away_ends_the_run_at_its_deadline(home, tmp_path):
    with disposable_mariadb(tmp_path / "mariadb") as server:
        migrate(server.url)
        engine = open_engine(server.url)
        fill(engine, home)
        around = surroundings(engine, home)
        object.__setattr__(around, "progress", lambda stage, what: stage == "fit" and server.kill())
        outcome = run(around, seconds=8.0)
        assert outcome.ending is Ending.FAILED
        assert "that couldn't be written down" in outcome.message
        engine.dispose()
