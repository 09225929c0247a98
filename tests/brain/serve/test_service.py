import time
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from convoy.brain.ingest.history import import_history
from convoy.brain.models import ThroughputModel
from convoy.brain.serve.advise import FAILED, Adviser
from convoy.brain.serve.knowledge import Knowledge
from convoy.brain.serve.recommend import recommend
from convoy.brain.serve.servicer import BrainServicer
from convoy.brain.settings import BrainSettings
from convoy.brain.store import queries
from convoy.brain.store.engine import writing
from convoy.brain.store.tables import Job
from convoy.core.api.errors import InvalidInput, NotFound, Unauthenticated
from convoy.core.api.v1 import brain_pb2, brain_pb2_grpc
from convoy.core.process.clock import SystemClock
from convoy.core.rpc.guard import require_token
from convoy.core.rpc.server import bind, blocking_server
from support.brain import TOKEN, Master
from support.reports import job, load, report, window

COLUMNS = "job,template,model,strategy,workers,nodes,batch_size,worker_cpu,cluster_cpu,throughput,window_seconds"
HISTORY = "\n".join(
    [
        COLUMNS,
        *(
            f"past-{number},template-1,mlp,allreduce,{workers},{workers},{256 // workers},1,4,{scale * speed:.1f},30"
            for number, scale in enumerate([1.0, 0.9, 1.1, 0.8])
            for workers, speed in ((1, 1000), (2, 1900), (3, 2700), (4, 3400))
        ),
        "",
    ]
)


def question(workers=1, stage=brain_pb2.OptimizeRequest.RUNNING, **limits):
    bounds = {"min_workers": 1, "max_workers": 4, "node_unit": 1, "free_cpu": 4.0, "global_batch": 256} | limits
    return brain_pb2.OptimizeRequest(
        job=job(),
        stage=stage,
        current=brain_pb2.Allotment(workers=workers, worker_cpu=1.0),
        limits=brain_pb2.Limits(**bounds),
        horizon_seconds=600,
        restart_seconds=1.0,
    )


def measured(seconds=12, rate=1000.0, workers=1, round=1):
    start = time.time() - 100 + 20 * round
    windows = [
        window(n, rate=rate * (1 + 0.01 * (n % 3 - 1)), workers=workers, round=round, start=start, warming=n == 0)
        for n in range(seconds)
    ]
    given = report(*windows)
    for n in range(1, seconds):
        sample = load(n, round=round)
        sample.time = start + n
        given.load.append(sample)
    return given


@pytest.fixture
def address(engine):
    server = blocking_server(require_token(TOKEN))
    port = bind(server, "127.0.0.1:0")
    brain_pb2_grpc.add_BrainServicer_to_server(BrainServicer(engine, SystemClock(), BrainSettings.load()), server)
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(5).wait(10)


@pytest.fixture
def master(address):
    master = Master(address)
    yield master
    master.close()


def test_a_job_is_reported_sized_and_its_plan_remembered(engine, master, home):
    path = home / "history.csv"
    path.write_text(HISTORY)
    import_history(engine, path)

    start = master.ask(question(workers=0, stage=brain_pb2.OptimizeRequest.START))
    assert (start.decision, start.reason) == (brain_pb2.Recommendation.CHANGE, "StartFromHistory")
    assert start.history_jobs == 4

    assert master.report(measured()).stored == 23
    answer = master.ask(question())
    assert answer.decision in (brain_pb2.Recommendation.CHANGE, brain_pb2.Recommendation.EXPLORE), answer.message
    assert answer.target.workers > 1
    assert answer.lower99 < answer.lower90 < answer.predicted < answer.upper90 < answer.upper99
    assert [option.workers for option in answer.options] == [1, 2, 3, 4]
    assert answer.price_per_hour == pytest.approx(answer.target.workers * 0.04)
    assert (answer.currency, answer.observations) == ("USD", 1)

    begun = time.monotonic()
    assert master.ask(question()).target.workers == answer.target.workers
    assert time.monotonic() - begun < 1.0

    done = report()
    done.plans.append(
        brain_pb2.PlanOutcome(
            plan="plan-1", recommendation=answer.id, created=time.time(), workers_before=1, workers_after=4
        )
    )
    assert list(master.report(done).refused) == []
    found = queries.find_job(engine, "digits")
    [plan] = queries.plans(engine, found)
    assert plan.recommendation_id == answer.id
    stored = queries.recommendations(engine, found, decisions=("CHANGE", "EXPLORE"))
    assert [row.stage for row in stored] == ["START", "RUNNING"]  # asked again, nothing new: one answer
    row = stored[1]
    assert (row.id, row.predicted, row.message) == (answer.id, answer.predicted, answer.message)
    assert (row.workers_before, row.workers, row.free_cpu) == (1, answer.target.workers, 4.0)
    assert row.evidence["observed"][0]["throughput"] == pytest.approx(1000.0, rel=0.02)
    assert row.evidence["history_rows"] == 16
    assert (row.evidence["model"]["from"], row.evidence["model"]["why"]) == ("store", "NoChampion")
    verdicts = {option["workers"]: option["verdict"] for option in row.options}
    assert verdicts[answer.target.workers].startswith("chosen")


