"""One job's master, put together: state, decisions, server, watcher, Brain, and the writers of plans and status."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import grpc.aio

from convoy.core.api import names
from convoy.core.api.envelope import Envelope
from convoy.core.api.errors import Conflict, ConvoyError, StaleEpoch, Unusable
from convoy.core.api.job import ElasticJob
from convoy.core.api.meta import condition
from convoy.core.api.v1 import brain_pb2, master_pb2_grpc
from convoy.core.cluster.platform import Platform
from convoy.core.cluster.port import Cluster, Kind
from convoy.core.process import logs
from convoy.core.process.clock import SystemClock
from convoy.core.process.crashpoint import crash_point
from convoy.core.rpc.server import async_server, bind
from convoy.master import adviser, convert, describe, status
from convoy.master.accepted import AcceptedSpec
from convoy.master.brain import BrainClient
from convoy.master.conductor import Conductor
from convoy.master.decide.actions import (
    AnswerManualPlan,
    AskBrain,
    Explain,
    FinishJob,
    RecordPlan,
    ReleaseShards,
    SetDirective,
    WriteScalePlan,
)
from convoy.master.decide.core import resume
from convoy.master.decide.events import JobObserved, Tick
from convoy.master.decide.policy import Policy
from convoy.master.decide.state import SCHEMA, JobState, Live, NodeStatus, State, dump, load
from convoy.master.durable import DATASETS, KEYS, STATE, StateStore
from convoy.master.feed import Feed
from convoy.master.hub import DirectiveHub
from convoy.master.keys import Keys
from convoy.master.scribe import Scribe
from convoy.master.service import MasterService, admits
from convoy.master.settings import MasterSettings
from convoy.master.shards.book import Book
from convoy.master.watcher import Watcher

log = logs.get("master")

_TICK = 0.25
_BIND_SECONDS = 1.0
_LOCK_SECONDS = 5.0
_GOODBYE_SECONDS = 5.0
"""After the job's end agents have so long to end by themselves before the status says that it is over."""
_RETRY_SECONDS = 1.0
_EPOCH_TRIES = 50
_PROGRESS_EVERY = {Platform.LOCAL: 1.0, Platform.KUBERNETES: 30.0}
"""Seconds between two writes of mere progress: an API server has thousands of jobs to hear of."""
EXIT_STOPPED, EXIT_BROKEN, EXIT_FENCED = 0, 1, 3


@dataclass(frozen=True, slots=True)
class Taken:
    """A job whose epoch this master has taken."""

    job: ElasticJob
    epoch: int


def take_epoch(cluster: Cluster, namespace: str, name: str, pod: str, accepted: AcceptedSpec) -> Taken:
    """Make this process the job's master: the next epoch, by compare-and-swap.

    Raises:
        NotFound: no such job.
        InvalidManifest: the job's manifest is wrong, and always was.
        Conflict: others change the job all the time.
    """
    for attempt in itertools.count(1):
        manifest = cluster.get(Kind.ELASTIC_JOB, namespace, name)
        job = accepted.read(manifest)
        epoch = job.status.master.epoch + 1
        said = condition(job.status.conditions, status.BRAIN_AVAILABLE)
        ours = {
            "apiVersion": names.API_VERSION,
            "kind": "ElasticJob",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "resourceVersion": manifest["metadata"]["resourceVersion"],
            },
            "status": {
                "master": {"epoch": epoch, "pod": pod},
                "training": job.status.training.to_json(),
                **({"conditions": [said.to_json()]} if said is not None else {}),
            },
        }
        try:
            cluster.apply_status(ours, field_manager=names.MANAGER_MASTER)
        except Conflict:
            if attempt == _EPOCH_TRIES:
                raise
            continue
        return Taken(job, epoch)
    raise AssertionError("unreachable")


