"""What people, or the batch, decided about a job, heeded in the answers to its master.

An accepted recommendation stands for a while: a master whose job isn't that large yet is answered with it, and one
whose job is, isn't told to leave that size again. It stands no longer when it was rolled back, or when the job's
limits no longer allow it. A size that was refused isn't recommended.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from convoy.brain.plan import Decision, JobRecommendation
from convoy.brain.plan.decided import heeded, resized
from convoy.brain.plan.hold import URGENT
from convoy.brain.serve import translate
from convoy.brain.settings import BrainSettings
from convoy.brain.store import advice as decisions
from convoy.brain.store.advice import Advice
from convoy.brain.store.engine import reading
from convoy.brain.store.tables import Job, Recommendation
from convoy.core.api.v1 import brain_pb2
from convoy.core.process import logs
from convoy.core.process.clock import Clock

log = logs.get("brain")

STANDS = "AcceptedStands"
"""Reason of keeping the size that was accepted."""


class Standing:
    """Reads what was decided. Safe to use from several threads."""

    def __init__(self, engine: Engine, clock: Clock, settings: BrainSettings) -> None:
        self._engine = engine
        self._clock = clock
        self._stands = timedelta(seconds=settings.accepted_stands_seconds)
        self._remembered = timedelta(seconds=settings.refused_remembered_seconds)

    def answer(self, asked: brain_pb2.OptimizeRequest) -> brain_pb2.Recommendation | None:
        """Return what was accepted for the job and isn't carried out yet; None where there is nothing.

        Raises:
            Unavailable: the database can't be reached now.
        """
        found = self._accepted(asked.job.uid)
        if found is None or found.row["plan"] or _is_there(found, asked) or not _is_allowed(found, asked):
            return None
        log.info("answered with what was accepted", job=asked.job.name, recommendation=found.id)
        return _message(found, asked)

    def mark(self, uid: str) -> str:
        """Return what changes whenever somebody decides about a job; "" while nobody did.

        Raises:
            Unavailable: the database can't be reached now.
        """
        last = sa.select(sa.func.max(Recommendation.decided_at)).join(Job, Job.id == Recommendation.job_id)
        with reading(self._engine) as connection:
            found = connection.execute(last.where(Job.uid == uid)).scalar_one()
        return "" if found is None else str(found.isoformat())

    def heeding(self, answer: JobRecommendation, asked: brain_pb2.OptimizeRequest) -> JobRecommendation:
        """Return the answer, or that the job keeps its size where that was accepted, or another one refused.

        Raises:
            Unavailable: the database can't be reached now.
        """
        if not answer.moves or answer.reason in URGENT:
            return answer
        accepted = self._accepted(asked.job.uid)
        if accepted is not None and _is_there(accepted, asked) and answer.target_workers != asked.current.workers:
            return _kept(answer, accepted, asked, self._stands)
        with reading(self._engine) as connection:
            since = self._now() - self._remembered
            refused = decisions.refusals(connection, [asked.job.uid], since).get(asked.job.uid, [])
        return heeded(answer, asked.current.workers, asked.current.ps, refused)

    def _accepted(self, uid: str) -> Advice | None:
        with reading(self._engine) as connection:
            return decisions.standing(connection, uid, self._now() - self._stands)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now(), UTC)


def _is_there(accepted: Advice, asked: brain_pb2.OptimizeRequest) -> bool:
    row = accepted.row
    return (row["workers"], row["ps"] or 0) == (asked.current.workers, asked.current.ps)


def _is_allowed(accepted: Advice, asked: brain_pb2.OptimizeRequest) -> bool:
    limits, workers = asked.limits, accepted.row["workers"] or 0
    allowed = not limits.allowed_workers or workers in limits.allowed_workers
    return allowed and max(1, limits.min_workers) <= workers <= limits.max_workers


def _kept(
    answer: JobRecommendation, accepted: Advice, asked: brain_pb2.OptimizeRequest, stands: timedelta
) -> JobRecommendation:
    row, workers = accepted.row, asked.current.workers
    until = row["decided_at"] + stands
    message = (
        f"{row['decided_by']} accepted {workers} workers, which stands until {until:%Y-%m-%d %H:%M} UTC; else it "
        f"would get {answer.target_workers} [{answer.reason}]"
    )
    return resized(answer, Decision.KEEP, STANDS, message, workers, asked.current.ps)


def _message(accepted: Advice, asked: brain_pb2.OptimizeRequest) -> brain_pb2.Recommendation:
    """Return a stored recommendation for the wire, under its own identifier: its outcome is put to it."""
    row = accepted.row
    message = translate.from_row(Recommendation(**row), asked)
    message.message += f" (accepted by {row['decided_by']} on {row['decided_at']:%Y-%m-%d %H:%M} UTC)"
    return message
