"""Plans: what was predicted of each change, and what came of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from convoy.brain.features import plan_load
from convoy.brain.features.columns import Column
from convoy.brain.features.hours import Span
from convoy.brain.features.jobs import require_job
from convoy.brain.features.layout import Layout, read_all
from convoy.brain.store.engine import snapshot
from convoy.brain.store.tables import Job, Recommendation, ScalePlan

PLAN_OUTCOMES = Layout(
    "plan_outcomes",
    "One ScalePlan of a job.",
    (
        Column("job", "label", "its uid"),
        Column("plan", "label", "the ScalePlan's name"),
        Column("template", "label", "what runs: jobs of one template run the same program"),
        Column("user", "label", "whose job it is"),
        Column("cluster", "label", "where it runs"),
        Column("recommendation", "label", "that it follows; none: it isn't the Brain's"),
        Column("reason", "label", "stable CamelCase"),
        Column("created_at", "time", "when it was made"),
        Column("carried_out_at", "time", "the first step at the new size"),
        Column("workers_before", "count", "processes; 0: it started the job"),
        Column("workers_after", "count", "processes"),
        Column("predicted", "number", "speed at the new size, all workers together (samples/s)"),
        Column("predicted_lower", "number", "of it, 5 % quantile (samples/s)"),
        Column("predicted_upper", "number", "of it, 95 % quantile (samples/s)"),
        Column("realized", "number", "speed that was measured, past warm-up (samples/s)"),
        Column("realized_seconds", "number", "how long was measured (s)"),
        Column("error", "number", "realized over predicted, less 1: 0.1 is 10 % faster than predicted"),
        Column("within", "flag", "realized lies between predicted_lower and predicted_upper"),
        Column("restart_seconds", "number", "what it cost: last step before to first step after (s)"),
        Column("rolled_back", "flag", "it made things worse and was taken back"),
        Column("model", "label", "SHA-256 of the file of the model that predicted; none: it was no registered one"),
        Column("price_per_hour", "number", "that was predicted, in the Brain's currency"),
        Column("worker_cpu_upper", "number", "use of a worker's pod that was predicted, 95 % quantile (cores)"),
        Column("worker_memory_upper", "number", "use of a worker's pod that was predicted, 95 % quantile (bytes)"),
        Column("worker_cpu", "number", "allotted to a worker's pod (cores)"),
        Column("worker_memory", "number", "allotted to a worker's pod (bytes)"),
        Column("worker_cpu_used", "number", "used by a worker's pod at the new size, mean past warm-up (cores)"),
        Column("worker_memory_used", "number", "used by a worker's pod at the new size, mean past warm-up (bytes)"),
    ),
)


def plan_outcomes(
    engine: Engine, job_uid: str | None = None, *, since: datetime | None = None, until: datetime | None = None
) -> pd.DataFrame:
    """Return plans and their outcomes (``PLAN_OUTCOMES``), the earliest first.

    Args:
        engine: of the store.
        job_uid: of one job; None: of all.
        since, until: plans made in [since, until); None: from the beginning, to the end.

    Raises:
        InvalidInput: a moment that is no datetime, or has no time zone.
        NotFound: no job of that uid is known.
        Unavailable: the database can't be reached now.
    """
    plan, said = ScalePlan, Recommendation
    names = [
        *("reason", "created_at", "carried_out_at", "workers_before", "workers_after", "restart_seconds"),
        *("predicted", "predicted_lower", "predicted_upper", "realized", "realized_seconds", "rolled_back"),
    ]
    query = (
        sa.select(
            Job.uid.label("job"),
            plan.name.label("plan"),
            *(Job.template, Job.user, Job.cluster),
            plan.recommendation_id.label("recommendation"),
            *(getattr(plan, name) for name in names),
            *(plan.job_id, said.price_per_hour),
            said.evidence[("model", "digest")].label("model"),
            said.evidence["roles"].label("roles"),
        )
        .join(Job, Job.id == plan.job_id)
        .outerjoin(said, said.id == plan.recommendation_id)
        .where(*Span(since, until).holds(plan.created_at))
        .order_by(plan.created_at, plan.id)
    )
    if job_uid is not None:
        require_job(engine, job_uid)
        query = query.where(Job.uid == job_uid)
    jobs = sa.select(plan.job_id).where(plan.carried_out_at.is_not(None))
    if job_uid is not None:
        jobs = jobs.where(plan.job_id.in_(sa.select(Job.id).where(Job.uid == job_uid)))
    with snapshot(engine, *plan_load.TABLES) as connection:
        found = read_all(connection, query)
        loads = plan_load.by_plan(connection, jobs, found)
    frame = PLAN_OUTCOMES.typed(found.assign(**_predicted_use(found["roles"]), **loads))
    realized, lower, upper = frame["realized"], frame["predicted_lower"], frame["predicted_upper"]
    within = ((realized >= lower) & (realized <= upper)).astype("boolean")
    return frame.assign(
        error=realized / frame["predicted"] - 1.0,
        within=within.mask(realized.isna() | lower.isna() | upper.isna()),
    )


def _predicted_use(roles: pd.Series[Any]) -> dict[str, list[float]]:
    """Return the use of a worker's pod that recommendations predicted; NaN where they didn't."""
    workers: list[dict[str, Any]] = [
        next((one for one in given or () if one.get("role") == "worker"), {}) for given in roles
    ]
    return {
        f"worker_{name}_upper": [one.get(f"{name}_used") or float("nan") for one in workers]
        for name in ("cpu", "memory")
    }
