"""The agent under its master: carries out what ``decide`` decides."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Coroutine, Mapping
from typing import Any

from convoy.agent import decide
from convoy.agent.address import find_own_address
from convoy.agent.channel import Channel
from convoy.agent.group import WorkerGroup
from convoy.agent.load import LoadMeter, allotted
from convoy.agent.messages import Message
from convoy.agent.options import Options
from convoy.agent.outcome import End, Outcome
from convoy.agent.ports import Reservation
from convoy.agent.session import Held, Session
from convoy.agent.spawner import Spawner
from convoy.agent.stopping import StopRequest
from convoy.core.api import names
from convoy.core.api.envelope import Envelope
from convoy.core.api.errors import ConvoyError, DeadlineMissed, Unusable
from convoy.core.api.v1 import master_pb2, metrics_pb2
from convoy.core.process import logs
from convoy.core.rpc.caller import Caller, async_channel

log = logs.get("agent")
_ABORT_SECONDS = 1.0
"""Between SIGTERM and SIGKILL for workers that are only in the way of the next round."""
_YIELD_SECONDS = 600.0
"""Longest way to a step boundary, saving included."""
_GROUP = master_pb2.WorkerGroup
_ENDS = {End.SUCCEEDED: _GROUP.SUCCEEDED, End.YIELDED: _GROUP.YIELDED, End.FAILED: _GROUP.FAILED}


async def run(options: Options, spawner: Spawner, environment: Mapping[str, str]) -> int:
    """Be this node's agent until the master, or a signal, ends it; return the exit status."""
    assert options.master is not None
    host = options.host or await find_own_address(options.master, options.join_timeout)
    spawner.attach()
    pod = environment.get(names.ENV_POD_NAME) or names.pod(
        environment.get(names.ENV_JOB_NAME, "job"), options.node_role, options.node_id
    )
    envelope = Envelope(
        job=environment.get(names.ENV_JOB_UID, ""),
        token=environment.get(names.ENV_JOB_TOKEN, ""),
        sender=pod,
        incarnation=time.time_ns(),
    )
    async with async_channel(options.master) as channel:
        agent = Agent(options, spawner, environment, Caller(channel, envelope), pod, host)
        return await agent.run()


