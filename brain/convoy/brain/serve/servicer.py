"""The Brain's gRPC service: masters' reports into the store, answers to their questions."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import grpc
from sqlalchemy.engine import Engine

from convoy.brain.ingest import check
from convoy.brain.ingest.reports import Ingest
from convoy.brain.serve import repeats, translate
from convoy.brain.serve.advise import Adviser
from convoy.brain.serve.standing import Standing
from convoy.brain.settings import BrainSettings
from convoy.brain.store import jobs
from convoy.brain.store.engine import writing
from convoy.brain.store.tables import Recommendation
from convoy.brain.store.write import insert_new
from convoy.core.api.v1 import brain_pb2, brain_pb2_grpc
from convoy.core.process import logs
from convoy.core.process.clock import Clock
from convoy.core.rpc.guard import caller

log = logs.get("brain")


class BrainServicer(brain_pb2_grpc.BrainServicer):
    """Answers masters. Errors of our tree become statuses in the guard."""

    def __init__(self, engine: Engine, clock: Clock, settings: BrainSettings) -> None:
        self._engine = engine
        self._clock = clock
        self._ingest = Ingest(
            engine, clock, clock_tolerance=settings.clock_tolerance_seconds, retention=settings.retention()
        )
        self._adviser = Adviser(engine, clock, settings)
        self._standing = Standing(engine, clock, settings)

    def warm_up(self) -> None:
        """Learn from history in the background."""
        self._adviser.warm_up()

    def Report(self, request: brain_pb2.BrainReport, context: grpc.ServicerContext) -> brain_pb2.BrainAck:
        """Store a report once; acknowledged when it is committed."""
        ack = self._ingest.store(caller(), request)
        if ack.refused:
            log.warning("rows refused", job=request.job.name, count=len(ack.refused), first=ack.refused[0])
        return brain_pb2.BrainAck(stored=ack.stored, refused=ack.refused)

    def OptimizeJob(
        self, request: brain_pb2.OptimizeRequest, context: grpc.ServicerContext
    ) -> brain_pb2.Recommendation:
        """Answer, and store the answer with its evidence; a question that is repeated has the answer that it had."""
        begun = self._clock.monotonic()
        description = check.description(request.job)
        accepted = self._standing.answer(request)
        if accepted is not None:
            return accepted
        question = self._adviser.understood(request)
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        key = question.key + self._standing.mark(request.job.uid)
        identifier, said = repeats.said_before(self._engine, key, now)
        if said is not None:
            return translate.from_row(said, request)
        advice = self._adviser.answer(question)
        advice = replace(advice, answer=self._standing.heeding(advice.answer, request))
        row = translate.to_row(
            identifier,
            request,
            advice.answer,
            advice.observed,
            history_rows=advice.history_rows,
            model=advice.model,
            explanation=advice.explanation,
            now=now,
            seconds=self._clock.monotonic() - begun,
        )
        with writing(self._engine) as connection:
            job = jobs.ensure(connection, description, now)
            insert_new(connection, Recommendation, [{"job_id": job, **row}])
        answer = advice.answer
        log.info(
            "recommended",
            job=request.job.name,
            decision=answer.decision.value,
            reason=answer.reason,
            workers=answer.target_workers,
            message=answer.message,
        )
        return translate.to_message(identifier, request, answer)
