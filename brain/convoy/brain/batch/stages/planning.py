"""Stage ``plan``: what each live job should become, and the recommendations that say so.

All are written in the transaction that marks the stage as finished: there are those of one plan, or none. Each has an
identifier that follows from the run and the job.
"""

from __future__ import annotations

import math
import uuid
from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from sqlalchemy.engine import Connection

from convoy.brain.batch.joint import Joint, agreed, planned_jointly
from convoy.brain.batch.work import Document, Result, Work, told, trace
from convoy.brain.plan import JobRecommendation
from convoy.brain.plan.decided import heeded
from convoy.brain.serve import translate
from convoy.brain.serve.advise import FAILED, Advice, Adviser
from convoy.brain.serve.knowledge import SILENT_SECONDS
from convoy.brain.serve.recommend import question
from convoy.brain.store import advice as decisions
from convoy.brain.store import queries
from convoy.brain.store.advice import Status
from convoy.brain.store.engine import reading
from convoy.brain.store.runs import Run
from convoy.brain.store.tables import Job
from convoy.core.api.errors import Unavailable
from convoy.core.api.v1 import brain_pb2
from convoy.core.process import logs
from convoy.core.process.clock import Clock

log = logs.get("brain.batch")

_NAMES = uuid.UUID("6f4f0a42-5a0e-4d77-9a55-3d1f6f6b2a5e")
"""Of identifiers that follow from a run and a job."""
NOTHING = Joint({"decided": False, "message": "there is nothing to plan for"}, {})
_SHOWN = 200
"""Jobs that the run's row says more of than their count, of each kind."""


@dataclass(frozen=True)
class Planned:
    """A job, what was asked about it, and the answer."""

    job: Job
    asked: brain_pb2.OptimizeRequest
    advice: Advice
    seconds: float

    @property
    def answer(self) -> JobRecommendation:
        """Return the answer."""
        return self.advice.answer

    @property
    def before(self) -> int:
        """Return how many workers the job has."""
        return self.asked.current.workers

    @property
    def is_change(self) -> bool:
        """Return whether anything is to change."""
        return self.answer.moves and self.answer.target_workers > 0

    def answering(self, answer: JobRecommendation) -> Planned:
        """Return it with another answer."""
        return replace(self, advice=replace(self.advice, answer=answer))


def plan(work: Work) -> Result:
    """Plan for all jobs that live. The failure of a model at one job doesn't stop the others.

    Raises:
        Unavailable: the database can't be reached.
    """
    around = work.around
    jobs = queries.live_jobs(around.engine, work.now - timedelta(seconds=SILENT_SECONDS))
    adviser = Adviser(around.engine, work.clock, around.settings)
    planned: list[Planned] = []
    errors: list[Document] = []
    unmeasured = 0
    for position, job in enumerate(jobs, 1):
        work.check()
        around.progress("plan", f"job {position:,} of {len(jobs):,}: {job.namespace}/{job.name}")
        try:
            found = _planned(work, adviser, job)
        except Unavailable:
            raise
        except Exception as error:
            log.error("a job couldn't be planned for", job=job.uid, why=told(error), exc_info=trace(error))
            errors.append({**_named(job), "error": told(error)})
            continue
        if found is None:
            unmeasured += 1
            continue
        if found.answer.reason == FAILED:
            errors.append({**_named(job), "error": f"[{FAILED}] {found.answer.message}"})
        planned.append(found)
    around.progress("plan", "all jobs together")
    together = planned_jointly(work, adviser) if planned else NOTHING
    planned = _heeding_refusals(work, [_agreeing(one, together) for one in planned])
    written = [_row(work.run, work.clock, one) for one in planned]
    return Result(
        _document(work.run, len(jobs), planned, unmeasured, errors, together),
        write=lambda connection: _write(connection, written),
        counts={"jobs": len(jobs), "recommendations": len(written)},
    )