class Agent:
    """Holds the parts; one task a concern, one queue of events, one place where state changes."""

    def __init__(
        self, options: Options, spawner: Spawner, environment: Mapping[str, str], caller: Caller, pod: str, host: str
    ) -> None:
        self._options, self._spawner, self._pod, self._host = options, spawner, pod, host
        self._state = decide.State()
        self._events: asyncio.Queue[decide.Event] = asyncio.Queue()
        self._held = Held(_GROUP(state=_GROUP.IDLE, step=-1))
        self._channel = Channel(lambda pid, message: self._group.heed(pid, message))
        self._group = WorkerGroup(options, spawner, self._channel, environment, self._heed)
        self._meter, self._allotted = LoadMeter(), allotted(environment)
        self._reservation: Reservation | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._watch: asyncio.Task[Any] | None = None
        self._groups = asyncio.Lock()
        self._losses = 0
        facts = master_pb2.RegisterRequest(
            role=options.node_role,
            rank=options.node_rank,
            node_id=options.node_id,
            host=host,
            min_nodes=options.min_nodes,
            max_nodes=options.max_nodes,
            node_unit=options.node_unit,
            processes=options.processes,
            max_restarts=options.max_restarts,
        )
        self._session = Session(caller, facts, self._hold, self._events.put_nowait)

    async def run(self) -> int:
        """Handle events until the end; return the exit status."""
        stop = StopRequest(self._options.signals)
        stop.task.add_done_callback(self._on_signal)
        await self._channel.open()
        self._begin(self._session.follow(), self._session.report(), self._measure())
        for one in self._options.left_out:
            self._note(one.reason, one.message)
        self._events.put_nowait(decide.Started())
        try:
            while True:
                event = await self._events.get()
                self._state, actions = decide.decide(self._state, event)
                for action in actions:
                    code = await self._carry_out(action)
                    if code is not None:
                        return code
        finally:
            await self._group.stop(0.0)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._channel.close()
            self._release_port()
            stop.close()

    def _on_signal(self, future: asyncio.Future[int]) -> None:
        if not future.cancelled():
            self._events.put_nowait(decide.Signalled(future.result()))

    def _begin(self, *work: Coroutine[Any, Any, None]) -> None:
        for one in work:
            task = asyncio.get_running_loop().create_task(one)
            self._tasks.add(task)
            task.add_done_callback(self._on_task_end)

    def _on_task_end(self, task: asyncio.Task[Any]) -> None:
        """A task that failed ends the agent: silence would be worse."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the agent failed", exc_info=error)
            self._events.put_nowait(decide.GaveUp(f"{type(error).__name__}: {error}"))

    # -- actions

    async def _carry_out(self, action: decide.Action) -> int | None:
        match action:
            case decide.Join():
                self._account()
                self._begin(self._join(action.last_round))
            case decide.Start():
                self._begin(self._start(action))
            case decide.AskToYield():
                self._begin(self._yield(action.round))
            case decide.StopGroup():
                self._begin(self._stop(self._state.round, action.signal))
            case decide.SetLoaders():
                self._group.set_loaders(action.workers)
            case decide.Tell():
                self._account()
                self._session.report_soon()
            case decide.Exit():
                if action.message:
                    log.error("ending", status=action.code, why=action.message)
                self._account()
                return action.code
        return None

    async def _join(self, last_round: int) -> None:
        timeout = self._options.join_timeout
        until = time.monotonic() + timeout
        self._release_port()
        try:
            reservation = self._reservation = Reservation(self._options.master_port)
        except Unusable as error:
            self._events.put_nowait(decide.GaveUp(str(error), error.exit_status))
            return
        request = master_pb2.JoinRequest(
            rank=self._options.node_rank,
            local_world_size=self._options.processes,
            host=self._host,
            store_port=reservation.number,
            last_round=last_round,
        )
        try:
            if last_round:
                await self._session.told(timeout)
            await self._spawner.ready(until - time.monotonic())  # nobody is to wait in a round for an import
            world = await self._session.join(request, until - time.monotonic())
        except DeadlineMissed as error:
            self._events.put_nowait(
                decide.GaveUp(
                    f"no world within {timeout:g} s (--rdzv-conf join_timeout) from the master at "
                    f"{self._options.master}: {error}"
                )
            )
        except ConvoyError as error:
            self._events.put_nowait(decide.GaveUp(f"the master at {self._options.master}: {error}"))
        else:
            self._events.put_nowait(decide.Joined(world))

    async def _start(self, action: decide.Start) -> None:
        world = action.world
        since = time.monotonic()
        async with self._groups:
            try:
                await self._group.start(world, action.restarts)
            except ConvoyError as error:
                self._events.put_nowait(decide.GaveUp(str(error)))
                return
            watch = self._watch = asyncio.create_task(self._group.wait())
        took = time.monotonic() - since
        log.info("workers started", round=world.round, nodes=len(world.members), world=world.size, place=world.place)
        pids = ",".join(map(str, self._group.pids))
        self._note(
            "WorkersStarted", f"{len(self._group.pids)} of {world.size} workers", seconds=f"{took:.3f}", pids=pids
        )
        self._account()
        self._session.report_soon()
        with contextlib.suppress(asyncio.CancelledError):
            self._heed_end(world.round, await watch)

    def _heed_end(self, number: int, outcome: Outcome) -> None:
        if outcome.end is End.FAILED and self._state.phase is not decide.Phase.STOPPING:
            how = {"local_rank": outcome.local_rank, "status": outcome.status, "peer_lost": outcome.peer_lost}
            log.warning("workers failed", round=number, step=self._group.step, **how)
            evidence = {key: str(value) for key, value in how.items()}
            self._note("WorkerFailed", outcome.message[-500:], **evidence)
        if self._spawner.losses > self._losses:
            self._losses = self._spawner.losses
            log.warning("the fork server was lost and started again", losses=self._losses)
            self._note("ForkServerLost", f"it was started again; losses so far: {self._losses}")
        self._events.put_nowait(decide.GroupEnded(number, outcome))

    async def _yield(self, number: int) -> None:
        """Have the workers leave at a step boundary; those that can't be asked are ended."""
        watch = self._watch
        if not self._group.ask_to_yield(number):
            self._note("WorkersCannotYield", "a worker doesn't listen (yet): all are ended, and restore")
        elif watch is not None:
            await asyncio.wait([watch], timeout=_YIELD_SECONDS)
        if self._state.phase is decide.Phase.YIELDING and self._state.round == number and self._group.running:
            await self._stop(number, 0)

    async def _stop(self, round_number: int, number: int) -> None:
        timeout = self._options.shutdown_timeout
        async with self._groups:
            if self._watch is not None:
                self._watch.cancel()
            outcome = self._group.failed()
            if number:
                log.info("stopping", signal=signal.Signals(number).name, grace_seconds=timeout)
                await self._group.stop(timeout, number)
            else:
                await self._group.stop(min(timeout, _ABORT_SECONDS))
        self._events.put_nowait(decide.GroupStopped(round_number, outcome))

    def _release_port(self) -> None:
        if self._reservation is not None:
            self._reservation.close()
            self._reservation = None

    # -- what is told

    def _hold(self) -> Held:
        self._held.workers.step = self._group.step
        return self._held

    def _account(self) -> None:
        """Bring the account of the workers up to the state."""
        state, outcome = self._state, self._state.outcome
        workers = _GROUP(round=state.round, step=self._group.step, restarts=state.restarts, pids=self._group.pids)
        if outcome is not None:
            workers.state = _ENDS[outcome.end]
            if outcome.end is End.FAILED:
                workers.failure.CopyFrom(
                    master_pb2.Failure(
                        local_rank=outcome.local_rank,
                        exit_code=outcome.status,
                        peer_lost=outcome.peer_lost,
                        message=outcome.message,
                    )
                )
        else:
            workers.state = _GROUP.RUNNING if self._group.running else _GROUP.IDLE
        self._held.workers.CopyFrom(workers)

    def _heed(self, message: Message) -> None:
        """Pass on what a worker says."""
        step = self._group.step
        match message["type"]:
            case "speed":
                known = {
                    name: message[name]
                    for name in metrics_pb2.SpeedSample.DESCRIPTOR.fields_by_name
                    if name in message
                }
                self._held.speed.append(metrics_pb2.SpeedSample(**known))
            case "restored":
                self._note("Restored", f"goes on after step {step}")
            case "checkpoint":
                self._note("CheckpointSaved", f"step {step}")
            case "yielded":
                self._note("Yielded", f"left at step {step}, saved")

    def _note(self, reason: str, message: str, **evidence: str) -> None:
        self._held.events.append(
            metrics_pb2.JobEvent(
                time=time.time(),
                reason=reason,
                node=self._pod,
                message=message,
                round=self._state.round,
                step=self._group.step,
                evidence=evidence,
            )
        )

    async def _measure(self) -> None:
        while True:
            await asyncio.sleep(self._session.heartbeat)
            load = await asyncio.to_thread(self._meter.measure)
            self._held.load = metrics_pb2.NodeLoad(
                time=time.time(),
                seconds=load.seconds,
                node=self._pod,
                role=self._options.node_role,
                rank=self._options.node_rank,
                cpu_cores=load.cores,
                memory_bytes=load.memory,
                cpu_allotted=self._allotted.cores,
                memory_allotted=self._allotted.memory,
                round=self._state.round,
            )
