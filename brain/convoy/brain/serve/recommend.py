"""``convoy brain recommend JOB``: what the Brain would say now, from the store alone; nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pandas as pd
from sqlalchemy.engine import Engine

from convoy.brain.features import frames
from convoy.brain.plan import Decision, JobRecommendation
from convoy.brain.serve import translate
from convoy.brain.serve.advise import Adviser
from convoy.brain.serve.explained import sentences
from convoy.brain.settings import BrainSettings
from convoy.brain.store import queries
from convoy.brain.store.engine import check, open_engine
from convoy.brain.store.migrate import require_schema
from convoy.brain.store.tables import Job
from convoy.core.api.v1 import brain_pb2
from convoy.core.process.clock import SystemClock

_WHOLE = ("workers", "ps", "worker_memory", "ps_memory")
OVER = "JobOver"
"""Reason of the answer about a job that has ended."""
UNMEASURED = "NothingMeasured"
"""Reason of the answer about a job that reported no speed and whose master never asked."""


@dataclass(frozen=True, slots=True)
class Recommended:
    """An answer, the job that it is about, and the limits that it was asked with."""

    job: Job
    answer: JobRecommendation
    asked: brain_pb2.OptimizeRequest
    why: tuple[str, ...] = ()
    """The speed of the size that is answered explained, a sentence each."""


def recommend(
    settings: BrainSettings,
    job: str,
    *,
    namespace: str | None = None,
    max_workers: int | None = None,
    horizon_seconds: float | None = None,
    max_ps: int | None = None,
    objective: str | None = None,
    deadline: float | None = None,
    remaining_samples: float | None = None,
) -> Recommended:
    """Recommend a size for a job in the store, given by name or uid.

    Where the job's master asked before, its last question is answered anew with what was measured since; given
    arguments take the place of the question's. Of a job that is over, or of which nothing is known, the decision is
    UNDEFINED, with the reason; the sizes that a measured one could have had are weighed all the same.

    Raises:
        InvalidSetting, Unusable: the database can't be used.
        NotFound: it knows no such job.
        InvalidInput: the given limits make no sense.
    """
    url = settings.database()
    check(url, must_exist=True)
    engine = open_engine(url, must_exist=True)
    try:
        require_schema(engine)
        found = queries.find_job(engine, job, namespace=namespace)
        asked, measured = question(engine, found)
        if max_workers is not None:
            asked.limits.max_workers = max_workers
        if max_ps is not None:
            asked.limits.max_ps = max_ps
        given = {
            "horizon_seconds": horizon_seconds,
            "objective": objective,
            "deadline": deadline,
            "remaining_samples": remaining_samples,
        }
        for name, value in given.items():
            if value is not None:
                setattr(asked, name, value)
        over = queries.over(found.state, found.gone_at)
        if not measured and (over or asked.stage == brain_pb2.OptimizeRequest.UNSPECIFIED):
            return Recommended(found, _nothing_to_say(over), asked)
        advice = Adviser(engine, SystemClock(), settings, exclude_job=found.uid).advise(asked)
        answer = advice.answer
        if over:
            message = f"the job is over ({over}): nothing is to change; what follows is what its measurements say"
            workers = asked.current.workers
            answer = replace(
                answer, decision=Decision.UNDEFINED, reason=OVER, message=message, target_workers=workers
            )
        return Recommended(found, answer, asked, sentences(advice.explanation))
    finally:
        engine.dispose()


def _nothing_to_say(over: str) -> JobRecommendation:
    unmeasured = "it reported no speed past its warm-up"
    if over:
        return JobRecommendation(Decision.UNDEFINED, OVER, f"the job is over ({over}), and {unmeasured}", 0)
    hint = "if it doesn't within a minute, its script reports none: use convoy.trainer (examples/digits.py)"
    return JobRecommendation(Decision.UNDEFINED, UNMEASURED, f"{unmeasured} yet; {hint}", 0)


def question(engine: Engine, job: Job) -> tuple[brain_pb2.OptimizeRequest, bool]:
    """Return what to ask, and whether the job was measured; the stage is unspecified where nothing can be asked."""
    before = queries.recommendations(engine, job, limit=1)
    asked = translate.from_stored(before[-1].request) if before else brain_pb2.OptimizeRequest()
    asked.job.uid = job.uid
    for name in ("template", "image", "user", "model", "strategy", "mode", "dataset", "cluster", "node_type"):
        setattr(asked.job, name, getattr(job, name))
    observed = frames.observed(engine, job.uid)
    if len(observed):
        last = observed.iloc[-1]
        asked.stage = brain_pb2.OptimizeRequest.RUNNING
        asked.current.MergeFrom(_measured(last))
    if len(observed) and not before:
        asked.limits.max_workers = int(observed["nodes"].where(observed["nodes"] >= 1, observed["workers"]).max())
        asked.limits.max_ps = int(observed["ps"].fillna(0).max())
    return asked, bool(len(observed))


def _measured(last: pd.Series) -> brain_pb2.Allotment:
    """Return what a job had at a measurement, each worker being a pod; what isn't known is left out."""
    nodes = last["nodes"] if last["nodes"] >= 1 else last["workers"]
    each = last["workers"] / nodes
    found = {
        "workers": nodes,
        "ps": last["ps"],
        "worker_cpu": last["worker_cpu"] * each,
        "worker_memory": last["worker_memory"] * each,
        "ps_cpu": last["ps_cpu"],
        "ps_memory": last["ps_memory"],
    }
    allotment = brain_pb2.Allotment()
    for name, value in found.items():
        if value > 0:
            setattr(allotment, name, int(value) if name in _WHOLE else float(value))
    return allotment
