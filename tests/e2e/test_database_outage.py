"""The Brain's database taken away for a minute under load, and given back: what was acknowledged is there, once."""

import asyncio
import contextlib
import re
import time

import pytest
import sqlalchemy as sa

from convoy.brain.store.engine import open_engine, reading
from convoy.brain.store.tables import Job, JobEvent, TrainingSpeed
from convoy.core.api.envelope import Envelope
from convoy.core.api.v1 import brain_pb2, metrics_pb2
from convoy.core.process.clock import SystemClock
from convoy.master.brain import BrainClient
from convoy.master.feed import Feed
from support.brain import TOKEN, BrainProcess
from support.disposable import disposable_mariadb

AWAY_SECONDS = 60.0
TOGETHER = 0.1

pytestmark = [pytest.mark.long, pytest.mark.servers, pytest.mark.timeout(300)]


class Reporter:
    """A job's master as the Brain sees it: its feed, its client, and windows of speed that come in without end."""

    def __init__(self, address: str, number: int, rows_per_second: float) -> None:
        self.uid = f"uid-{number}"
        self.feed = Feed()
        self.produced = 0
        self._each = max(1, round(rows_per_second * TOGETHER))
        envelope = Envelope(self.uid, TOKEN, 1, "master-0", 5)
        self.client = BrainClient(address, envelope, self.feed, self._describe, SystemClock())

    def _describe(self) -> brain_pb2.JobDescription:
        return brain_pb2.JobDescription(uid=self.uid, name=self.uid, namespace="default", state="Running")

    async def train(self) -> None:
        while True:
            now = time.time()
            numbers = range(self.produced + 1, self.produced + self._each + 1)
            self.feed.add(speed=[_window(number, now) for number in numbers])
            self.produced += self._each
            await asyncio.sleep(TOGETHER)


def _window(number: int, now: float) -> metrics_pb2.SpeedSample:
    return metrics_pb2.SpeedSample(
        time=now, seconds=0.01, first_step=number, last_step=number, samples=64.0, workers=2, round=1
    )


async def play(address: str, server, away) -> list[Reporter]:
    """Five masters report; the database goes away and comes back; all that waits is sent."""
    reporters = [Reporter(address, number, rows) for number, rows in enumerate((20, 50, 100, 200, 800))]
    sending = [asyncio.create_task(one.client.run()) for one in reporters]
    training = [asyncio.create_task(one.train()) for one in reporters]
    await asyncio.sleep(5)
    assert all(one.produced > one.feed.waiting for one in reporters)
    await asyncio.to_thread(away)
    await asyncio.sleep(AWAY_SECONDS)
    assert all(one.client.reach.available is False for one in reporters)
    assert all(one.feed.waiting > 0 for one in reporters)
    server.process.thaw() if away == server.process.freeze else await asyncio.to_thread(server.start)
    await asyncio.sleep(10)
    await _cancelled(training)
    async with asyncio.timeout(100):
        while any(one.feed.waiting for one in reporters):
            await asyncio.sleep(0.2)
    await _cancelled(sending)
    for one in reporters:
        await one.client.close(1.0)
    return reporters


async def _cancelled(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_no_acknowledged_row_is_lost_or_stored_twice_and_what_was_dropped_is_said(tmp_path, how):
    with disposable_mariadb(tmp_path) as server:
        brain = BrainProcess(server.url)
        away = server.kill if how == "killed" else server.process.freeze
        reporters = asyncio.run(play(brain.address, server, away))
        for one in reporters:
            stored, dropped = _in_the_store(server.url, one.uid)
            assert len(stored) == len(set(stored))
            assert len(stored) + dropped == one.produced, one.uid
            assert set(stored) <= set(range(1, one.produced + 1))
            assert (dropped > 0) == (one is reporters[-1]), "only who has more than its feed holds may drop"
        assert brain.end() == 0


def _in_the_store(url: str, uid: str) -> tuple[list[int], int]:
    """Return the steps that are stored, and how many windows the job's events say were dropped."""
    engine = open_engine(url)
    with reading(engine) as connection:
        job = connection.execute(sa.select(Job.id).where(Job.uid == uid)).scalar_one()
        query = sa.select(TrainingSpeed.last_step).where(TrainingSpeed.job_id == job)
        steps = list(connection.execute(query).scalars())
        events = sa.select(JobEvent.message).where(JobEvent.job_id == job, JobEvent.reason == "ReportsDropped")
        said = [re.search(r"(\d+) of speed", message) for message in connection.execute(events).scalars()]
    engine.dispose()
    return steps, sum(int(one.group(1)) for one in said if one)
