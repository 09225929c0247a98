"""One job's plan over gRPC and from the store: servers, roles, objectives, repeats, killed Brains, bad input."""

from __future__ import annotations

import threading
import time

import pandas as pd
import pytest
import sqlalchemy as sa

from convoy.brain.ingest.history import import_history
from convoy.brain.models import LoadModel
from convoy.brain.serve.advise import Adviser
from convoy.brain.serve.recommend import recommend
from convoy.brain.serve.servicer import BrainServicer
from convoy.brain.settings import BrainSettings
from convoy.brain.store import queries
from convoy.brain.store.engine import reading, writing
from convoy.brain.store.tables import JobNode, Recommendation
from convoy.core.api.envelope import Envelope
from convoy.core.api.v1 import brain_pb2, brain_pb2_grpc
from convoy.core.process.clock import SystemClock
from convoy.core.rpc.guard import require_token
from convoy.core.rpc.server import bind, blocking_server
from support.brain import TOKEN, BrainProcess
from support.brain import Master as Impatient
from support.known_speeds import served
from support.reports import job, load, report, window

GIB = 1 << 30
START, RUNNING = brain_pb2.OptimizeRequest.START, brain_pb2.OptimizeRequest.RUNNING


class Master(Impatient):
    """Waits for long: the first question imports what takes seconds, on machines that do other things as well."""

    def ask(self, request, timeout=120.0):
        return super().ask(request, timeout)


def question(workers: int = 1, **changes: object) -> brain_pb2.OptimizeRequest:
    limits = {"min_workers": 1, "max_workers": 4, "node_unit": 1, "free_cpu": 4.0, "global_batch": 256}
    given = {"job": job(), "stage": RUNNING, "horizon_seconds": 600, "restart_seconds": 1.0, **changes}
    current = given.pop("current", {"worker_cpu": 1.0})
    return brain_pb2.OptimizeRequest(
        current=brain_pb2.Allotment(workers=workers, **current),
        limits=brain_pb2.Limits(**limits | given.pop("limits", {})),
        **given,
    )


def measured(sizes: dict[int, float], seconds: int = 8) -> brain_pb2.BrainReport:
    """A job that ran at several sizes, one round after the other, until now."""
    start = time.time() - 100 - 20 * len(sizes)
    windows = [
        window(100 * round + n, rate=rate, workers=workers, round=round, warming=n == 0, start=start - 80 * round)
        for round, (workers, rate) in enumerate(sizes.items(), 1)
        for n in range(seconds)
    ]
    return report(*windows)


@pytest.fixture
def master(engine):
    server = blocking_server(require_token(TOKEN))
    port = bind(server, "127.0.0.1:0")
    brain_pb2_grpc.add_BrainServicer_to_server(BrainServicer(engine, SystemClock(), BrainSettings.load()), server)
    server.start()
    master = Master(f"127.0.0.1:{port}")
    yield master
    master.close()
    server.stop(5).wait(10)


def stored(engine) -> int:
    with reading(engine) as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(Recommendation)).scalar_one()


@pytest.mark.timeout(240)
def test_a_hundred_duplicate_questions_have_one_answer(engine, master):
    master.report(measured({1: 1000.0, 2: 1800.0}))
    first = master.ask(question())
    answers = []

    def ask() -> None:
        answers.extend(master.ask(question()) for _ in range(25))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.id for answer in answers} == {first.id}
    assert {answer.SerializeToString(deterministic=True) for answer in answers} == {
        first.SerializeToString(deterministic=True)
    }
    assert stored(engine) == 1
    assert master.ask(question(pinned=True)).id != first.id
    master.report(measured({1: 1000.0, 2: 1800.0, 3: 2500.0}))
    assert master.ask(question()).id != first.id


@pytest.mark.timeout(240)
def test_questions_that_come_at_once_before_any_answer_meet_in_one_row(engine, master):
    master.report(measured({1: 1000.0}))
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(master.ask(question()))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 6
    assert len({answer.id for answer in answers}) == 1
    assert stored(engine) == 1


