"""A run of the batch: what it writes, once a window, whatever happens to it."""

import json
import os
import signal
import threading
import time
from datetime import timedelta

import pytest
import sqlalchemy as sa

from convoy.brain.batch.pipeline import Ending
from convoy.brain.batch.stages import STAGES
from convoy.brain.batch.work import Mode
from convoy.brain.store import runs
from convoy.brain.store.engine import reading
from convoy.brain.store.locks import sole
from convoy.brain.store.runs import State
from convoy.brain.store.tables import ModelVersion, Recommendation
from convoy.core.api import names
from convoy.core.cluster.port import Kind
from support.batches import (
    NOW,
    WINDOW,
    At,
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
from support.loglinear import LogLinear
from support.stored import GIB, Stored

PLAN = [name for name, _ in STAGES].index("plan")


@pytest.fixture(autouse=True)
def _small_model(monkeypatch):
    small_model(monkeypatch)


def test_a_run_learns_promotes_and_proposes(engine, home):
    fill(engine, home)
    outcome = run(surroundings(engine, home))
    assert outcome.ending is Ending.DONE, outcome.message
    row = outcome.run
    assert (row.state, row.stage, row.starts) == (State.DONE, STAGES[-1][0], 1)
    assert (row.jobs, row.recommendations, row.plans) == (3, 3, 0)
    assert row.report["rollup"]["hours"] > 0
    assert row.report["fit"]["throughput"]["outcome"] == "fitted"
    assert row.report["promote"]["throughput"]["reason"] == "BetterThanBaseline"
    assert "nothing" in row.report["fit"]["memory"]
    advised = proposed(engine)
    assert len(advised) == 3
    for one in advised.values():
        assert (one["decision"], one["workers_before"], one["workers"]) == ("CHANGE", 1, 8), one["message"]
        assert (one["status"], one["run_id"], one["made_at"]) == ("proposed", row.id, row.began_at)
        assert one["evidence"]["model"]["from"] == "champion"
    assert row.report["apply"] == {"mode": "advise", "waiting": 3, "plans": []}
    assert "3 changes recommended" in outcome.message


def test_the_same_window_again_writes_nothing(engine, home):
    fill(engine, home)
    around = surroundings(engine, home)
    first = run(around)
    before = written(engine)
    again = run(around)
    assert (again.ending, again.run) == (Ending.ALREADY, first.run)
    assert written(engine) == before


def test_the_next_window_fits_nothing_anew_to_the_same_rows_and_takes_the_place_of_what_was_proposed(engine, home):
    fill(engine, home)
    run(surroundings(engine, home))
    later = NOW + timedelta(minutes=5)
    window = type(WINDOW)(WINDOW.end, WINDOW.next_end)
    outcome = run(surroundings(engine, home, clock=At(later)), window)
    assert outcome.run.report["fit"]["throughput"] == {"outcome": "unchanged", "version": 1, "rows": 96, "jobs": 12}
    assert len(all_rows(engine, ModelVersion)) == 1
    rows = [row for row in all_rows(engine, Recommendation) if row["run_id"] is not None]
    assert sorted(row["status"] for row in rows) == ["proposed"] * 3 + ["superseded"] * 3
    assert {row["run_id"] for row in rows if row["status"] == "proposed"} == {outcome.run.id}


def test_in_mode_apply_plans_are_written_for_jobs_that_leave_their_size_to_the_brain(engine, home, state_dir):
    with cluster_with_jobs(state_dir) as (cluster, uids):
        fill(engine, home, uids=uids)
        outcome = run(surroundings(engine, home, mode=Mode.APPLY, cluster=cluster))
        assert outcome.ending is Ending.DONE, outcome.message
        assert outcome.run.plans == 2
        plans = cluster.list(Kind.SCALE_PLAN, "default").items
    assert sorted(plan["spec"]["ownerJob"] for plan in plans) == ["first", "second"]
    by_id = {row["id"]: row for row in all_rows(engine, Recommendation)}
    for plan in plans:
        explained = plan["spec"]["explanation"]
        row = by_id[explained["recommendation"]]
        assert plan["metadata"]["labels"][names.LABEL_SCALE_TYPE] == names.SCALE_MANUAL
        assert plan["metadata"]["ownerReferences"][0]["uid"] == uids[plan["spec"]["ownerJob"]]
        assert plan["spec"]["replicaResourceSpecs"] == {"worker": {"replicas": row["workers"]}}
        assert "epoch" not in plan["spec"]
        assert explained["predictedSamplesPerSecond"] == pytest.approx(row["predicted"])
        assert (row["status"], row["decided_by"], row["plan"]) == (
            "accepted",
            "convoy brain batch",
            plan["metadata"]["name"],
        )
    left = {one["job"]: one["outcome"] for one in outcome.run.report["apply"]["plans"]}
    assert left == {"first": "PlanWritten", "second": "PlanWritten", "by-hand": "SizeNotLeftToUs"}
    assert [row["status"] for row in by_id.values() if row["run_id"]].count("proposed") == 1


def test_a_pinned_job_waits_for_a_person(engine, home, state_dir):
    with cluster_with_jobs(state_dir) as (cluster, uids):
        pinned = cluster.get(Kind.ELASTIC_JOB, "default", "first")
        kept = {name: pinned["metadata"][name] for name in ("name", "namespace")}
        annotated = {**kept, "annotations": {names.ANNOTATION_PIN: "true"}}
        cluster.apply(
            {"apiVersion": pinned["apiVersion"], "kind": "ElasticJob", "metadata": annotated}, field_manager="person"
        )
        fill(engine, home, uids=uids)
        outcome = run(surroundings(engine, home, mode=Mode.APPLY, cluster=cluster))
        assert [plan["spec"]["ownerJob"] for plan in cluster.list(Kind.SCALE_PLAN, "default").items] == ["second"]
    left = {one["job"]: one["outcome"] for one in outcome.run.report["apply"]["plans"]}
    assert left["first"] == "Pinned"


def test_without_a_cluster_at_hand_what_is_applied_stands_for_the_masters_next_question(engine, home):
    fill(engine, home)
    outcome = run(surroundings(engine, home, mode=Mode.APPLY))
    assert outcome.run.plans == 0
    outcomes = {one["job"]: one["outcome"] for one in outcome.run.report["apply"]["plans"]}
    assert outcomes == {"first": "NextAnswer", "second": "NextAnswer", "by-hand": "SizeNotLeftToUs"}
    statuses = sorted(row["status"] for row in proposed(engine).values())
    assert statuses == ["accepted", "accepted", "proposed"]


def test_where_machines_are_known_all_jobs_share_them(engine, home):
    fill(engine, home)
    Stored(engine).machine("one", "default", cpu_allocatable=10.0, memory_allocatable=64 * GIB, ready=True)
    outcome = run(surroundings(engine, home))
    together = outcome.run.report["plan"]["together"]
    assert (together["decided"], together["method"]) == (True, "Exact"), together
    assert 0.0 <= together["gap"] < 1e-3
    assert any(one["resource"] == "cpu" and one["used"] <= 10.0 for one in together["prices"])
    advised = proposed(engine).values()
    assert 3 < sum(one["workers"] for one in advised) <= 10
    for one in advised:
        assert (one["status"] == "proposed") == (one["workers"] != 1)
        assert "alone it would get 8 workers [MoreSpeed]" in one["message"]
        chosen = next(option for option in one["options"] if option["workers"] == one["workers"])
        assert chosen["verdict"] == "chosen for all jobs together"
        assert one["predicted"] == pytest.approx(chosen["predicted"])


def test_a_fault_of_the_plan_for_all_leaves_each_job_its_own(engine, home, monkeypatch):
    fill(engine, home)
    Stored(engine).machine("one", "default", cpu_allocatable=10.0, memory_allocatable=64 * GIB, ready=True)

    def broken(*args, **options):
        raise ArithmeticError("no plan")

    monkeypatch.setattr("convoy.brain.batch.joint.plan_cluster", broken)
    outcome = run(surroundings(engine, home))
    assert outcome.ending is Ending.DONE
    assert outcome.run.report["plan"]["together"]["error"] == "[ArithmeticError] no plan"
    assert [one["workers"] for one in proposed(engine).values()] == [8, 8, 8]
    assert "1 error" in outcome.message


class Fails(LogLinear):
    """Stumbles over one job."""

    def predict(self, observed, query, level=0.9):
        if len(observed) and (observed["job"] == "uid-first").any():
            raise ZeroDivisionError("no such number")
        return super().predict(observed, query, level)


def test_a_models_failure_at_one_job_doesnt_stop_the_others(engine, home, monkeypatch):
    fill(engine, home)
    monkeypatch.setattr("support.loglinear.LogLinear", Fails)
    outcome = run(surroundings(engine, home))
    assert outcome.ending is Ending.DONE
    [error] = outcome.run.report["plan"]["errors"]
    assert (error["job"], "ZeroDivisionError" in error["error"]) == ("first", True)
    assert sorted(row["decision"] for row in proposed(engine).values()) == ["CHANGE", "CHANGE", "UNDEFINED"]
    assert "1 error" in outcome.message


def test_a_models_failure_to_be_fitted_stops_neither_the_others_nor_the_plans(engine, home, monkeypatch):
    fill(engine, home)

    def fit(self, history):
        if len(history):
            raise FloatingPointError("too large")
        return self

    monkeypatch.setattr(LogLinear, "fit", fit)
    outcome = run(surroundings(engine, home))
    assert outcome.run.report["fit"]["throughput"] == {"error": "[FloatingPointError] too large"}
    assert (outcome.ending, outcome.run.jobs, outcome.run.recommendations) == (Ending.DONE, 3, 3)
    assert {row["reason"] for row in proposed(engine).values()} == {"ModelFailed"}


def test_an_empty_store_gives_an_empty_run(engine, home):
    outcome = run(surroundings(engine, home))
    assert (outcome.ending, outcome.message) == (
        Ending.DONE,
        "0 models fitted; 0 jobs looked at, 0 changes recommended",
    )


def test_jobs_that_are_over_silent_or_deleted_arent_planned_for(engine, home):
    stored = Stored(engine)
    stored.job("ended", state="Failed", last_seen=NOW)
    stored.job("silent", last_seen=NOW - timedelta(hours=1))
    stored.job("deleted", last_seen=NOW, gone_at=NOW)
    stored.job("new", last_seen=NOW)
    outcome = run(surroundings(engine, home))
    assert (outcome.run.jobs, outcome.run.report["plan"]["unmeasured"], proposed(engine)) == (1, 1, {})


def test_two_at_once_one_does_the_work_and_the_other_says_so(engine, store, home):
    fill(engine, home)
    with sole(engine, "batch"):
        second = in_process(store, home)
    assert second.returncode == 0
    ended = json.loads(second.stdout)
    assert ended["ending"] == "busy"
    assert "another batch is at work" in ended["message"]
    assert proposed(engine) == {}


def test_a_process_that_was_taken_for_dead_changes_nothing_more(engine, home, monkeypatch):
    fill(engine, home)
    around = surroundings(engine, home)

    def taken_over(work):
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE optimization_run SET owner = 'somebody else'"))
        return STAGES[PLAN][1](work)

    changed = (*STAGES[:PLAN], ("plan", taken_over), *STAGES[PLAN + 1 :])
    monkeypatch.setattr("convoy.brain.batch.pipeline.STAGES", changed)
    outcome = run(around)
    assert outcome.ending is Ending.BUSY
    assert proposed(engine) == {}
    with reading(engine) as connection:
        row = runs.of_window(connection, (WINDOW.begin, WINDOW.end), "advise")
    assert (row.stage, row.state, row.owner) == (STAGES[PLAN - 1][0], State.RUNNING, "somebody else")


def test_the_deadline_ends_a_stage_that_wouldnt_and_what_was_done_stands(engine, home, monkeypatch):
    fill(engine, home)

    def endless(self, history):
        while True:
            sum(range(1000))

    with monkeypatch.context() as patch:
        patch.setattr(LogLinear, "fit", endless)
        outcome = run(surroundings(engine, home), seconds=10.0)
    assert (outcome.ending, outcome.run.state, outcome.run.stage) == (Ending.FAILED, State.FAILED, "features")
    assert "the deadline of 10 s passed in stage fit" in outcome.message
    again = run(surroundings(engine, home))
    assert (again.ending, again.run.starts, again.run.began_at) == (Ending.DONE, 2, outcome.run.began_at)


def test_a_signal_that_is_handled_breaks_a_stage_off_and_the_handler_is_told(engine, home, monkeypatch):
    fill(engine, home)
    around, told = surroundings(engine, home), []

    def endless(self, history):
        os.kill(os.getpid(), signal.SIGTERM)
        while True:
            sum(range(1000))

    def handle(number, frame):
        told.append(number)

    before = signal.signal(signal.SIGTERM, handle)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(LogLinear, "fit", endless)
            outcome = run(around)
        assert signal.getsignal(signal.SIGTERM) is handle
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (outcome.ending, outcome.run.stage, told) == (Ending.STOPPED, "features", [signal.SIGTERM])
    assert run(surroundings(engine, home)).ending is Ending.DONE


def test_outside_of_the_main_thread_the_deadline_is_kept_between_steps(engine, home, monkeypatch):
    fill(engine, home)
    found = []
    slow = [(name, lambda work, stage=stage: (time.sleep(0.3), stage(work))[1]) for name, stage in STAGES]
    monkeypatch.setattr("convoy.brain.batch.pipeline.STAGES", tuple(slow))
    thread = threading.Thread(target=lambda: found.append(run(surroundings(engine, home), seconds=0.5)))
    thread.start()
    thread.join(20)
    assert (found[0].ending, found[0].run.state) == (Ending.FAILED, State.FAILED)


def test_a_stop_is_heeded_and_the_run_gone_on_with(engine, home):
    fill(engine, home)
    around = surroundings(engine, home)
    object.__setattr__(around, "progress", lambda stage, what: stage == "fit" and around.stop.set())
    outcome = run(around)
    assert (outcome.ending, outcome.run.stage, outcome.run.state) == (Ending.STOPPED, "features", State.RUNNING)
    assert run(surroundings(engine, home)).ending is Ending.DONE


def test_a_fault_of_a_stage_is_written_down_and_tried_again_by_the_next_run(engine, home, monkeypatch):
    fill(engine, home)

    def broken(work):
        raise KeyError("oh")

    with monkeypatch.context() as patch:
        patch.setattr("convoy.brain.batch.pipeline.STAGES", (*STAGES[:2], ("fit", broken), *STAGES[3:]))
        outcome = run(surroundings(engine, home))
    assert (outcome.ending, outcome.run.state, outcome.run.stage) == (Ending.FAILED, State.FAILED, "features")
    assert "stage fit failed: [KeyError]" in outcome.run.message
    assert run(surroundings(engine, home)).ending is Ending.DONE


def test_an_earlier_windows_run_that_was_never_ended_has_failed(engine, home, monkeypatch):
    killed = in_process(engine.url.render_as_string(hide_password=False), home, CONVOY_CRASH_AT="batch.begun")
    assert killed.returncode == -9, killed.stderr
    window = type(WINDOW)(WINDOW.end, WINDOW.next_end)
    assert run(surroundings(engine, home), window).ending is Ending.DONE
    with reading(engine) as connection:
        earlier = runs.of_window(connection, (WINDOW.begin, WINDOW.end), "advise")
    assert (earlier.state, "a later window" in earlier.message) == (State.FAILED, True)
