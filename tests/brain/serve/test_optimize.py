"""The plan for all jobs, from a store to what the command prints."""

from __future__ import annotations

import json

import pytest

from convoy.brain.features.given import Given
from convoy.brain.ingest.history import import_history
from convoy.brain.models.efficiency import EfficiencyModel
from convoy.brain.plan.cluster import Pool
from convoy.brain.serve.advise import Adviser
from convoy.brain.serve.all_jobs import Models, asked_of
from convoy.brain.serve.optimize import optimize
from convoy.brain.settings import BrainSettings
from convoy.brain.store.engine import default_url, open_engine
from convoy.brain.store.migrate import migrate
from convoy.core.process.clock import SystemClock
from support.brain_command import BrainCommand
from support.live_jobs import MACHINE, put
from support.stored import Stored

COLUMNS = "job,template,model,strategy,workers,nodes,batch_size,worker_cpu,throughput,window_seconds"
HISTORY = "\n".join(
    [
        COLUMNS,
        *(
            f"past-{number},template-1,mlp,allreduce,{workers},{workers},{256 // workers},4,{scale * rate:.1f},30"
            for number, scale in enumerate([1.0, 0.9, 1.1, 0.8])
            for workers, rate in ((1, 1000), (2, 1900), (4, 3400), (8, 6000))
        ),
        "",
    ]
)


@pytest.fixture
def settings(state_dir):
    url = default_url(state_dir)
    migrate(url)
    return BrainSettings.load(database_url=url)


@pytest.fixture
def brain(monkeypatch, capsys, home):
    return BrainCommand(monkeypatch, capsys)


@pytest.fixture
def engine(settings):
    engine = open_engine(settings.database())
    yield engine
    engine.dispose()


@pytest.fixture
def stored(engine):
    return Stored(engine)


@pytest.fixture
def world(engine, stored, tmp_path):
    file = tmp_path / "history.csv"
    file.write_text(HISTORY)
    import_history(engine, file)
    machines = [stored.machine(name, "default", **MACHINE) for name in ("m-1", "m-2")]
    put(stored, "small", 1, machines[0])
    put(stored, "large", 4, machines[1], user="bob")
    put(stored, "queued", 0, None, stage="START", state="Waiting", user="eve")
    return stored


def ask(engine, settings, **more):
    clock = SystemClock()
    return asked_of(engine, clock, settings, Adviser(engine, clock, settings), **more)


def test_all_jobs_are_planned_within_the_machines(world, settings):
    found = optimize(settings)
    plan = found.plan
    assert plan.decided, plan.message
    by_name = {one.name: one for one in plan.jobs}
    assert set(by_name) == {"small", "large", "queued"}
    assert by_name["queued"].decision == "START"
    assert all(one.pool == "p4" and one.workers >= 1 and one.goodput > 0 for one in plan.jobs)
    assert all(one.price_per_hour > 0 for one in plan.jobs)
    assert found.asked.machines == {"p4": ("m-1", "m-2")}
    accelerators = next(one for one in plan.prices if one.resource == "accelerators")
    assert (accelerators.used, accelerators.available) == (8.0, 8.0)
    assert accelerators.price > 0.0


def test_where_running_jobs_are_is_known(world, engine, settings):
    asked = ask(engine, settings)
    jobs = {job.name: job for job in asked.jobs}
    assert jobs["large"].nodes == (1, 1, 1, 1)
    assert jobs["small"].nodes == (0,)
    assert jobs["small"].sizes.workers[jobs["small"].current] == 1
    assert (jobs["queued"].current, jobs["queued"].nodes) == (None, ())


def test_another_capacity_is_a_what_if(world, settings):
    found = optimize(settings, given=Given((Pool("p4", 8, 4.0),)))
    assert sum(one.workers for one in found.plan.jobs if one.name != "queued") > 8
    assert found.asked.machines == {}


def test_without_machines_nothing_changes_and_it_is_said(stored, settings):
    put(stored, "small", 1, None)
    found = optimize(settings)
    assert (found.plan.decided, found.plan.reason) == (False, "NoCapacity")
    assert [(one.decision, one.workers) for one in found.plan.jobs] == [("KEEP", 1)]


def test_a_job_that_a_model_fails_at_keeps_what_it_has(world, engine, settings):
    class Failing:
        history_jobs = 0

        def predict(self, observed, query, level=0.9):
            raise ZeroDivisionError("model")

        def sample(self, observed, query, draws, seed):
            raise ZeroDivisionError("model")

    asked = ask(engine, settings, models=Models(Failing(), EfficiencyModel(), "store"))
    jobs = {job.name: job for job in asked.jobs}
    assert (jobs["large"].current, jobs["large"].sizes.workers.tolist()) == (0, [4])
    assert jobs["queued"].current is None


def test_an_empty_store_has_an_empty_plan(stored, settings):
    assert optimize(settings).plan.reason == "NoJobs"


def test_the_command_shows_and_writes_nothing(world, engine, brain):
    def rows():
        with engine.connect() as connection:
            return connection.exec_driver_sql("SELECT COUNT(*) FROM recommendation").scalar_one()

    before = rows()
    shown = brain("optimize", "--weighed")
    assert shown.status == 0
    for part in (
        "default/queued",
        "START",
        "Starts",
        "ONE MORE IS WORTH",
        "accelerators",
        "gap to the bound",
        "Chosen",
    ):
        assert part in shown.out, shown.out
    assert "after " in shown.err
    told = json.loads(brain("optimize", "--json").out)
    assert told["decided"] is True
    assert {one["job"] for one in told["jobs"]} == {"small", "large", "queued"}
    assert all(one["machines"] for one in told["jobs"])
    assert told["gap"] <= 1e-3
    assert {one["valued_by"]["name"] for one in told["jobs"]} == {"throughput"}
    assert all(one["instead"]["message"] for one in told["jobs"])
    assert rows() == before


def test_the_command_asks_what_would_be_on_other_machines(world, brain, tmp_path):
    file = tmp_path / "capacity.csv"
    file.write_text("node_type,nodes,accelerators_per_node\np4,0,4\n")
    assert "No change" in brain("optimize", "--capacity", file).out
    file.write_text("node_type\np4\n")
    refused = brain("optimize", "--capacity", file)
    assert refused.status == 2


def test_what_is_planned_under_may_be_set_once_for_all_commands(world, brain, tmp_path, monkeypatch):
    rules = tmp_path / "capacity.toml"
    rules.write_text('[[quotas]]\nuser = "bob"\naccelerators = 5\n\n[[shares]]\nuser = "eve"\nshare = 2\n')
    monkeypatch.setenv("CONVOY_CAPACITY_FILE", str(rules))
    told = json.loads(brain("optimize", "--json").out)
    assert {one["job"]: one["weight"] for one in told["jobs"]} == {"small": 1.0, "large": 1.0, "queued": 2.0}
    assert [(one["user"], one["accelerators"]) for one in told["quotas"]] == [("bob", 5.0)]
    rules.write_text("quota = 3\n")
    assert brain("optimize").status == 2
    assert brain("batch").status == 2