def identifier(run: Run, job: Job) -> str:
    """Return the identifier of a run's recommendation for a job."""
    window = f"{run.window_from.isoformat()}/{run.window_until.isoformat()}"
    return str(uuid.uuid5(_NAMES, f"{window}/{run.mode}/{job.uid}"))


def _planned(work: Work, adviser: Adviser, job: Job) -> Planned | None:
    """Return the plan of one job; None where nothing is known of it that could be asked."""
    begun = work.clock.monotonic()
    asked, measured = question(work.around.engine, job)
    if not measured and asked.stage == brain_pb2.OptimizeRequest.UNSPECIFIED:
        return None
    advice = adviser.advise(asked)
    return Planned(job, asked, advice, work.clock.monotonic() - begun)


def _agreeing(one: Planned, together: Joint) -> Planned:
    part = together.parts.get(one.job.uid)
    return one if part is None else one.answering(agreed(one.answer, part, one.before, one.asked.current.ps))


def _heeding_refusals(work: Work, planned: list[Planned]) -> list[Planned]:
    since = work.now - timedelta(seconds=work.around.settings.refused_remembered_seconds)
    with reading(work.around.engine) as connection:
        refused = decisions.refusals(connection, [one.job.uid for one in planned if one.is_change], since)
    return [
        one.answering(heeded(one.answer, one.before, one.asked.current.ps, refused.get(one.job.uid, ())))
        for one in planned
    ]


def _row(run: Run, clock: Clock, one: Planned) -> dict[str, Any]:
    row = translate.to_row(
        identifier(run, one.job),
        one.asked,
        one.answer,
        one.advice.observed,
        history_rows=one.advice.history_rows,
        model=one.advice.model,
        explanation=one.advice.explanation,
        now=run.began_at,
        seconds=one.seconds,
    )
    decision = {"status": Status.PROPOSED.value if one.is_change else "", "decided_by": "", "plan": ""}
    return {"job_id": one.job.id, "run_id": run.id, **decision, **row}


def _write(connection: Connection, written: list[dict[str, Any]]) -> None:
    decisions.propose(connection, written)


def _document(
    run: Run, jobs: int, planned: list[Planned], unmeasured: int, errors: list[Document], together: Joint
) -> Document:
    changes = [_change(run, one) for one in planned if one.is_change]
    kept = [one for one in planned if not one.is_change]
    return {
        "jobs": jobs,
        "unmeasured": unmeasured,
        "decisions": dict(Counter(one.answer.decision.value for one in planned)),
        "kept": dict(sorted(Counter(one.answer.reason for one in kept).items())),
        "kept_jobs": [_kept(one, together) for one in kept[:_SHOWN]],
        "kept_left_out": max(0, len(kept) - _SHOWN),
        "changes": changes[:_SHOWN],
        "changes_left_out": max(0, len(changes) - _SHOWN),
        "errors": errors[:_SHOWN],
        "errors_left_out": max(0, len(errors) - _SHOWN),
        "model": planned[0].advice.model if planned else {},
        "together": together.document,
    }


def _kept(one: Planned, together: Joint) -> Document:
    part = together.parts.get(one.job.uid)
    return {
        **_named(one.job),
        "decision": one.answer.decision.value,
        "reason": one.answer.reason,
        "message": one.answer.message,
        "workers": one.before,
        "valued_by": "" if part is None else str(part.currency),
    }


def _change(run: Run, one: Planned) -> Document:
    answer = one.answer
    return {
        **_named(one.job),
        "id": identifier(run, one.job),
        "decision": answer.decision.value,
        "reason": answer.reason,
        "message": answer.message,
        "workers_before": one.before,
        "workers": answer.target_workers,
        **{name: _known(getattr(answer, name)) for name in ("predicted", "lower90", "upper90")},
        "price_per_hour": _known(answer.price_per_hour),
        "currency": answer.currency,
    }


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _named(job: Job) -> Document:
    return {"job": job.name, "namespace": job.namespace, "uid": job.uid}
