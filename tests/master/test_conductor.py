"""What a master has persisted is what it knows, also where the call that brought it about was given up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from convoy.core.api.envelope import Envelope
from convoy.core.api.v1 import master_pb2 as pb
from convoy.core.process.clock import SystemClock
from convoy.core.rpc import guard
from convoy.master.conductor import Conductor
from convoy.master.decide.actions import WriteScalePlan
from convoy.master.decide.events import AgentRegistered, PodsListed
from convoy.master.decide.policy import Policy
from convoy.master.decide.state import JobState, Launcher, Live, State, load
from convoy.master.feed import Feed
from convoy.master.hub import DirectiveHub
from convoy.master.keys import Keys
from convoy.master.service import MasterService
from convoy.master.shards.book import Book


class SlowStore:
    """Keeps a document, and returns from that only when told to."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = {}
        self.saved, self.go_on = threading.Event(), threading.Event()

    def load(self, kind: str) -> dict[str, Any] | None:
        return None

    def save(self, kind: str, document: Mapping[str, Any]) -> None:
        self.document = dict(document)
        self.saved.set()
        assert self.go_on.wait(10)


def test_an_event_whose_call_is_given_up_is_taken_in_as_a_whole(new_driver):
    facts = new_driver(replicas=2).facts

    async def play() -> None:
        store = SlowStore()
        with ThreadPoolExecutor(1) as threads:
            clock = SystemClock()
            state = State(facts, JobState(epoch=1), Live(started_at=clock.now()))
            conductor = Conductor(state, Policy(), store, threads, clock)
            written: list[str] = []
            conductor.hands[WriteScalePlan] = lambda action: written.append(action.plan.name)
            call = asyncio.ensure_future(conductor.post(PodsListed(())))
            assert await asyncio.to_thread(store.saved.wait, 10)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            store.go_on.set()
            async with asyncio.timeout(5):
                while not written:
                    await asyncio.sleep(0.01)
            assert call.cancelled()
            assert conductor.state.job == load(store.document)
            assert written == ["job-scaleplan-1"]

    asyncio.run(play())


def test_what_is_remembered_of_reports_doesnt_grow_with_relaunches(new_driver):
    driver = new_driver(replicas=1)

    async def play() -> None:
        with ThreadPoolExecutor(1) as threads:
            store = SlowStore()
            store.go_on.set()
            conductor = Conductor(driver.state, Policy(), store, threads, SystemClock())
            keys, book = Keys(conductor.persist), Book(conductor.persist)
            service = MasterService(conductor, DirectiveHub(1), keys, book, Feed(kept=False))
            for node_id in range(5):
                pod = f"job-edljob-worker-{node_id}"
                await conductor.post(AgentRegistered(0, node_id, 7, "host", 1, 3, Launcher(), 0, -1))
                for sequence, step in ((2, 20), (3, 30), (2, 25)):
                    guard._caller.set(Envelope(sender=pod, incarnation=7, sequence=sequence))
                    await service.Report(pb.NodeReport(workers=pb.WorkerGroup(step=step)), None)
                assert conductor.state.live.pulses[0].step == 30, "a report that was overtaken changes nothing"
            assert len(service._heard) == 1

    asyncio.run(play())
