"""Stage ``apply``: in mode ``apply``, what the plan says of jobs that leave their size to the Brain is accepted and
carried out; in mode ``advise``, and of other jobs, it waits for a person.

A recommendation is accepted before its ScalePlan is written, and the plan's name follows from it: a stage that was
broken off goes on where it was, and writes no second plan.
"""

from __future__ import annotations

from convoy.brain.batch.delivery import PINNED, deliver, is_pinned
from convoy.brain.batch.work import Document, Mode, Result, Work, told
from convoy.brain.store import advice as decisions
from convoy.brain.store.advice import Advice, Status
from convoy.core.api import names
from convoy.core.api.errors import ConvoyError, Unavailable
from convoy.core.process.crashpoint import crash_point

BY_BATCH = "convoy brain batch"
"""Who accepted what no person decided about."""


def apply(work: Work) -> Result:
    """Carry out what is to be carried out. A cluster's refusal of one doesn't stop the others.

    Raises:
        Unavailable: the database can't be reached.
    """
    around = work.around
    proposed = [one for one in decisions.of_run(around.engine, work.run.id) if one.status is not None]
    if around.mode is Mode.ADVISE:
        return Result({"mode": Mode.ADVISE.value, "waiting": len(proposed), "plans": []})
    outcomes: list[Document] = []
    for advice in proposed:
        work.check()
        around.progress("apply", f"{advice.namespace}/{advice.job}")
        outcomes.append({"id": advice.id, "job": advice.job, "namespace": advice.namespace, **_applied(work, advice)})
    written = sum(1 for outcome in outcomes if outcome["plan"])
    waiting = sum(1 for outcome in outcomes if outcome["outcome"] in _WAITS)
    return Result(
        {"mode": Mode.APPLY.value, "waiting": waiting, "plans": outcomes},
        counts={"plans": written},
    )


_NOT_LEFT = "SizeNotLeftToUs"
_WAITS = (_NOT_LEFT, PINNED)


def _applied(work: Work, advice: Advice) -> Document:
    """Accept one and carry it out; return what came of it."""
    around = work.around
    if advice.optimize_mode != "cluster":
        mode = advice.optimize_mode or "manual"
        return _outcome(_NOT_LEFT, f"the job's optimizeMode is {mode}: a person has to accept it")
    try:
        if advice.status is Status.PROPOSED:
            if is_pinned(around.cluster, advice):
                return _outcome(PINNED, f"the job is pinned ({names.ANNOTATION_PIN}): a person has to accept it")
            why = f"run of {work.run.window_from:%Y-%m-%d %H:%M} to {work.run.window_until:%Y-%m-%d %H:%M} UTC"
            advice = decisions.decide(around.engine, advice.id, Status.ACCEPTED, by=BY_BATCH, why=why, now=work.now)
            crash_point("batch.apply.after-accept")
        if advice.status is not Status.ACCEPTED or advice.row["decided_by"] != BY_BATCH:
            assert advice.status is not None
            return _outcome("Decided", f"{advice.row['decided_by'] or 'a later one'}: {advice.status.value}")
        done = deliver(around.engine, around.cluster, advice, manager=names.MANAGER_BRAIN)
    except Unavailable:
        raise
    except ConvoyError as error:
        if error.reason == decisions.JOB_OVER:
            return _outcome(decisions.JOB_OVER, str(error))
        return {**_outcome("Failed", str(error)), "error": told(error)}
    return {**_outcome(done.reason, done.message), "plan": done.plan}


def _outcome(outcome: str, message: str) -> Document:
    return {"outcome": outcome, "message": message, "plan": ""}
