"""The agent's talk with its job's master: makes itself known, follows directives, reports; again after each break.

Nothing here decides. A master that is away is waited for while the workers train on.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from convoy.agent.decide import Directed, GaveUp, Order
from convoy.agent.world import Member, World
from convoy.core.api.errors import (
    ConvoyError,
    DeadlineMissed,
    InvalidInput,
    StaleIncarnation,
    Unauthenticated,
    Unavailable,
)
from convoy.core.api.v1 import master_pb2, master_pb2_grpc, metrics_pb2
from convoy.core.process import logs
from convoy.core.rpc.caller import Caller

log = logs.get("agent")
_CALL_SECONDS = 10.0
_JOIN_SECONDS = 30.0
_KEPT = 2000
"""Samples and events that wait for a master at most."""
_ORDERS = {
    master_pb2.Directive.TRAIN: Order.TRAIN,
    master_pb2.Directive.YIELD: Order.YIELD,
    master_pb2.Directive.ABORT: Order.ABORT,
    master_pb2.Directive.STOP: Order.STOP,
}


@dataclass
class Held:
    """What the agent holds: told on each registration and in each report."""

    workers: master_pb2.WorkerGroup
    load: metrics_pb2.NodeLoad | None = None
    speed: deque[metrics_pb2.SpeedSample] = field(default_factory=lambda: deque(maxlen=_KEPT))
    events: deque[metrics_pb2.JobEvent] = field(default_factory=lambda: deque(maxlen=_KEPT))


class Session:
    """One agent's session with whichever process is the master now."""

    def __init__(
        self,
        caller: Caller,
        facts: master_pb2.RegisterRequest,
        held: Callable[[], Held],
        on_event: Callable[[Directed | GaveUp], None],
    ) -> None:
        self._caller, self._facts, self._held, self._on_event = caller, facts, held, on_event
        self._stub = master_pb2_grpc.MasterStub(caller.channel)
        self._connected = asyncio.Event()
        self._soon = asyncio.Event()
        self._delivered = asyncio.Condition()
        self._reports = 0
        self.heartbeat = 1.0
        self.trouble = "no answer yet"
        """What last kept the master from being reached."""

    # -- being known

    async def follow(self) -> None:
        """Register, follow the directives, and again when the master is gone; runs until cancelled."""
        while True:
            try:
                await self._register()
                async for directive in self._caller.stream(
                    self._stub.Directives, master_pb2.DirectivesRequest(rank=self._facts.rank)
                ):
                    self._on_event(self._directed(directive))
            except (StaleIncarnation, Unauthenticated, InvalidInput) as error:
                self._on_event(GaveUp(f"the master refuses this agent: {error}"))
                return
            except ConvoyError as error:  # away, just starting, or one that a newer master has replaced
                self.trouble = str(error)
            if self._connected.is_set():
                self._connected.clear()
                log.warning("the master is away; training goes on", trouble=self.trouble)
            await asyncio.sleep(random.uniform(0.1, 0.3))

    async def _register(self) -> None:
        held = self._held()
        running = held.workers.state == master_pb2.WorkerGroup.RUNNING
        request = master_pb2.RegisterRequest()
        request.CopyFrom(self._facts)
        request.round = held.workers.round if running else 0
        request.step = held.workers.step
        answer = await self._caller.call(self._stub.Register, request, timeout=_CALL_SECONDS)
        if answer.epoch < self._caller.envelope.epoch:
            raise Unavailable(f"a master of epoch {answer.epoch} answers, {self._caller.envelope.epoch} is known")
        self._caller.learn_epoch(answer.epoch)
        if answer.heartbeat_seconds > 0:
            self.heartbeat = min(1.0, answer.heartbeat_seconds / 2)
        self._connected.set()
        self.report_soon()

    def _directed(self, directive: master_pb2.Directive) -> Directed:
        order = _ORDERS.get(directive.action, Order.TRAIN)
        return Directed(
            self._caller.envelope.epoch,
            directive.version,
            order,
            directive.round,
            directive.reason,
            directive.message,
            directive.exit_code,
            directive.loader_workers if directive.HasField("loader_workers") else None,
        )

    async def wait_connected(self, timeout: float) -> None:
        """Wait until the master knows this agent.

        Raises:
            DeadlineMissed: it didn't answer in time.
        """
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._connected.wait(), timeout)
            return
        raise DeadlineMissed(self.trouble)

    # -- joining

    async def join(self, request: master_pb2.JoinRequest, timeout: float) -> World:
        """Wait for the next round's world.

        Raises:
            DeadlineMissed: no world within the time; the message is what the master last said was missing.
            InvalidInput: the world that was given doesn't hold this node.
            StaleIncarnation, Unauthenticated: this agent is refused for good.
        """
        until = time.monotonic() + timeout
        missing = ""
        while (left := until - time.monotonic()) > 0:
            await self.wait_connected(left)
            request.timeout_seconds = max(0.1, min(_JOIN_SECONDS, left))
            try:
                answer = await self._caller.call(
                    self._stub.JoinRendezvous, request, timeout=request.timeout_seconds + _CALL_SECONDS
                )
                return self._world(answer)
            except DeadlineMissed as error:
                missing = str(error)
            except (StaleIncarnation, Unauthenticated, InvalidInput):
                raise
            except ConvoyError as error:  # away, an older master, or one in trouble: the next may be well
                missing = str(error)
                await asyncio.sleep(0.1)
        raise DeadlineMissed(missing or self.trouble)

    def _world(self, answer: master_pb2.JoinResponse) -> World:
        members = tuple(
            Member(one.node_rank, one.local_world_size, one.first_process_rank, one.host, one.store_port)
            for one in answer.members
        )
        place = next((at for at, one in enumerate(members) if one.node_rank == self._facts.rank), None)
        if place is None:
            raise InvalidInput(f"the world of round {answer.round} doesn't hold node rank {self._facts.rank}")
        return World(answer.round, members, place)

    # -- reporting

    def report_soon(self) -> None:
        """Report without waiting for the next heartbeat."""
        self._soon.set()

    async def report(self) -> None:
        """Report at each heartbeat and when asked to; runs until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._soon.wait(), self.heartbeat)
            self._soon.clear()
            if not self._connected.is_set():
                continue
            try:
                await self._report_once()
            except ConvoyError as error:  # ``follow`` registers again; nothing was dropped
                self.trouble = str(error)
                await asyncio.sleep(0.1)
                self.report_soon()

    async def _report_once(self) -> None:
        held = self._held()
        speed, events, load = list(held.speed), list(held.events), held.load
        report = master_pb2.NodeReport(workers=held.workers, load=load, speed=speed, events=events)
        number = self._reports + 1
        ack = await self._caller.call(self._stub.Report, report, timeout=_CALL_SECONDS)
        self._caller.learn_epoch(ack.epoch)
        for _ in speed:
            held.speed.popleft()
        for _ in events:
            held.events.popleft()
        if held.load is load:
            held.load = None
        async with self._delivered:
            self._reports = number
            self._delivered.notify_all()

    async def told(self, timeout: float) -> bool:
        """Wait until a report that starts after this call has been acknowledged; False if none was in time."""
        self.report_soon()
        goal = self._reports + 2  # one may be under way with what was held before
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout), self._delivered:
                while self._reports < goal:
                    self.report_soon()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._delivered.wait(), 0.2)
            return True
        return False
