"""A master's service that answers as a test says, on a real asyncio or threaded server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from convoy.core.api.errors import ConvoyError
from convoy.core.api.v1 import master_pb2 as pb
from convoy.core.api.v1 import master_pb2_grpc as grpc_stubs
from convoy.core.rpc.guard import Check, caller
from convoy.core.rpc.server import async_server, bind, blocking_server


class Answers:
    """What both servicers do: ``error`` is raised if set; every call's envelope is kept in ``seen``."""

    def __init__(self, error: BaseException | None = None, refusals: int = 0) -> None:
        self.error = error
        self.refusals = refusals
        self.seen: list[Any] = []

    def answer(self, request: pb.AddRequest) -> pb.AddResponse:
        self.seen.append(caller())
        if self.error is not None and (not self.refusals or len(self.seen) <= self.refusals):
            raise self.error
        return pb.AddResponse(value=request.amount + 1)


class AsyncMaster(grpc_stubs.MasterServicer):
    """The servicer of an asyncio server."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.left = asyncio.Event()

    async def AddKey(self, request: pb.AddRequest, context: Any) -> pb.AddResponse:
        if request.key == "slow":
            await asyncio.sleep(30)
        return self.answers.answer(request)

    async def Directives(self, request: pb.DirectivesRequest, context: Any) -> AsyncIterator[pb.Directive]:
        try:
            for version in range(1, 3):
                yield pb.Directive(version=version)
            if self.answers.error is not None:
                raise self.answers.error
            await asyncio.sleep(30)
        except (asyncio.CancelledError, GeneratorExit):
            self.left.set()
            raise


class BlockingMaster(grpc_stubs.MasterServicer):
    """The servicer of a threaded server."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def AddKey(self, request: pb.AddRequest, context: Any) -> pb.AddResponse:
        return self.answers.answer(request)


@asynccontextmanager
async def asyncio_master(answers: Answers, check: Check, port: int = 0) -> AsyncIterator[tuple[int, AsyncMaster]]:
    """Serve, and give the port and the servicer."""
    server = async_server(check)
    servicer = AsyncMaster(answers)
    grpc_stubs.add_MasterServicer_to_server(servicer, server)
    port = bind(server, f"127.0.0.1:{port}")
    await server.start()
    try:
        yield port, servicer
    finally:
        await server.stop(0)


@contextmanager
def threaded_master(answers: Answers, check: Check) -> Iterator[int]:
    """Serve, and give the port."""
    server = blocking_server(check, threads=2)
    grpc_stubs.add_MasterServicer_to_server(BlockingMaster(answers), server)
    port = bind(server, "127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(0).wait(5)


def everybody(_envelope: Any) -> None:
    """Let every caller in."""


def failing(kind: type[ConvoyError]) -> ConvoyError:
    """Return an error of the tree with a message of its own."""
    message = f"a {kind.__name__} of the test"
    return kind("spec.it", message) if kind.__name__ == "InvalidManifest" else kind(message)  # type: ignore[call-arg]
