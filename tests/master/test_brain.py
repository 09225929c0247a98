"""The Brain is fed and asked; losing it never stops a job."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from pathlib import Path

import pytest

from convoy.core.api.envelope import Envelope
from convoy.core.api.errors import InvalidInput, Unavailable, Unusable
from convoy.core.api.v1 import brain_pb2, metrics_pb2
from convoy.core.api.v1 import master_pb2 as pb
from convoy.core.process.clock import SystemClock
from convoy.master import feed as feeds
from convoy.master.brain import BrainClient
from convoy.master.feed import Feed
from support.fake_brain import BRAIN_TOKEN, FakeBrain, serving
from support.master_stage import FakeAgent, Stage, agents, eventually, free_port


def client(port: int, feed: Feed) -> BrainClient:
    envelope = Envelope("uid", BRAIN_TOKEN, 1, "master-0", 5)
    describe = lambda: brain_pb2.JobDescription(uid="uid", name="job", strategy="allreduce", state="Running")  # noqa: E731
    return BrainClient(f"127.0.0.1:{port}", envelope, feed, describe, SystemClock())


def test_a_report_whose_answer_was_lost_is_sent_again_and_stored_once() -> None:
    async def play() -> None:
        brain, feed = FakeBrain(), Feed()
        brain.lose_answers = 2
        with serving(brain) as port:
            sender = client(port, feed)
            feed.add(events=[metrics_pb2.JobEvent(reason="First")])
            assert not await sender.send()
            feed.add(events=[metrics_pb2.JobEvent(reason="Second")])
            assert not await sender.send()
            assert sender.reach.available is False
            assert await sender.send()
            assert await sender.send()
            assert sender.reach.available is True
            await sender.close(1.0)
        assert [event.reason for event in brain.rows("events")] == ["First", "Second"]
        assert brain.received == 4

    asyncio.run(play())


def test_an_outage_costs_the_oldest_rows_and_says_so(monkeypatch) -> None:
    monkeypatch.setitem(feeds._MOST, "events", 3)

    async def play() -> None:
        brain, feed, port = FakeBrain(), Feed(), free_port()
        sender = client(port, feed)
        for number in range(6):
            feed.add(events=[metrics_pb2.JobEvent(reason=f"Event{number}")])
        assert not await sender.send()
        for number in range(6, 11):
            feed.add(events=[metrics_pb2.JobEvent(reason=f"Event{number}")])
        with serving(brain, port):
            await eventually_sent(sender, feed)
            await sender.close(2.0)
        reasons = [event.reason for event in brain.rows("events")]
        assert reasons[:3] == ["Event3", "Event4", "Event5"], "the batch that was made before the outage is kept"
        assert "Event10" in reasons
        dropped = [event for event in brain.rows("events") if event.reason == "ReportsDropped"]
        assert "5 of events" in dropped[0].message

    asyncio.run(play())


async def eventually_sent(sender: BrainClient, feed: Feed) -> None:
    end = time.monotonic() + 20
    while feed.waiting and time.monotonic() < end:
        await sender.send()
        await asyncio.sleep(0.05)
    assert not feed.waiting


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (InvalidInput("a value doesn't fit", reason="ValueRefused"), 1),
        (TypeError("what nobody foresaw"), 3),
    ],
)
def test_a_report_that_cant_be_stored_is_dropped_and_the_next_ones_go_on(error: Exception, tries: int) -> None:
    async def play() -> None:
        brain, feed = FakeBrain(), Feed()
        brain.poison["Poison"] = error
        with serving(brain) as port:
            sender = client(port, feed)
            feed.add(events=[metrics_pb2.JobEvent(reason="Poison"), metrics_pb2.JobEvent(reason="Beside")])
            for _ in range(tries):
                assert not await sender.send()
            feed.add(events=[metrics_pb2.JobEvent(reason="Later")])
            assert await sender.send()
            assert brain.received == tries + 1
            await sender.close(1.0)
        assert [event.reason for event in brain.rows("events")] == ["ReportsDropped", "Later"]
        assert "2 of rows" in brain.rows("events")[0].message
        assert str(error) in brain.rows("events")[0].message

    asyncio.run(play())


@pytest.mark.parametrize("error", [Unavailable("busy"), Unusable("denied", reason="DatabaseDenied")])
def test_a_brain_in_trouble_loses_no_report(error: Exception) -> None:
    async def play() -> None:
        brain, feed = FakeBrain(), Feed()
        brain.poison["Kept"] = error
        with serving(brain) as port:
            sender = client(port, feed)
            feed.add(events=[metrics_pb2.JobEvent(reason="Kept")])
            for _ in range(5):
                assert not await sender.send()
            brain.poison.clear()
            assert await sender.send()
            await sender.close(1.0)
        assert [event.reason for event in brain.rows("events")] == ["Kept"]

    asyncio.run(play())


def test_a_wrong_token_is_said_and_nothing_is_lost() -> None:
    async def play() -> None:
        brain, feed = FakeBrain(), Feed()
        with serving(brain) as port:
            sender = client(port, feed)
            sender._envelope = Envelope("uid", "wrong", 1, "master-0", 5)
            feed.add(events=[metrics_pb2.JobEvent(reason="First")])
            assert not await sender.send()
            assert (sender.reach.available, sender.reach.reason) == (False, "Unauthenticated")
            assert feed.waiting == 1
            await sender.close(0.0)

    asyncio.run(play())


def test_a_job_runs_without_its_brain_and_is_sized_when_it_comes(state_dir: Path) -> None:
    brain, port = FakeBrain(), free_port()
    brain.answers = [
        brain_pb2.Recommendation(
            id="r1",
            decision=brain_pb2.Recommendation.CHANGE,
            reason="FasterPays",
            message="2 workers are faster",
            target=brain_pb2.Allotment(workers=2),
            predicted=180.0,
            lower90=150.0,
            upper90=200.0,
            price_per_hour=0.1,
        )
    ]
    with closing(Stage(state_dir, spec__optimizeMode="cluster", worker__replicas=1, worker__maxReplicas=4)) as stage:
        env = {"DLROVER_BRAIN_SERVICE_ADDR": f"127.0.0.1:{port}", "CONVOY_BRAIN_TOKEN": BRAIN_TOKEN}
        stage.start_master(**env)
        stage.wait_for_pods(0)

        def available() -> str:
            conditions = stage.status().get("conditions") or []
            return next((one["status"] for one in conditions if one["type"] == "BrainAvailable"), "")

        async def measure(agent: FakeAgent, speed: float, count: int) -> None:
            for _ in range(count):
                nodes = len(agent.members)
                sample = metrics_pb2.SpeedSample(
                    time=time.time(), seconds=1.0, first_step=agent.step, last_step=agent.step, samples=speed,
                    workers=nodes, nodes=nodes, batch_size=64, accumulation_steps=1, round=agent.round,
                )  # fmt: skip
                await agent.report(speed=[sample])
                await asyncio.sleep(0.02)

        async def play() -> None:
            async with agents(stage, (0, 0)) as (one,):
                await eventually(lambda: one.round == 1 and one.step > 1, "round 1")
                await eventually(lambda: available() == "False", "the condition BrainAvailable False", timeout=20)
                await measure(one, 100.0, 4)
                with serving(brain, port):
                    await eventually(lambda: available() == "True", "the condition BrainAvailable True", timeout=30)
                    await eventually(lambda: "job-edljob-worker-1" in stage.pods(), "the change", timeout=30)
                    async with agents(stage, (1, 1)) as (two,):
                        await eventually(lambda: one.round == two.round == 2, "round 2")
                        await eventually(
                            lambda: one.step > two.step - 5 and one.state == pb.WorkerGroup.RUNNING, "steps"
                        )
                        await asyncio.sleep(0.5)
                        await measure(one, 170.0, 5)
                        done = lambda: [plan for plan in brain.rows("plans") if plan.realized_seconds >= 5]  # noqa: E731
                        plan = (await eventually(done, "what the change brought", timeout=20))[-1]
                        assert (plan.workers_before, plan.workers_after) == (1, 2)
                        assert abs(plan.realized - 170) < 1
                        assert plan.recommendation == "r1"

        asyncio.run(play())
        written = stage.plans()["job-scaleplan-2"]["spec"]["explanation"]
        assert (written["reason"], written["recommendation"]) == ("FasterPays", "r1")
        assert written["predictedSamplesPerSecond"] == 180.0
        asked = brain.questions[0]
        assert (asked.current.workers, asked.limits.global_batch) == (1, 100)
        assert 1 <= asked.limits.max_workers <= 4
        assert {"RoundCompleted", "TargetChanged", "ScaleUp"} <= {event.reason for event in brain.rows("events")}
        job = next(iter(brain.reports.values())).job
        assert (job.name, job.strategy, len(job.template)) == ("job", "allreduce", 16)
