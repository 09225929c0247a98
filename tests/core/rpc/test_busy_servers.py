"""A threaded server that has more to do than it can refuses at once, and keeps nothing of what it refused."""

import threading
from typing import Any

import grpc
import pytest

from convoy.core.api.envelope import Envelope
from convoy.core.api.errors import InvalidInput, Unavailable
from convoy.core.api.v1 import master_pb2 as pb
from convoy.core.api.v1 import master_pb2_grpc as grpc_stubs
from convoy.core.rpc.guard import require_token
from convoy.core.rpc.server import bind, blocking_server
from support.calls import BlockingCaller, blocking_channel
from support.rpc_servers import everybody
from support.waiting import until


class Held(grpc_stubs.MasterServicer):
    """Answers when it is let."""

    def __init__(self) -> None:
        self.let = threading.Event()
        self.begun = 0

    def AddKey(self, request: pb.AddRequest, context: Any) -> pb.AddResponse:
        self.begun += 1
        self.let.wait(30)
        return pb.AddResponse(value=request.amount)


@pytest.fixture
def held():
    servicer = Held()
    server = blocking_server(everybody, threads=2, waiting=3)
    grpc_stubs.add_MasterServicer_to_server(servicer, server)
    servicer.port = bind(server, "127.0.0.1:0")
    server.start()
    yield servicer
    servicer.let.set()
    server.stop(0).wait(5)


def ask(port: int, *, key: str = "k", timeout: float = 30.0) -> int:
    with blocking_channel(f"127.0.0.1:{port}") as channel:
        caller = BlockingCaller(channel, Envelope(job="uid", sender="s", incarnation=1))
        answer = caller.call(grpc_stubs.MasterStub(channel).AddKey, pb.AddRequest(key=key, amount=7), timeout=timeout)
        return int(answer.value)


def test_what_is_too_much_is_refused_at_once_and_the_rest_is_answered(held):
    answers: list[int] = []
    refused: list[Unavailable] = []

    def call() -> None:
        try:
            answers.append(ask(held.port))
        except Unavailable as error:
            refused.append(error)

    calls = [threading.Thread(target=call) for _ in range(12)]
    for thread in calls:
        thread.start()
    until(lambda: len(refused) == 7, "seven of twelve to be refused where two are answered and three may wait")
    assert (held.begun, answers) == (2, [])
    held.let.set()
    for thread in calls:
        thread.join(20)
    assert answers == [7] * 5
    assert ask(held.port) == 7


def test_a_message_that_is_too_large_is_the_senders_fault_and_no_reason_to_come_again(held):
    held.let.set()
    with pytest.raises(InvalidInput, match="larger than max"):
        ask(held.port, key="k" * (65 * 2**20))


def test_the_status_itself_says_which_of_the_two(held):
    held.let.set()
    with blocking_channel(f"127.0.0.1:{held.port}") as channel:
        with pytest.raises(grpc.RpcError) as caught:
            grpc_stubs.MasterStub(channel).AddKey(pb.AddRequest(key="k" * (65 * 2**20)), timeout=30)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_calls_of_strangers_whose_message_never_comes_keep_nobody_out() -> None:
    server = blocking_server(require_token("t"), threads=2, waiting=3)
    servicer = Held()
    servicer.let.set()
    grpc_stubs.add_MasterServicer_to_server(servicer, server)
    port = bind(server, "127.0.0.1:0")
    server.start()
    over = threading.Event()

    def never():
        over.wait(30)
        yield from ()

    with blocking_channel(f"127.0.0.1:{port}") as channel:
        strangers = [
            channel.stream_unary("/convoy.v1.Master/AddKey").future(never(), timeout=30, wait_for_ready=True)
            for _ in range(5)
        ]
        for stranger in strangers:
            assert stranger.code() is grpc.StatusCode.UNAUTHENTICATED
        known = BlockingCaller(channel, Envelope(job="uid", sender="s", incarnation=1, token="t"))
        answer = known.call(grpc_stubs.MasterStub(channel).AddKey, pb.AddRequest(key="k", amount=7), timeout=10.0)
        assert answer.value == 7
        over.set()
    server.stop(0).wait(5)
