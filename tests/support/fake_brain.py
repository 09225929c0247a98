"""A Brain that answers as a test says, on a real threaded server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from convoy.core.api.v1 import brain_pb2, brain_pb2_grpc
from convoy.core.rpc.guard import caller, require_token
from convoy.core.rpc.server import bind, blocking_server

BRAIN_TOKEN = "the-brain's-token"


class FakeBrain(brain_pb2_grpc.BrainServicer):
    """Keeps what it is told by (sender, incarnation, sequence); ``answers`` are given one by one, then KEEP.

    A report with an event whose reason is in ``poison`` is answered with that error.
    """

    def __init__(self) -> None:
        self.reports: dict[tuple[str, int, int], brain_pb2.BrainReport] = {}
        self.received = 0
        self.lose_answers = 0
        self.poison: dict[str, Exception] = {}
        self.questions: list[brain_pb2.OptimizeRequest] = []
        self.answers: list[brain_pb2.Recommendation] = []

    def Report(self, request: brain_pb2.BrainReport, context: Any) -> brain_pb2.BrainAck:
        who = caller()
        self.received += 1
        for event in request.events:
            if event.reason in self.poison:
                raise self.poison[event.reason]
        self.reports.setdefault((who.sender, who.incarnation, who.sequence), request)
        if self.lose_answers:
            self.lose_answers -= 1
            context.abort(grpc.StatusCode.UNAVAILABLE, "stored, and the answer was lost")
        return brain_pb2.BrainAck(stored=1)

    def OptimizeJob(self, request: brain_pb2.OptimizeRequest, context: Any) -> brain_pb2.Recommendation:
        self.questions.append(request)
        if self.answers:
            return self.answers.pop(0)
        keep = brain_pb2.Recommendation(decision=brain_pb2.Recommendation.KEEP, reason="AlreadyBest")
        keep.target.CopyFrom(request.current)
        return keep

    def rows(self, kind: str) -> list[Any]:
        """All rows of a kind, in the order of their reports."""
        return [row for report in self.reports.values() for row in getattr(report, kind)]


@contextmanager
def serving(brain: FakeBrain, port: int = 0) -> Iterator[int]:
    server = blocking_server(require_token(BRAIN_TOKEN), threads=4)
    brain_pb2_grpc.add_BrainServicer_to_server(brain, server)
    port = bind(server, f"127.0.0.1:{port}")
    server.start()
    try:
        yield port
    finally:
        server.stop(0).wait(5)