class JobMaster:
    """A master from its epoch to its end. Use ``run`` once."""

    def __init__(
        self,
        cluster: Cluster,
        settings: MasterSettings,
        taken: Taken,
        policy: Policy,
        accepted: AcceptedSpec,
        store: StateStore,
    ) -> None:
        self._accepted = accepted
        self._cluster = cluster
        self._settings = settings
        self._job = taken.job
        self._epoch = taken.epoch
        self._policy = policy
        self._clock = SystemClock()
        self._incarnation = time.time_ns()
        self._pod = settings.pod or f"{taken.job.metadata.name}-master"
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="master-state")
        self._store = store
        self._feed = Feed(kept=settings.brain_address is not None)
        self._stopping = asyncio.Event()
        self._exit = EXIT_STOPPED
        self._tasks: set[asyncio.Task[Any]] = set()
        self._brain: BrainClient | None = None
        if settings.brain_address:
            envelope = Envelope(
                job=taken.job.metadata.uid,
                token=settings.brain_token.get_secret_value(),
                epoch=taken.epoch,
                sender=self._pod,
                incarnation=self._incarnation,
            )
            self._brain = BrainClient(settings.brain_address, envelope, self._feed, self._describe, self._clock)

    async def run(self, stop: asyncio.Event) -> int:
        """Serve until the job is over, a newer master holds it, or ``stop`` is set; return the exit status.

        Raises:
            Unusable: the port is in use, or the state's folder can't be used.
            StateError: the state can't be read.
            ClusterError: the cluster can't be read.
        """
        await asyncio.to_thread(self._store.acquire, self._epoch, _LOCK_SECONDS)
        try:
            await asyncio.to_thread(self._accepted.keep, self._job)
            conductor = self._conductor = await self._load()
            self._hub = DirectiveHub(self._epoch)
            self._keys = Keys(conductor.persist, await asyncio.to_thread(self._store.load, KEYS))
            self._book = Book(conductor.persist, await asyncio.to_thread(self._store.load, DATASETS))
            self._scribe = self._new_scribe()
            self._take_hands()
            service = MasterService(conductor, self._hub, self._keys, self._book, self._feed)
            check = admits(
                self._job.metadata.uid,
                self._settings.job_token.get_secret_value(),
                self._epoch,
                lambda newer: self._fenced(f"a caller knows epoch {newer}"),
            )
            server = async_server(check)
            master_pb2_grpc.add_MasterServicer_to_server(service, server)
            port = await self._bind(server)
            self._watcher = Watcher(
                self._cluster,
                self._job.metadata.namespace,
                self._job.metadata.name,
                self._job.metadata.uid,
                self._accepted.read,
                conductor.post,
                self._on_job,
            )
            await conductor.persist(STATE, dump(conductor.state.job))
            conductor.act(resume(conductor.state, self._clock.now(), self._policy))
            await self._watcher.start()
            await self._release_shards()
            await server.start()
            log.info("master serves", port=port, epoch=self._epoch, round=conductor.state.job.round.number)
            crash_point("master.serving")
            self._spawn(self._tick())
            self._spawn(self._scribe.write_plans())
            self._spawn(self._scribe.write_status(self._stopping.set, self._fenced))
            if self._brain is not None:
                self._spawn(self._brain.run())
            await self._until(stop)
            await self._end(server)
            return self._exit
        finally:
            self._threads.shutdown(wait=True)
            self._store.release()

    # -- start

    async def _load(self) -> Conductor:
        facts = describe.facts(self._job, brain=self._brain is not None)
        document = await asyncio.to_thread(self._store.load, STATE)
        job = load(document) if document is not None else JobState()
        if job.epoch >= self._epoch:
            raise StaleEpoch(
                f"the state is of epoch {job.epoch}, this master's is {self._epoch}; a newer one was here"
            )
        live = Live(started_at=self._clock.now())
        state = State(facts, replace(job, epoch=self._epoch), live)
        log.info("state loaded" if document else "no state yet", schema=SCHEMA, epoch=self._epoch, former=job.epoch)
        return Conductor(state, self._policy, self._store, self._threads, self._clock)

    async def _bind(self, server: grpc.aio.Server) -> int:
        end = self._clock.monotonic() + _BIND_SECONDS
        while True:
            try:
                return bind(server, f"{self._settings.host}:{self._settings.port}")
            except Unusable:
                if self._clock.monotonic() >= end:
                    raise
            await asyncio.sleep(0.1)  # the former master's socket may linger

    def _new_scribe(self) -> Scribe:
        said = condition(self._job.status.conditions, status.BRAIN_AVAILABLE)
        return Scribe(
            self._cluster,
            self._conductor,
            self._pod,
            self._job.owner_reference(),
            said.to_json() if said is not None else None,
            lambda: self._brain.reach if self._brain is not None else None,
            progress_every=_PROGRESS_EVERY[self._settings.platform],
        )

    def _take_hands(self) -> None:
        hands = self._conductor.hands
        hands[SetDirective] = self._hub.publish
        hands[WriteScalePlan] = lambda _: self._scribe.plan_is_due()
        hands[AnswerManualPlan] = lambda action: self._spawn(self._answer(action))
        hands[AskBrain] = lambda action: self._spawn(self._ask(action))
        hands[RecordPlan] = lambda action: self._feed.add(plans=[convert.to_outcome(action)])
        hands[ReleaseShards] = lambda action: self._spawn(self._book.release([action.holder]))
        hands[Explain] = lambda action: self._feed.add(events=[convert.to_event(action, self._clock.now())])
        hands[FinishJob] = lambda _: self._stopping.set()

    async def _release_shards(self) -> None:
        """Hand out again what is held by pods that are nodes no more, or whose node is lost or done."""
        state, over = self._conductor.state, (NodeStatus.LOST, NodeStatus.DONE)
        nodes = {node.pod(state.facts.name) for node in state.job.nodes.values() if node.status not in over}
        if gone := self._book.holders() - nodes:
            await self._book.release(gone)

    # -- what goes on

    async def _until(self, stop: asyncio.Event) -> None:
        waits = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(self._stopping.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    async def _tick(self) -> None:
        repeat = 0
        while True:
            await asyncio.sleep(_TICK)
            try:
                await self._conductor.post(Tick())
                await self._release_shards()
                repeat = (repeat + 1) % 4
                for event in list(self._watcher.manual.values()) if repeat == 0 else ():
                    await self._conductor.post(event)
            except ConvoyError as error:
                log.error("nothing can be decided", reason=error.reason, why=str(error))
                await asyncio.sleep(_RETRY_SECONDS)

    async def _on_job(self, job: ElasticJob | None) -> None:
        if job is None or job.metadata.deletion_timestamp is not None:
            log.info("the job was deleted")
            self._stopping.set()
            return
        if job.status.master.epoch > self._epoch:
            self._fenced(f"the job's epoch is {job.status.master.epoch}")
            return
        self._job = job
        try:
            await asyncio.to_thread(self._accepted.keep, job)
        except Unusable as error:
            log.warning("the job's spec couldn't be kept; the next change is", reason=error.reason, why=str(error))
        facts = describe.facts(job, brain=self._brain is not None)
        if facts != self._conductor.state.facts:
            await self._conductor.post(JobObserved(facts))

    # -- the Brain

    def _describe(self) -> brain_pb2.JobDescription:
        return describe.description(self._job, status.training_state(self._conductor.state))

    async def _ask(self, action: AskBrain) -> None:
        assert self._brain is not None, "only asked where there is one"
        horizon, state, now = self._settings.horizon_seconds, self._conductor.state, self._clock.now()
        asked = adviser.ask(self._brain, self._cluster, self._job, state, action, horizon, now)
        await self._conductor.post(await asked)

    async def _answer(self, action: AnswerManualPlan) -> None:
        if await self._scribe.answer(action):
            self._watcher.manual.pop(action.name, None)

    # -- the end

    def _fenced(self, why: str) -> None:
        if self._exit != EXIT_FENCED:
            log.error("a newer master holds the job; this one stops", reason="StaleEpoch", epoch=self._epoch, why=why)
        self._exit = EXIT_FENCED
        self._stopping.set()

    async def _end(self, server: grpc.aio.Server) -> None:
        """Let agents end, say how the job ended, send what is left to the Brain, and stop."""
        over = self._conductor.state.job.verdict is not None and self._exit != EXIT_FENCED
        if over:
            await self._say_goodbye()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._exit != EXIT_FENCED:
            await self._scribe.write_last_status(60.0 if over else 2.0)
        self._scribe.close()
        await server.stop(0.2)
        await self._watcher.stop(0.5)
        if self._brain is not None:
            await self._brain.close(2.0 if self._exit != EXIT_FENCED else 0.0)

    async def _say_goodbye(self) -> None:
        end = self._clock.monotonic() + _GOODBYE_SECONDS
        while self._clock.monotonic() < end:
            state = self._conductor.state
            pods = [state.live.pods.get(node.pod(state.facts.name)) for node in state.job.nodes.values()]
            if not any(pod is not None and pod.alive for pod in pods):
                return
            await asyncio.sleep(0.05)
        still = [node.rank for node in self._conductor.state.job.nodes.values() if node.status is not NodeStatus.DONE]
        log.warning("agents didn't end in time; the operator removes their pods", ranks=still)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        """Note how a task ended. One that failed by a fault of ours ends the master: the next one starts afresh."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, ConvoyError):
            log.error("a part of the master's work failed", reason=error.reason, why=str(error))
        elif error is not None:
            log.error("the master is broken and ends", exc_info=error)
            self._exit = EXIT_BROKEN
            self._stopping.set()
