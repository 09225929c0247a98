"""Advice first: what is proposed, accepted, refused, and what becomes of it in the answers to masters."""

from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from convoy.brain.batch.delivery import deliver
from convoy.brain.batch.pipeline import run_window
from convoy.brain.batch.stages import STAGES, applying
from convoy.brain.batch.work import Mode
from convoy.brain.plan import Decision, JobRecommendation, Option
from convoy.brain.plan.decided import Refusal, heeded
from convoy.brain.serve.servicer import BrainServicer
from convoy.brain.serve.standing import Standing
from convoy.brain.settings import BrainSettings
from convoy.brain.store import advice as decisions
from convoy.brain.store import runs
from convoy.brain.store.advice import Status
from convoy.brain.store.engine import writing
from convoy.brain.store.tables import Job
from convoy.core.api import names
from convoy.core.api.errors import Conflict, NotFound, Unusable
from convoy.core.api.v1 import brain_pb2
from convoy.core.cluster.port import Kind
from support.batches import JOBS, NOW, WINDOW, At, cluster_with_jobs, fill, small_model, surroundings
from support.stored import Stored

LATER = NOW + timedelta(minutes=5)
NEXT = replace(WINDOW, begin=WINDOW.end, end=WINDOW.next_end)


@pytest.fixture(autouse=True)
def _small_model(monkeypatch):
    small_model(monkeypatch)


@pytest.fixture
def proposed(engine):
    """Return recommendations as a run proposes them, by job's name."""
    stored = Stored(engine)
    window = (WINDOW.begin, WINDOW.end)
    with writing(engine) as connection:
        run = runs.take(
            connection, window=window, mode="advise", engine="local", owner="me", now=NOW, deadline_at=NOW
        )
    for name in JOBS:
        job = stored.job(f"uid-{name}", name=name, optimize_mode="cluster", last_seen=NOW)
        stored.recommendation(job, f"asked-{name}", made_at=NOW - timedelta(minutes=15))
        told = {"roles": [], "batch": 0, "objective": "throughput", "notes": []}
        stored.recommendation(
            job, f"advice-{name}", run_id=run.id, made_at=NOW, status="proposed", workers=8, ps=0, predicted=1800.0,
            evidence=told,
        )  # fmt: skip
    return {one.job: one for one in decisions.listed(engine, [Status.PROPOSED])}


@pytest.fixture
def planned(engine, home):
    """Return what a run proposed, by job's name."""
    fill(engine, home)
    run_window(surroundings(engine, home), WINDOW, 100.0)
    return {one.job: one for one in decisions.listed(engine, [Status.PROPOSED])}


def ask(uid, workers=1, **limits):
    asked = brain_pb2.OptimizeRequest(stage=brain_pb2.OptimizeRequest.RUNNING)
    asked.job.uid, asked.job.name, asked.job.namespace = uid, uid.removeprefix("uid-"), "default"
    asked.job.template, asked.job.strategy = "t", "allreduce"
    asked.current.workers, asked.current.worker_cpu = workers, 1.0
    asked.limits.min_workers, asked.limits.max_workers, asked.limits.node_unit = 1, 8, 1
    for name, value in limits.items():
        setattr(asked.limits, name, value)
    return asked


def decide(engine, advice, status, now=LATER, by="ana", why="because"):
    return decisions.decide(engine, advice.id, status, by=by, why=why, now=now)


def answered(engine, home, asked, now=LATER):
    return BrainServicer(engine, At(now), BrainSettings.load(models_dir=home / "models")).OptimizeJob(asked, None)


def test_an_accepted_one_is_the_answer_to_its_jobs_master_under_its_own_identifier(engine, home, planned):
    first = decide(engine, planned["first"], Status.ACCEPTED)
    assert (first.status, first.row["decided_by"], first.row["decided_why"]) == (Status.ACCEPTED, "ana", "because")
    answer = answered(engine, home, ask("uid-first"))
    assert (answer.id, answer.decision, answer.target.workers) == (first.id, brain_pb2.Recommendation.CHANGE, 8)
    assert answer.predicted == pytest.approx(first.row["predicted"])
    assert "accepted by ana" in answer.message
    again = answered(engine, home, ask("uid-first"), now=LATER + timedelta(hours=1))
    assert again.id == first.id, "until it was carried out"


def test_another_jobs_master_gets_an_answer_of_its_own(engine, home, planned):
    decide(engine, planned["first"], Status.ACCEPTED)
    assert answered(engine, home, ask("uid-second")).id not in {one.id for one in planned.values()}


def test_it_stands_no_longer_than_it_is_said_to(engine, home, proposed):
    decide(engine, proposed["first"], Status.ACCEPTED)
    settings = BrainSettings.load()
    stands = timedelta(seconds=settings.accepted_stands_seconds)
    standing = Standing(engine, At(LATER + stands - timedelta(minutes=1)), settings)
    assert standing.answer(ask("uid-first")).id == proposed["first"].id
    assert Standing(engine, At(LATER + stands + timedelta(minutes=1)), settings).answer(ask("uid-first")) is None