SERVED = "job,model,strategy,mode,workers,ps,batch_size,throughput,window_seconds"


def served_history() -> str:
    rows = [
        f"past-{number},ranking,ps,sync,{workers},{ps},32,{scale * speed(workers, ps):.1f},60"
        for number, scale in enumerate([1.0, 0.9, 1.1])
        for workers in (1, 2, 4, 8)
        for ps in (1, 2, 4)
    ]
    return "\n".join([SERVED, *rows, ""])


def speed(workers: int, ps: int) -> float:
    return served(pd.Series({"workers": workers, "ps": ps}))


def ranking() -> brain_pb2.JobDescription:
    found = job(uid="uid-2", name="ranking")
    found.strategy, found.mode, found.model, found.template = "ps", "sync", "ranking", "template-2"
    return found


def served_windows(workers: int = 2, ps: int = 1) -> brain_pb2.BrainReport:
    start = time.time() - 60
    given = [window(n, rate=speed(workers, ps), workers=workers, warming=n == 0, start=start) for n in range(8)]
    for sample in given:
        sample.ps, sample.batch_size = ps, 32
    return report(*given, of=ranking())


@pytest.mark.timeout(240)
def test_a_job_with_servers_is_sized_in_both_and_what_isnt_carried_out_is_said(engine, store, home):
    path = home / "history.csv"
    path.write_text(served_history())
    import_history(engine, path)
    servicer = BrainServicer(engine, SystemClock(), BrainSettings.load())
    adviser = Adviser(engine, SystemClock(), BrainSettings.load())
    server = blocking_server(require_token(TOKEN))
    port = bind(server, "127.0.0.1:0")
    brain_pb2_grpc.add_BrainServicer_to_server(servicer, server)
    server.start()
    master = Master(f"127.0.0.1:{port}", uid="uid-2")
    try:
        master.report(served_windows())
        asked = question(
            2,
            job=ranking(),
            limits={"max_workers": 8, "max_ps": 4, "free_cpu": 0.0, "global_batch": 0},
            current={"ps": 1, "worker_cpu": 2.0, "ps_cpu": 2.0, "worker_memory": GIB, "ps_memory": 4 * GIB},
        )
        answer = master.ask(asked)
        assert answer.decision in (brain_pb2.Recommendation.CHANGE, brain_pb2.Recommendation.EXPLORE), answer.message
        assert answer.target.ps > 1
        assert answer.target.workers >= 2
        assert speed(answer.target.workers, answer.target.ps) > 1.05 * speed(2, 1)
        assert (answer.target.ps_cpu, answer.target.ps_memory) == (2.0, 4 * GIB)
        assert [role.role for role in answer.roles] == ["worker", "ps"]
        assert all(option.verdict for option in answer.options)
        assert answer.price_per_hour == pytest.approx(
            0.04 * 2 * (answer.target.workers + answer.target.ps)
            + 0.005 * (answer.target.workers + 4 * answer.target.ps)
        )
        fixed = question(2, job=ranking(), current={"ps": 1}, adjustable=["workers"], limits={"max_ps": 4})
        assert {option.ps for option in master.ask(fixed).options} == {1}
        row = queries.recommendations(engine, queries.find_job(engine, "ranking"))[0]
        assert (row.ps, row.options[0]["ps"]) == (answer.target.ps, 1)
        said = recommend(BrainSettings.load(database_url=store), "ranking", max_ps=2)
        assert {option.ps for option in said.answer.options} <= {1, 2}
        begin = question(0, job=ranking(), stage=START, limits={"max_workers": 8, "max_ps": 4, "global_batch": 0})
        first = adviser.advise(begin).answer
        assert (first.decision.value, first.reason) == ("CHANGE", "StartFromHistory")
        assert first.target_ps >= 1
    finally:
        master.close()
        server.stop(5).wait(10)


def test_a_job_that_no_master_asked_about_is_recommended_for(engine, store):
    servicer = BrainServicer(engine, SystemClock(), BrainSettings.load())
    servicer._ingest.store(Envelope(job="uid-2", sender="m", incarnation=1, sequence=1), served_windows(4, 2))
    said = recommend(BrainSettings.load(database_url=store), "ranking", max_workers=8, max_ps=4)
    assert (said.asked.current.workers, said.asked.current.ps) == (4, 2)
    assert len(said.answer.options) == 32
    assert said.answer.reason


