"""What the command line and the report read: rows of the store as typed objects, detached from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from statistics import median
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlalchemy.orm import Session

from convoy.brain.store.engine import reading
from convoy.brain.store.tables import (
    Base,
    HistoryObservation,
    Job,
    JobEvent,
    Recommendation,
    ScalePlan,
)
from convoy.core.api.errors import NotFound

_RESTARTS = 9
"""The latest, whose median is what a restart costs."""

Row = TypeVar("Row", bound=Base)


@contextmanager
def _session(engine: Engine) -> Iterator[Session]:
    with reading(engine) as connection, Session(bind=connection, expire_on_commit=False) as session:
        yield session


def _rows(engine: Engine, kind: type[Row], query: Any) -> list[Row]:
    with _session(engine) as session:
        return list(session.scalars(query))


def jobs(engine: Engine, *, limit: int = 1000) -> list[Job]:
    """Return the jobs that reported last, the latest first."""
    return _rows(engine, Job, sa.select(Job).order_by(Job.last_seen.desc(), Job.id.desc()).limit(limit))


ENDED = ("Succeeded", "Failed")
"""States of a job that isn't trained any more."""


def over(state: str, gone_at: datetime | None) -> str:
    """Return how a job ended, in words; "" of one that didn't."""
    if state in ENDED:
        return state
    return "" if gone_at is None else f"deleted {gone_at:%Y-%m-%d %H:%M} UTC"


def live_jobs(engine: Engine, since: datetime) -> list[Job]:
    """Return the jobs that run or wait, by name: not ended, not deleted, and heard of since a moment."""
    lives = sa.and_(Job.state.not_in(ENDED), Job.gone_at.is_(None), Job.last_seen >= since)
    return _rows(engine, Job, sa.select(Job).where(lives).order_by(Job.namespace, Job.name, Job.id))


def find_job(engine: Engine, name: str, *, namespace: str | None = None) -> Job:
    """Return the job of that uid or, of those with that name, the one first seen last.

    Raises:
        NotFound: the store knows no such job; the message names some that it knows.
    """
    query = sa.select(Job).where(sa.or_(Job.uid == name, Job.name == name))
    if namespace is not None:
        query = query.where(Job.namespace == namespace)
    found = _rows(engine, Job, query.order_by(Job.first_seen.desc(), Job.id.desc()).limit(1))
    if found:
        return found[0]
    known = ", ".join(sorted({job.name for job in jobs(engine, limit=20)})) or "none at all"
    where = f" in namespace {namespace!r}" if namespace is not None else ""
    imported = _rows(engine, HistoryObservation, sa.select(HistoryObservation).filter_by(job=name).limit(1))
    past = "; there is imported history of one of that name, from which other jobs are sized" if imported else ""
    raise NotFound(f"no job {name!r}{where} has reported to the Brain; of those that did it knows {known}{past}")


def recommendations(
    engine: Engine, job: Job, *, decisions: tuple[str, ...] = (), limit: int = 1000
) -> list[Recommendation]:
    """Return the latest recommendations, in the order in which they were made; of the given decisions, if any."""
    query = sa.select(Recommendation).where(Recommendation.job_id == job.id)
    if decisions:
        query = query.where(Recommendation.decision.in_(decisions))
    latest = query.order_by(Recommendation.made_at.desc(), Recommendation.id.desc()).limit(limit)
    return list(reversed(_rows(engine, Recommendation, latest)))


def plans(engine: Engine, job: Job) -> list[ScalePlan]:
    """Return the job's plans and their outcomes, the earliest first."""
    query = sa.select(ScalePlan).where(ScalePlan.job_id == job.id)
    return _rows(engine, ScalePlan, query.order_by(ScalePlan.created_at, ScalePlan.id))


def changes_since(engine: Engine, job_uid: str, since: datetime) -> int:
    """Return how many plans changed the size of the job after it had started, since a moment."""
    query = (
        sa.select(sa.func.count())
        .select_from(ScalePlan)
        .join(Job, Job.id == ScalePlan.job_id)
        .where(Job.uid == job_uid, ScalePlan.created_at >= since, ScalePlan.workers_before > 0)
        .where(ScalePlan.workers_before != ScalePlan.workers_after)
    )
    with reading(engine) as connection:
        return connection.execute(query).scalar_one()


def restart_seconds(engine: Engine, job_uid: str) -> float:
    """Return what a change of size cost this job, the median of those that were measured; 0: none was."""
    measured = (
        sa.select(ScalePlan.restart_seconds)
        .join(Job, Job.id == ScalePlan.job_id)
        .where(Job.uid == job_uid, ScalePlan.restart_seconds > 0)
        .order_by(ScalePlan.created_at.desc())
        .limit(_RESTARTS)
    )
    with reading(engine) as connection:
        found = [seconds for seconds in connection.execute(measured).scalars() if seconds is not None]
    return median(found) if found else 0.0


def events(
    engine: Engine, job: Job, *, limit: int = 10_000, reasons: tuple[str, ...] = (), without: tuple[str, ...] = ()
) -> list[JobEvent]:
    """Return what happened to the job in the order of time, at most the last ``limit``.

    ``reasons``: of these only, if any; ``without``: of any but these.
    """
    query = sa.select(JobEvent).where(JobEvent.job_id == job.id, JobEvent.reason.not_in(without))
    if reasons:
        query = query.where(JobEvent.reason.in_(reasons))
    latest = query.order_by(JobEvent.happened_at.desc(), JobEvent.id.desc()).limit(limit)
    return list(reversed(_rows(engine, JobEvent, latest)))