@pytest.mark.parametrize(
    "limits", [{"max_workers": 6}, {"allowed_workers": None}, {"min_workers": 9, "max_workers": 9}]
)
def test_it_isnt_given_where_the_jobs_limits_dont_allow_it(engine, home, proposed, limits):
    decide(engine, proposed["first"], Status.ACCEPTED)
    asked = ask("uid-first", **{name: value for name, value in limits.items() if value is not None})
    if "allowed_workers" in limits:
        asked.limits.allowed_workers.extend([1, 2, 4])
    assert Standing(engine, At(LATER), BrainSettings.load()).answer(asked) is None


def test_one_that_was_rolled_back_stands_no_longer(engine, home, proposed):
    first = decide(engine, proposed["first"], Status.ACCEPTED)
    stored = Stored(engine)
    stored.plan(first.row["job_id"], "plan-7", recommendation_id=first.id, rolled_back=True)
    assert Standing(engine, At(LATER), BrainSettings.load()).answer(ask("uid-first")) is None


def wants(workers):
    nan = float("nan")
    options = tuple(
        Option(size, 100.0 * size, 90.0 * size, 110.0 * size, 80.0 * size, 120.0 * size, 0.1, nan, nan, "Observed")
        for size in (4, 8)
    )
    return JobRecommendation(Decision.CHANGE, "MoreSpeed", "faster", workers, options=options)


def test_a_job_that_has_the_size_that_was_accepted_keeps_it(engine, home, proposed):
    decide(engine, proposed["first"], Status.ACCEPTED)
    standing = Standing(engine, At(LATER), BrainSettings.load())
    kept = standing.heeding(wants(4), ask("uid-first", workers=8))
    assert (kept.decision, kept.reason, kept.target_workers) == (Decision.KEEP, "AcceptedStands", 8)
    assert kept.predicted == 800.0
    assert "would get 4 [MoreSpeed]" in kept.message
    other = wants(4)
    assert standing.heeding(other, ask("uid-second", workers=8)) is other


def test_a_refused_size_isnt_recommended_for_a_while_neither_by_the_batch_nor_to_the_master(engine, home, planned):
    assert answered(engine, home, ask("uid-first")).target.workers == 8
    decide(engine, planned["first"], Status.REFUSED, why="too dear")
    answer = answered(engine, home, ask("uid-first"))  # the same question, and not the answer that it had
    assert (answer.decision, answer.reason) == (brain_pb2.Recommendation.KEEP, "RefusedBefore")
    assert answer.target.workers == 1
    run_window(surroundings(engine, home, clock=At(LATER)), NEXT, 100.0)
    again = {one.job: one for one in decisions.listed(engine, [Status.PROPOSED])}
    assert set(again) == {"second", "by-hand"}
    remembered = timedelta(seconds=BrainSettings.load().refused_remembered_seconds)
    standing = Standing(engine, At(LATER + remembered + timedelta(minutes=1)), BrainSettings.load())
    forgotten = wants(8)
    assert standing.heeding(forgotten, ask("uid-first")) is forgotten


def test_what_was_refused_is_told_with_who_and_why():
    refusal = Refusal(8, "ana", NOW, "too dear")
    kept = heeded(wants(8), 4, 0, [refusal])
    assert (kept.decision, kept.target_workers, kept.predicted) == (Decision.KEEP, 4, 400.0)
    assert "ana refused that on 2033-03-02 10:20 UTC (too dear)" in kept.message
    assert [option.verdict for option in kept.options] == ["", "refused by ana"]
    other = wants(4)
    assert heeded(other, 2, 0, [refusal]) is other
    assert heeded(kept, 4, 0, [refusal]) is kept
    forced = replace(wants(8), reason="BackWithinLimits")
    assert heeded(forced, 16, 0, [refusal]) is forced, "it may not stay as it is"


def test_deciding_twice_the_same_changes_nothing_and_the_other_way_is_refused(engine, proposed):
    first = decide(engine, proposed["first"], Status.ACCEPTED)
    again = decide(engine, proposed["first"], Status.ACCEPTED, by="ben")
    assert again == first
    with pytest.raises(Unusable, match="ana accepted it on"):
        decide(engine, proposed["first"], Status.REFUSED)


def test_what_a_later_run_took_the_place_of_cant_be_accepted(engine, home, planned):
    run_window(surroundings(engine, home, clock=At(LATER)), NEXT, 100.0)
    with pytest.raises(Unusable, match="a later one took its place"):
        decide(engine, planned["first"], Status.ACCEPTED)


