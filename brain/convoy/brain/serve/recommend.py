"""``convoy brain recommend JOB``: what the Brain would say now, from the store alone; nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.engine import Engine

from convoy.brain.features import frames
from convoy.brain.plan import JobRecommendation
from convoy.brain.serve import translate
from convoy.brain.serve.advise import Adviser
from convoy.brain.settings import BrainSettings
from convoy.brain.store import queries
from convoy.brain.store.engine import check, open_engine
from convoy.brain.store.migrate import require_schema
from convoy.brain.store.tables import Job
from convoy.core.api.errors import InvalidInput
from convoy.core.api.v1 import brain_pb2
from convoy.core.process.clock import SystemClock


@dataclass(frozen=True, slots=True)
class Recommended:
    """An answer, the job that it is about, and the limits that it was asked with."""

    job: Job
    answer: JobRecommendation
    asked: brain_pb2.OptimizeRequest


def recommend(
    settings: BrainSettings,
    job: str,
    *,
    namespace: str | None = None,
    max_workers: int | None = None,
    horizon_seconds: float | None = None,
) -> Recommended:
    """Recommend a size for a job in the store, given by name or uid.

    Where the job's master asked before, its last question is answered anew with what was measured since; given
    arguments take the place of the question's.

    Raises:
        InvalidSetting, Unusable: the database can't be used.
        NotFound: it knows no such job.
        InvalidInput: the job was never measured and its master never asked.
    """
    url = settings.database()
    check(url, must_exist=True)
    engine = open_engine(url, must_exist=True)
    try:
        require_schema(engine)
        found = queries.find_job(engine, job, namespace=namespace)
        asked = _question(engine, found)
        if max_workers is not None:
            asked.limits.max_workers = max_workers
        if horizon_seconds is not None:
            asked.horizon_seconds = horizon_seconds
        advice = Adviser(engine, SystemClock(), settings, exclude_job=found.uid).advise(asked)
        return Recommended(found, advice.answer, asked)
    finally:
        engine.dispose()


def _question(engine: Engine, job: Job) -> brain_pb2.OptimizeRequest:
    before = queries.recommendations(engine, job, limit=1)
    asked = translate.from_stored(before[-1].request) if before else brain_pb2.OptimizeRequest()
    asked.job.uid = job.uid
    for name in ("template", "model", "strategy", "cluster", "node_type"):
        setattr(asked.job, name, getattr(job, name))
    observed = frames.observed(engine, job.uid)
    if len(observed):
        last = observed.iloc[-1]
        asked.stage = brain_pb2.OptimizeRequest.RUNNING
        asked.current.workers = int(last["nodes"] if last["nodes"] >= 1 else last["workers"])
    elif not before:
        raise InvalidInput(
            f"job {job.name!r}: nothing was measured past its warm-up yet, and its master never asked; let it train "
            "for some seconds more",
            reason="NothingMeasured",
        )
    if not before:
        asked.limits.max_workers = max(asked.current.workers, int(observed["nodes"].max()))
    return asked
