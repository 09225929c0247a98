"""A master that does what a test says, for agents that are real: over gRPC, and asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from convoy.core.api.envelope import Envelope
from convoy.core.api.errors import DeadlineMissed, StaleEpoch
from convoy.core.api.v1 import master_pb2 as pb
from convoy.core.api.v1 import master_pb2_grpc as grpc_stubs
from convoy.core.rpc.guard import caller
from convoy.core.rpc.server import async_server, bind


class ScriptedMaster(grpc_stubs.MasterServicer):
    """Keeps what agents say; tests wait for it, complete rounds and give directives."""

    def __init__(self, epoch: int = 1) -> None:
        self.epoch = epoch
        self.registered: list[pb.RegisterRequest] = []
        self.reports: list[tuple[str, pb.NodeReport]] = []
        self.joined: dict[int, tuple[pb.JoinRequest, asyncio.Future[pb.JoinResponse]]] = {}
        self.directives: dict[int, pb.Directive] = {}
        self._version = 0
        self._news = asyncio.Condition()

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def until(self, condition: Callable[[], Any], what: str, timeout: float = 25.0) -> Any:
        """Wait until something that agents said makes the condition true; return its value."""
        try:
            async with asyncio.timeout(timeout), self._news:
                while not (answer := condition()):
                    await self._news.wait()
                return answer
        except TimeoutError:
            last = self.reports[-1] if self.reports else None
            raise AssertionError(f"waited {timeout:g} s for {what}; last report: {last}") from None

    async def complete(self, number: int, *ranks: int) -> pb.JoinResponse:
        """Wait until the ranks have joined, and give them their world."""
        await self.until(lambda: all(rank in self.joined for rank in ranks), f"ranks {ranks} to join")
        answer, first = pb.JoinResponse(round=number), 0
        for rank in ranks:
            request, _ = self.joined[rank]
            answer.members.add(
                node_rank=rank,
                local_world_size=request.local_world_size,
                first_process_rank=first,
                host=request.host,
                store_port=request.store_port,
            )
            first += request.local_world_size
        for rank in ranks:
            self.joined.pop(rank)[1].set_result(answer)
        return answer

    async def direct(
        self,
        action: pb.Directive.Action,
        number: int,
        *ranks: int,
        exit_code: int = 0,
        loader_workers: int | None = None,
    ) -> None:
        """Give nodes a directive."""
        self._version += 1
        for rank in ranks:
            self.directives[rank] = pb.Directive(
                version=self._version,
                action=action,
                round=number,
                reason="Test",
                exit_code=exit_code,
                loader_workers=loader_workers,
            )
        await self._tell()

    async def state(self, state: int, number: int, *, sender: str = "") -> pb.NodeReport:
        """Wait for a report of that state of the workers in that round; return the first."""

        def find() -> pb.NodeReport | None:
            return next(
                (
                    report
                    for who, report in self.reports
                    if report.workers.state == state and report.workers.round == number and sender in who
                ),
                None,
            )

        found = await self.until(find, f"workers of {sender or 'any node'} in state {state} of round {number}")
        assert isinstance(found, pb.NodeReport)
        return found

    async def Register(self, request: pb.RegisterRequest, context: Any) -> pb.RegisterResponse:
        if caller().epoch > self.epoch:
            raise StaleEpoch("a newer master holds the job")
        self.registered.append(request)
        await self._tell()
        return pb.RegisterResponse(epoch=self.epoch, heartbeat_seconds=1.0)

    async def JoinRendezvous(self, request: pb.JoinRequest, context: Any) -> pb.JoinResponse:
        answer: asyncio.Future[pb.JoinResponse] = asyncio.get_running_loop().create_future()
        self.joined[request.rank] = (request, answer)
        await self._tell()
        try:
            async with asyncio.timeout(request.timeout_seconds):
                return await answer
        except TimeoutError:
            raise DeadlineMissed("1 of 2 nodes joined; missing: rank 1") from None
        finally:
            if self.joined.get(request.rank, (None, None))[1] is answer:
                del self.joined[request.rank]

    async def Directives(self, request: pb.DirectivesRequest, context: Any) -> AsyncIterator[pb.Directive]:
        sent = 0
        while True:
            directive = self.directives.get(request.rank)
            if directive is not None and directive.version != sent:
                sent = directive.version
                yield directive
            async with self._news:
                await self._news.wait()

    async def Report(self, request: pb.NodeReport, context: Any) -> pb.ReportAck:
        self.reports.append((caller().sender, request))
        await self._tell()
        return pb.ReportAck(epoch=self.epoch)


@asynccontextmanager
async def serving(master: ScriptedMaster, port: int = 0) -> AsyncIterator[int]:
    """Serve until the block ends; give the port."""
    server = async_server(_everybody)
    grpc_stubs.add_MasterServicer_to_server(master, server)
    port = bind(server, f"127.0.0.1:{port}")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(0)


def _everybody(envelope: Envelope) -> None:
    """Let every caller in."""