def test_an_answer_to_a_master_is_nothing_to_decide_about(engine, proposed):
    asked = decisions.find(engine, "asked-first")
    with pytest.raises(Unusable, match="there is nothing to decide"):
        decide(engine, asked, Status.ACCEPTED)


def test_of_two_that_were_accepted_for_a_job_the_later_one_stands(engine, home, planned):
    decide(engine, planned["first"], Status.ACCEPTED)
    run_window(surroundings(engine, home, clock=At(LATER)), NEXT, 100.0)
    later = {one.job: one for one in decisions.listed(engine, [Status.PROPOSED])}["first"]
    decide(engine, later, Status.ACCEPTED, now=LATER + timedelta(minutes=1))
    assert decisions.find(engine, planned["first"].id).status is Status.SUPERSEDED
    assert Standing(engine, At(LATER), BrainSettings.load()).answer(ask("uid-first")).id == later.id


def test_identifiers_may_be_shortened_while_they_name_one(engine, proposed):
    first = proposed["first"]
    assert decisions.find(engine, first.id[:10]).id == first.id
    for wrong, why in (
        ("nothing-like-it", "no recommendation"),
        ("", "empty"),
        ("asked-", "several"),
        ("%", "no recom"),
    ):
        with pytest.raises(NotFound, match=why):
            decisions.find(engine, wrong)


def test_on_this_machines_cluster_an_accepted_one_becomes_a_plan_once(engine, home, state_dir):
    with cluster_with_jobs(state_dir) as (cluster, uids):
        fill(engine, home, uids=uids)
        run_window(surroundings(engine, home), WINDOW, 100.0)
        proposed = {one.job: one for one in decisions.listed(engine, [Status.PROPOSED])}
        accepted = decide(engine, proposed["by-hand"], Status.ACCEPTED)
        done = [deliver(engine, cluster, accepted, manager=names.MANAGER_CLI) for _ in range(2)]
        assert done[0] == done[1]
        [plan] = cluster.list(Kind.SCALE_PLAN, "default").items
        assert plan["metadata"]["name"] == done[0].plan == decisions.find(engine, accepted.id).row["plan"]
        asked = ask(uids["by-hand"])
        assert Standing(engine, At(LATER), BrainSettings.load()).answer(asked) is None, "the plan says it already"
        cluster.delete(Kind.SCALE_PLAN, "default", done[0].plan)
        strange = {**plan, "metadata": {"name": done[0].plan, "namespace": "default"}}
        strange["spec"] = {"ownerJob": "by-hand", "replicaResourceSpecs": {"worker": {"replicas": 2}}}
        cluster.create(
            {name: strange[name] for name in ("apiVersion", "kind", "metadata", "spec")}, field_manager="x"
        )
        with pytest.raises(Conflict, match="isn't this recommendation's"):
            deliver(engine, cluster, accepted, manager=names.MANAGER_CLI)


def test_a_job_of_the_same_name_in_this_machines_cluster_is_another_one(engine, home, state_dir, proposed):
    with cluster_with_jobs(state_dir) as (cluster, _):
        accepted = decide(engine, proposed["first"], Status.ACCEPTED)
        assert deliver(engine, cluster, accepted, manager=names.MANAGER_CLI).reason == "NextAnswer"
        assert cluster.list(Kind.SCALE_PLAN, "default").items == []


@pytest.mark.parametrize(
    ("values", "how"), [({"state": "Failed"}, "Failed"), ({"gone_at": NOW}, "deleted 2033-03-02")]
)
def test_of_a_job_that_is_over_there_is_nothing_to_decide(engine, proposed, values, how):
    with writing(engine) as connection:
        connection.execute(sa.update(Job).where(Job.uid == "uid-first").values(values))
    assert {one.job for one in decisions.listed(engine, [Status.PROPOSED])} == set(JOBS) - {"first"}
    with pytest.raises(Unusable, match=rf"default/first is over \({how}"):
        decide(engine, proposed["first"], Status.ACCEPTED)
    assert decide(engine, proposed["first"], Status.REFUSED).status is Status.REFUSED


def test_a_job_that_ends_between_plan_and_apply_is_no_error(engine, home, state_dir, monkeypatch):
    fill(engine, home)

    def end(work):
        with writing(engine) as connection:
            connection.execute(sa.update(Job).where(Job.uid == "uid-first").values(state="Succeeded"))
        return applying.apply(work)

    monkeypatch.setattr("convoy.brain.batch.pipeline.STAGES", (*STAGES[:-1], ("apply", end)))
    outcome = run_window(surroundings(engine, home, mode=Mode.APPLY), WINDOW, 100.0)
    became = {one["job"]: one["outcome"] for one in outcome.run.report["apply"]["plans"]}
    assert became == {"first": "JobOver", "second": "NextAnswer", "by-hand": "SizeNotLeftToUs"}
    assert "error" not in outcome.message
