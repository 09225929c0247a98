"""Calls over real servers: who may speak, what a failure becomes on the other side, what a caller does about it."""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import grpc
import pytest

from convoy.core.api import errors
from convoy.core.api.envelope import Envelope
from convoy.core.api.errors import (
    ConvoyError,
    DeadlineMissed,
    InvalidInput,
    StaleEpoch,
    Unauthenticated,
    Unavailable,
    Unusable,
)
from convoy.core.api.v1 import master_pb2 as pb
from convoy.core.api.v1 import master_pb2_grpc as grpc_stubs
from convoy.core.rpc import status
from convoy.core.rpc.caller import Caller, async_channel
from convoy.core.rpc.guard import require_token
from convoy.core.rpc.server import async_server, bind, blocking_server
from support.calls import BlockingCaller, blocking_channel
from support.rpc_servers import Answers, asyncio_master, everybody, failing, threaded_master

ENVELOPE = Envelope(job="uid-1", token="right", epoch=3, sender="pod-0", incarnation=12)
ADD = pb.AddRequest(key="k", amount=1)
TREE = sorted((kind for kind in vars(errors).values() if isinstance(kind, type)), key=lambda kind: kind.__name__)
CROSSING = (
    errors.InvalidInput,
    errors.NotFound,
    errors.AlreadyExists,
    errors.Fenced,
    errors.StaleEpoch,
    errors.StaleIncarnation,
    errors.Unauthenticated,
    errors.DeadlineMissed,
    errors.Unavailable,
)
"""The classes that a caller tells apart; of the others it learns the reason and the message."""


@asynccontextmanager
async def calling(port: int, envelope: Envelope = ENVELOPE) -> AsyncIterator[tuple[Caller, grpc_stubs.MasterStub]]:
    channel = async_channel(f"127.0.0.1:{port}")
    try:
        yield Caller(channel, envelope), grpc_stubs.MasterStub(channel)
    finally:
        await channel.close(None)


def blocking_call(port: int, envelope: Envelope = ENVELOPE, *, timeout: float = 5.0) -> pb.AddResponse:
    with blocking_channel(f"127.0.0.1:{port}") as channel:
        answer: pb.AddResponse = BlockingCaller(channel, envelope).call(
            grpc_stubs.MasterStub(channel).AddKey, ADD, timeout=timeout
        )
        return answer


async def async_call(port: int, envelope: Envelope = ENVELOPE) -> pb.AddResponse:
    async with calling(port, envelope) as (caller, stub):
        answer: pb.AddResponse = await caller.call(stub.AddKey, ADD, timeout=5.0)
        return answer


def call_both_ways(answers: Answers, envelope: Envelope, check: object) -> list[pb.AddResponse | ConvoyError]:
    """Return what an asyncio caller got from an asyncio server and a blocking one from a threaded server."""
    outcomes: list[pb.AddResponse | ConvoyError] = []

    async def on_asyncio() -> None:
        async with asyncio_master(answers, check) as (port, _):  # type: ignore[arg-type]
            try:
                outcomes.append(await async_call(port, envelope))
            except ConvoyError as error:
                outcomes.append(error)

    asyncio.run(on_asyncio())
    with threaded_master(answers, check) as port:  # type: ignore[arg-type]
        try:
            outcomes.append(blocking_call(port, envelope))
        except ConvoyError as error:
            outcomes.append(error)
    return outcomes


def test_the_servicer_sees_who_calls() -> None:
    answers = Answers()
    for outcome in call_both_ways(answers, ENVELOPE, everybody):
        assert isinstance(outcome, pb.AddResponse)
        assert outcome.value == 2
    assert answers.seen == [replace(ENVELOPE, sequence=1)] * 2


def test_a_call_without_the_token_is_refused_and_reaches_no_servicer(capfd: pytest.CaptureFixture[str]) -> None:
    answers = Answers()
    for token in ("wrong", "", "r\u00efght".encode("ascii", "ignore").decode()):
        for outcome in call_both_ways(answers, replace(ENVELOPE, token=token), require_token("right")):
            assert isinstance(outcome, Unauthenticated)
            assert "token" in str(outcome)
    assert answers.seen == []
    assert "right" not in capfd.readouterr().err


def test_an_empty_token_lets_everyone_in() -> None:
    assert all(isinstance(one, pb.AddResponse) for one in call_both_ways(Answers(), ENVELOPE, require_token("")))