def killed(engine, limit: int, role: str = "worker") -> None:
    """Note that one of the job's pods was killed for its memory."""
    found = queries.find_job(engine, "digits")
    with writing(engine) as connection:
        connection.execute(
            sa.update(JobNode)
            .where(JobNode.job_id == found.id, JobNode.role == role)
            .values(reason="OOMKilled", memory_allotted=limit, phase="Failed")
        )


def with_load(given: brain_pb2.BrainReport, cores: float = 0.4, allotted: int = GIB) -> brain_pb2.BrainReport:
    for sample in given.speed:
        one = load(0, round=sample.round)
        one.time, one.cpu_cores, one.memory_allotted = sample.time, cores, allotted
        given.load.append(one)
    return given


def test_a_pod_that_was_killed_for_its_memory_gets_more(engine, master):
    master.report(with_load(measured({1: 1000.0})))
    killed(engine, GIB)
    asked = {"current": {"worker_cpu": 1.0, "worker_memory": GIB}, "limits": {"largest_node_memory": 8 * GIB}}
    answer = master.ask(question(adjustable=["resources"], **asked))
    assert (answer.decision, answer.reason) == (brain_pb2.Recommendation.CHANGE, "OutOfMemory"), answer.message
    assert 1.25 * GIB <= answer.target.worker_memory <= 8 * GIB
    assert answer.target.workers == 1
    advised = master.ask(question(adjustable=["workers"], **asked))
    assert advised.target.worker_memory == GIB
    assert "OutOfMemory" in advised.roles[0].reason
    assert any("isn't carried out by itself" in note for note in advised.notes)


def test_a_pin_a_freeze_and_sizes_that_the_job_can_take(master):
    master.report(measured({1: 1000.0, 2: 1900.0, 4: 3500.0}))
    assert master.ask(question()).target.workers == 4
    for change, reason in (({"pinned": True}, "Pinned"), ({"frozen_until": time.time() + 3600}, "Frozen")):
        answer = master.ask(question(**change))
        assert (answer.decision, answer.reason, answer.target.workers) == (brain_pb2.Recommendation.KEEP, reason, 1)
    assert master.ask(question(frozen_until=time.time() - 1)).target.workers == 4
    allowed = master.ask(question(limits={"allowed_workers": [1, 3]}))
    assert [option.workers for option in allowed.options] == [1, 3]
    quota = master.ask(question(limits={"quota_cpu": 2.0}))
    assert max(option.workers for option in quota.options) == 2


def test_objectives_over_the_wire(master):
    master.report(measured({1: 1000.0, 2: 1900.0, 4: 3500.0}))
    cost = master.ask(question(4, objective="cost"))
    assert (cost.objective, cost.reason, cost.target.workers) == ("cost", "LessCost", 1)
    late = question(objective="deadline", deadline=time.time() + 3600, remaining_samples=3500 * 3000.0)
    answer = master.ask(late)
    assert (answer.reason, answer.target.workers) == ("LateOtherwise", 4)
    assert {option.workers: option.in_time for option in answer.options}[1] < 0.1
    unknown = master.ask(question(objective="deadline"))
    assert (unknown.decision, unknown.reason) == (brain_pb2.Recommendation.UNDEFINED, "DeadlineUnknown")
    other = master.ask(question(objective="beauty"))
    assert (other.decision, other.reason) == (brain_pb2.Recommendation.UNDEFINED, "UnknownObjective")


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (question(), "NothingKnown"),
        (question(limits={"free_cpu": 0.5}), "NothingFits"),
        (question(limits={"largest_node_cpu": 0.1}), "NothingFits"),
        (question(objective="cost"), "NothingKnown"),
        (question(job=ranking()), "NothingKnown"),
    ],
)
def test_without_history_or_capacity_nothing_changes(master, asked, reason):
    answer = master.ask(asked)
    assert (answer.decision, answer.reason, answer.target.workers) == (brain_pb2.Recommendation.UNDEFINED, reason, 1)
    assert answer.message