def test_without_history_and_measurements_nothing_is_said(master):
    start = master.ask(question(workers=0, stage=brain_pb2.OptimizeRequest.START))
    assert start.decision == brain_pb2.Recommendation.UNDEFINED
    running = master.ask(question())
    assert (running.decision, running.target.workers) == (brain_pb2.Recommendation.UNDEFINED, 1)
    assert running.reason
    assert running.predicted == 0


def test_without_history_a_change_is_called_an_exploration(master):
    master.report(measured())
    answer = master.ask(question())
    assert answer.decision in (brain_pb2.Recommendation.EXPLORE, brain_pb2.Recommendation.UNDEFINED), answer.message
    assert answer.history_jobs == 0


def test_what_a_job_showed_is_history_for_the_next_one_when_it_is_over(engine, store, master):
    ended = measured()
    ended.job.state = "Succeeded"
    master.report(ended)
    knowledge = Knowledge(engine, SystemClock())
    assert knowledge.learned().model.history_jobs == 1
    excluded = Knowledge(engine, SystemClock(), exclude_job="uid-1")
    assert excluded.learned().model.history_jobs == 0


def test_a_wrong_token_is_refused_and_stores_nothing(engine, address):
    stranger = Master(address, token="guess")
    with pytest.raises(Unauthenticated):
        stranger.report(measured())
    with pytest.raises(Unauthenticated):
        stranger.ask(question())
    stranger.close()
    assert queries.jobs(engine) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda asked: setattr(asked, "stage", 0), "stage is unspecified"),
        (lambda asked: setattr(asked.limits, "max_workers", 0), "limits.max_workers is 0"),
        (lambda asked: setattr(asked.current, "workers", -1), "current.workers is -1"),
        (lambda asked: setattr(asked.job, "uid", ""), "job.uid is empty"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_by_field(address, change, words):
    master = Master(address, uid="")
    asked = question()
    change(asked)
    with pytest.raises(InvalidInput, match=words):
        master.ask(asked)
    master.close()


def test_an_answer_is_stored_with_the_explanation_of_its_speed(engine, store, master, home):
    path = home / "history.csv"
    path.write_text(HISTORY)
    import_history(engine, path)
    master.report(measured())
    answer = master.ask(question())
    [row] = queries.recommendations(engine, queries.find_job(engine, "digits"))
    why = row.evidence["explanation"]
    assert why["chosen"]["configuration"]["workers"] == answer.target.workers
    assert why["chosen"]["mean"] == pytest.approx(answer.predicted, rel=1e-4)
    assert {one["configuration"]["workers"] for one in why["alternatives"]} == {1, 2, 3, 4} - {answer.target.workers}
    assert sum(term["mean"] for term in why["terms"]) == pytest.approx(1.0, abs=0.02)
    assert [one["speed"] for one in why["observations"]] == pytest.approx([1000.0], rel=0.02)
    assert why["undefined"] == {}
    found = recommend(BrainSettings.load(database_url=store), "digits")
    assert any("the limit is" in sentence for sentence in found.why)


def test_what_cant_be_explained_says_so_and_costs_no_answer(engine, master, monkeypatch):
    master.report(measured())
    adviser = Adviser(engine, SystemClock(), BrainSettings.load())
    nothing = adviser.advise(question(workers=0, stage=brain_pb2.OptimizeRequest.START))
    assert nothing.explanation["undefined"]["prediction"] == nothing.answer.reason

    def fail(*_args, **_kwargs):
        raise FloatingPointError("singular")

    before = adviser.advise(question())
    monkeypatch.setattr(ThroughputModel, "explain", fail)
    after = adviser.advise(question())
    assert (after.answer.decision, after.answer.message) == (before.answer.decision, before.answer.message)
    assert set(after.explanation["undefined"].values()) == {"ExplanationFailed"}
    assert "[ExplanationFailed]" in after.explanation["sentences"][0]


def test_a_fault_of_the_model_is_an_undefined_answer(engine, monkeypatch):
    def fail(*_args, **_kwargs):
        raise FloatingPointError("singular")

    monkeypatch.setattr(ThroughputModel, "predict", fail)
    advice = Adviser(engine, SystemClock(), BrainSettings.load()).advise(question())
    assert (advice.answer.decision.value, advice.answer.reason) == ("UNDEFINED", FAILED)
    assert "FloatingPointError: singular" in advice.answer.message
    assert advice.answer.target_workers == 1


def test_history_imported_while_serving_counts_in_the_next_answer(engine, home):
    knowledge = Knowledge(engine, SystemClock())
    assert knowledge.learned().model.history_jobs == 0
    path = home / "history.csv"
    path.write_text(HISTORY)
    import_history(engine, path)
    learned = knowledge.learned()
    assert (learned.model.history_jobs, learned.rows) == (4, 16)
    assert knowledge.learned() is learned


def test_recommend_says_that_a_job_is_over_or_was_never_measured(engine, store, master):
    settings = BrainSettings.load(database_url=store)
    unmeasured = measured()
    del unmeasured.speed[:]
    master.report(unmeasured)
    answer = recommend(settings, "digits").answer
    assert (answer.decision.value, answer.reason, answer.options) == ("UNDEFINED", "NothingMeasured", ())
    assert "it reported no speed" in answer.message
    over = brain_pb2.BrainReport()
    over.CopyFrom(unmeasured)
    over.job.state = "Succeeded"
    master.report(over)
    answer = recommend(settings, "digits").answer
    assert (answer.decision.value, answer.reason) == ("UNDEFINED", "JobOver")
    assert answer.message == "the job is over (Succeeded), and it reported no speed past its warm-up"
    master.report(measured())
    master.report(over)
    answer = recommend(settings, "digits").answer
    assert (answer.decision.value, answer.reason) == ("UNDEFINED", "JobOver")
    assert answer.options
    with writing(engine) as connection:
        connection.execute(sa.update(Job).values(state="Running", gone_at=datetime(2026, 3, 2, tzinfo=UTC)))
    assert "the job is over (deleted 2026-03-02 00:00 UTC)" in recommend(settings, "digits").answer.message
    with pytest.raises(InvalidInput, match=r"limits\.max_workers is 0"):
        recommend(settings, "digits", max_workers=0)


def test_recommend_answers_the_masters_last_question_from_the_store_alone(engine, store, master):
    master.report(measured())
    said = master.ask(question())
    settings = BrainSettings.load(database_url=store)
    found = recommend(settings, "digits")
    assert found.job.uid == "uid-1"
    assert found.asked.limits.max_workers == 4
    assert [option.workers for option in found.answer.options] == [option.workers for option in said.options]
    assert found.answer.predicted == pytest.approx(said.predicted, rel=0.05)
    assert [option.workers for option in recommend(settings, "uid-1", max_workers=2).answer.options] == [1, 2]
    with pytest.raises(NotFound, match="no job 'digit' has reported to the Brain; of those that did it knows digits"):
        recommend(settings, "digit")
    assert len(queries.recommendations(engine, found.job)) == 1
    with engine.connect() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(Job)).scalar_one() == 1