def test_a_malformed_envelope_is_refused() -> None:
    answers = Answers()
    metadata = (("convoy-epoch", "minus one"), ("convoy-token", "right"))
    with threaded_master(answers, require_token("right")) as port, blocking_channel(f"127.0.0.1:{port}") as channel:
        with pytest.raises(grpc.RpcError) as caught:
            grpc_stubs.MasterStub(channel).AddKey(ADD, metadata=metadata, timeout=5)
        refused = status.from_rpc(caught.value)
    assert isinstance(refused, InvalidInput)
    assert "convoy-epoch" in str(refused)
    assert answers.seen == []


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_an_error_arrives_as_it_was_raised(kind: type[ConvoyError]) -> None:
    raised = failing(kind)
    for outcome in call_both_ways(Answers(raised), ENVELOPE, everybody):
        assert isinstance(outcome, ConvoyError)
        assert str(outcome) == str(raised)
        assert outcome.reason == raised.reason
        for told_apart in CROSSING:
            assert isinstance(outcome, told_apart) == isinstance(raised, told_apart)


def test_a_reason_of_the_errors_own_arrives_too() -> None:
    for outcome in call_both_ways(Answers(Unusable("no", reason="PortInUse")), ENVELOPE, everybody):
        assert isinstance(outcome, ConvoyError)
        assert outcome.reason == "PortInUse"