def test_a_job_with_zero_speed_keeps_its_size(master):
    stuck = measured({1: 1.0})
    for sample in stuck.speed:
        sample.samples = 0.0
    master.report(stuck)
    answer = master.ask(question())
    assert answer.decision in (brain_pb2.Recommendation.UNDEFINED, brain_pb2.Recommendation.KEEP), answer.message
    assert answer.target.workers == 1


def test_a_fault_of_what_tells_of_pods_needs_costs_no_answer(engine, master, monkeypatch):
    master.report(with_load(measured({1: 1000.0, 2: 1900.0, 4: 3500.0})))

    def fail(*_args, **_kwargs):
        raise FloatingPointError("singular")

    monkeypatch.setattr(LoadModel, "predict", fail)
    answer = master.ask(question())
    assert answer.target.workers == 4
    assert any("FloatingPointError: singular" in note for note in answer.notes)


@pytest.mark.timeout(240)
def test_a_brain_that_was_killed_says_the_same_as_before(store, engine, home):
    path = home / "history.csv"
    rows = [
        f"past-{number},template-1,mlp,allreduce,{workers},{workers},{256 // workers},{scale * rate:.1f},30"
        for number, scale in enumerate([1.0, 0.9, 1.1, 0.8])
        for workers, rate in ((1, 1000), (2, 1900), (3, 2700), (4, 3400))
    ]
    head = "job,template,model,strategy,workers,nodes,batch_size,throughput,window_seconds"
    path.write_text("\n".join([head, *rows, ""]))
    import_history(engine, path)
    asked = [
        question(),
        question(objective="cost"),
        question(0, stage=START),
        question(limits={"max_workers": 2}),
    ]

    def answers(brain: BrainProcess) -> list[brain_pb2.Recommendation]:
        master = Master(brain.address)
        found = [master.ask(one) for one in asked]
        master.close()
        return found

    brain = BrainProcess(store)
    reporting = Master(brain.address)
    reporting.report(measured({1: 1000.0, 2: 1850.0}))
    reporting.close()
    before = answers(brain)
    brain.kill()
    with writing(engine) as connection:  # so that the answers aren't those that are remembered
        connection.execute(sa.delete(Recommendation))
    again = BrainProcess(store)
    after = answers(again)
    assert again.end(90.0) == 0
    for one, other in zip(before, after, strict=True):
        assert (one.decision, one.reason, one.target) == (other.decision, other.reason, other.target)
        assert one.predicted == pytest.approx(other.predicted, rel=1e-9)
    assert before[0].target.workers > 1


def test_steps_that_wait_for_their_data_get_more_loaders(engine, master):
    waits = measured({1: 1000.0}, seconds=60)
    for sample in waits.speed:
        sample.loader_wait, sample.loader_workers = 0.75, 1
    master.report(waits)
    asked = {"current": {"worker_cpu": 8.0}, "limits": {"free_cpu": 32.0, "max_workers": 1}}
    answer = master.ask(question(adjustable=["workers", "loaders"], **asked))
    loaders = answer.loaders
    assert (loaders.before, loaders.workers, loaders.reason, loaders.decided) == (1, 4, "WaitsForData", True)
    assert (loaders.step, loaders.wait, loaders.expected) == pytest.approx((1.0, 0.75, 0.25))
    assert answer.target.workers == 1
    assert master.ask(question(adjustable=["workers", "loaders"], **asked)) == answer
    advised = master.ask(question(**asked))
    assert (advised.loaders.workers, advised.loaders.decided) == (4, False)
    assert any("isn't carried out by itself: a step of 1 s waits 0.75 s" in note for note in advised.notes)


def test_of_a_script_that_does_not_ask_convoy_nothing_is_said_of_loaders(master):
    master.report(measured({1: 1000.0}, seconds=60))
    assert not master.ask(question(adjustable=["workers", "loaders"])).HasField("loaders")
