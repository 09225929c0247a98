"""What pods used, and were allotted, while a plan was in force: from its first step to the next plan's."""

from __future__ import annotations

from typing import Any

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from convoy.brain.features import steady_load
from convoy.brain.features.layout import read_all
from convoy.brain.store.tables import JobAttempt

TABLES: tuple[type[Any], ...] = (*steady_load.TABLES, JobAttempt)
MEASURES = ("worker_cpu", "worker_memory", "worker_cpu_used", "worker_memory_used")


def by_plan(connection: Connection, jobs: sa.Select[Any], plans: pd.DataFrame) -> pd.DataFrame:
    """Return ``MEASURES`` of a worker's pod, by the index of ``plans``; mean over the rounds past warm-up.

    A round is of the last plan that was carried out before its last steady window, if it has that plan's size.

    Args:
        connection: on a snapshot of ``TABLES``.
        jobs: a query of jobs' numbers.
        plans: ``job_id``, ``carried_out_at`` (NaT: not yet) and ``workers_after`` (pods).
    """
    nothing = pd.DataFrame(index=plans.index, columns=list(MEASURES), dtype="float64")
    done = plans[plans["carried_out_at"].notna()]
    if done.empty:
        return nothing
    rounds = _rounds(connection, jobs)
    if rounds.empty:
        return nothing
    began = done.assign(plan=done.index, at=pd.to_datetime(done["carried_out_at"], utc=True)).sort_values("at")
    found = pd.merge_asof(
        rounds.sort_values("at"), began[["job_id", "at", "plan", "workers_after"]], on="at", by="job_id"
    )
    same = found[found["plan"].notna() & (found["nodes"] == found["workers_after"])]
    means = same.groupby("plan")[list(MEASURES)].mean()
    return means.reindex(plans.index).astype("float64")


def _rounds(connection: Connection, jobs: sa.Select[Any]) -> pd.DataFrame:
    """Return a row a round with its load, its pods and when it ended (``at``)."""
    query = sa.select(
        JobAttempt.job_id,
        JobAttempt.round,
        sa.func.coalesce(JobAttempt.nodes, JobAttempt.workers).label("nodes"),
        JobAttempt.steady_until.label("at"),
    ).where(JobAttempt.job_id.in_(jobs), JobAttempt.steady_until.is_not(None))
    attempts = read_all(connection, query)
    if attempts.empty:
        return attempts
    loads = steady_load.by_round(connection, jobs)
    found = attempts.merge(loads, on=list(steady_load.ROUND))
    return found.assign(at=pd.to_datetime(found["at"], utc=True)).reindex(columns=[*attempts.columns, *MEASURES])