def test_a_servicers_mistake_is_an_error_of_the_tree(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    for outcome in call_both_ways(Answers(KeyError("lost")), ENVELOPE, everybody):
        assert type(outcome) is ConvoyError
        assert "lost" in str(outcome)


def test_a_method_that_is_not_there_is_an_error_of_the_tree() -> None:
    with threaded_master(Answers(), everybody) as port, blocking_channel(f"127.0.0.1:{port}") as channel:
        unknown = channel.unary_unary("/convoy.v1.Master/Sink", request_serializer=pb.AddRequest.SerializeToString)
        with pytest.raises(ConvoyError, match="Method not found"):
            BlockingCaller(channel, ENVELOPE).call(unknown, ADD, timeout=5)


def test_a_caller_waits_for_a_master_that_is_away_and_keeps_the_calls_number() -> None:
    answers = Answers()

    async def scenario() -> None:
        async with asyncio_master(Answers(), everybody) as (port, _):
            pass
        async with calling(port) as (caller, stub):
            with pytest.raises(Unavailable):
                await caller.call(stub.AddKey, ADD, timeout=1.0)
            began = time.monotonic()
            with pytest.raises(Unavailable):
                await caller.call(stub.AddKey, ADD, timeout=1.0, wait=0.5)
            assert 0.4 < time.monotonic() - began < 3.0
            waiting = asyncio.create_task(caller.call(stub.AddKey, ADD, timeout=1.0, wait=20.0))
            await asyncio.sleep(0.6)
            async with asyncio_master(answers, everybody, port=port):
                assert (await waiting).value == 2

    asyncio.run(scenario())
    assert [envelope.sequence for envelope in answers.seen] == [3]


def test_a_retried_call_keeps_its_number_and_another_error_is_not_retried() -> None:
    async def scenario(answers: Answers) -> None:
        async with asyncio_master(answers, everybody) as (port, _), calling(port) as (caller, stub):
            await caller.call(stub.AddKey, ADD, timeout=5.0, wait=20.0)

    away = Answers(Unavailable("starting"), refusals=2)
    asyncio.run(scenario(away))
    assert [envelope.sequence for envelope in away.seen] == [1, 1, 1]
    stale = Answers(StaleEpoch("replaced"), refusals=2)
    with pytest.raises(StaleEpoch):
        asyncio.run(scenario(stale))
    assert len(stale.seen) == 1


def test_every_call_has_a_deadline() -> None:
    async def scenario() -> None:
        async with asyncio_master(Answers(), everybody) as (port, _), calling(port) as (caller, stub):
            with pytest.raises(DeadlineMissed):
                await caller.call(stub.AddKey, pb.AddRequest(key="slow"), timeout=0.3)

    asyncio.run(scenario())


def test_a_peer_that_never_answers_is_a_missed_deadline() -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        with pytest.raises((DeadlineMissed, Unavailable)):
            blocking_call(mute.getsockname()[1], timeout=0.5)


def test_the_highest_epoch_is_kept() -> None:
    answers = Answers()

    async def scenario() -> None:
        async with asyncio_master(answers, everybody) as (port, _), calling(port) as (caller, stub):
            for epoch in (5, 4):
                caller.learn_epoch(epoch)
                await caller.call(stub.AddKey, ADD, timeout=5.0)

    asyncio.run(scenario())
    assert [(envelope.epoch, envelope.sequence) for envelope in answers.seen] == [(5, 1), (5, 2)]


def test_a_stream_ends_with_the_error_that_was_raised_in_it() -> None:
    async def scenario() -> list[int]:
        answers = Answers(StaleEpoch("replaced"))
        async with asyncio_master(answers, everybody) as (port, _), calling(port) as (one, stub):
            stream = one.stream(stub.Directives, pb.DirectivesRequest())
            versions = [(await anext(stream)).version, (await anext(stream)).version]
            with pytest.raises(StaleEpoch, match="replaced"):
                await anext(stream)
        return versions

    assert asyncio.run(scenario()) == [1, 2]


def test_a_stream_is_refused_without_the_token_and_ends_with_its_server() -> None:
    async def scenario() -> None:
        async with asyncio_master(Answers(), require_token("right")) as (port, _):
            async with calling(port, replace(ENVELOPE, token="wrong")) as (one, stub):
                with pytest.raises(Unauthenticated):
                    await anext(one.stream(stub.Directives, pb.DirectivesRequest()))
            open_channel = calling(port)
            one, stub = await open_channel.__aenter__()
            stream = one.stream(stub.Directives, pb.DirectivesRequest())
            assert (await anext(stream)).version == 1
            assert (await anext(stream)).version == 2
        with pytest.raises(Unavailable):
            await anext(stream)
        await open_channel.__aexit__(None, None, None)

    asyncio.run(scenario())


def test_a_reader_that_leaves_a_stream_frees_the_server() -> None:
    async def scenario() -> None:
        async with asyncio_master(Answers(), everybody) as (port, servicer), calling(port) as (one, stub):
            stream = one.stream(stub.Directives, pb.DirectivesRequest())
            assert (await anext(stream)).version == 1
            await stream.aclose()  # type: ignore[attr-defined]
            await asyncio.wait_for(servicer.left.wait(), 5)

    asyncio.run(scenario())


def test_a_port_in_use_is_refused_by_both_servers() -> None:
    with threaded_master(Answers(), everybody) as port:
        second = blocking_server(everybody)
        with pytest.raises(Unusable, match=f"127.0.0.1:{port}.*the port is in use") as caught:
            bind(second, f"127.0.0.1:{port}")
        second.stop(0)
        assert caught.value.exit_status == 2

        async def scenario() -> None:
            server = async_server(everybody)
            with pytest.raises(Unusable, match=f"127.0.0.1:{port}"):
                bind(server, f"127.0.0.1:{port}")
            await server.stop(0)

        asyncio.run(scenario())


NOISE = """
from convoy.core.process.quiet import quiet_grpc
quiet_grpc()
import asyncio, subprocess
from convoy.core.api.envelope import Envelope
from convoy.core.api.errors import Unavailable, Unusable
from convoy.core.api.v1 import master_pb2, master_pb2_grpc
from convoy.core.rpc.caller import Caller, async_channel
from convoy.core.rpc.guard import require_token
from convoy.core.rpc.server import async_server, bind

async def main():
    server = async_server(require_token(""))
    port = bind(server, "127.0.0.1:0")
    await server.start()
    try:
        bind(async_server(require_token("")), f"127.0.0.1:{port}")
    except Unusable:
        pass
    channel = async_channel("127.0.0.1:1")
    try:
        stub = master_pb2_grpc.MasterStub(channel)
        await Caller(channel, Envelope()).call(stub.AddKey, master_pb2.AddRequest(), timeout=1)
    except Unavailable:
        pass
    subprocess.run(["true"], preexec_fn=lambda: None)
    await channel.close(None)
    await server.stop(0)

asyncio.run(main())
"""


def test_grpc_itself_says_nothing_on_the_terminal() -> None:
    ran = subprocess.run([sys.executable, "-c", NOISE], capture_output=True, text=True, timeout=30, check=True)
    assert ran.stderr == ""
