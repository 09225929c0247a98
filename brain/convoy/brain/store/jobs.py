"""Rows of jobs: made by the first that tells of one, and found again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from convoy.brain.store.tables import MEASURED, Job, JobFeature, JobNode
from convoy.brain.store.write import Row, insert_new, insert_or_update

LATER = (
    *("mode", "optimize_mode", "dataset", "model", "node_type", "cluster"),
    *("model_parameters", "dataset_samples", "batch_size", "learning_rate"),
)
"""What may become known after the first report."""
PRIORITY = "priority"
"""Name of the feature that is the priority of a job's pods, as Kubernetes resolved its class."""


def job_id(connection: Connection, uid: str) -> int | None:
    """Return the number of the job with this uid, None where there is none."""
    return connection.execute(sa.select(Job.id).where(Job.uid == uid)).scalar_one_or_none()


def ensure(connection: Connection, description: dict[str, Any], now: datetime, *, follow: bool = True) -> int:
    """Return the number of the described job; make its row where there is none.

    Of a job that is known, only its state, the time of its last sign and what wasn't known yet change, and only if
    ``follow`` (what is told isn't older than what is stored).
    """
    uid = description["uid"]
    found = job_id(connection, uid)
    if found is None:
        row = {**description, "origin": MEASURED, "first_seen": now, "last_seen": now}
        insert_new(connection, Job, [row])
        found = connection.execute(sa.select(Job.id).where(Job.uid == uid)).scalar_one()
    elif follow:
        changes: dict[str, Any] = {"last_seen": now}
        if description["state"]:
            changes["state"] = description["state"]
        changes |= {name: _unless_known(name, description[name]) for name in LATER if description.get(name)}
        connection.execute(sa.update(Job).where(Job.id == found).values(changes))
    return found


def set_features(connection: Connection, job: int, rows: list[dict[str, Any]]) -> None:
    """Set features of a job."""
    numbered = [{"job_id": job, **row} for row in rows]
    insert_or_update(connection, JobFeature, numbered, key=("job_id", "name"), update=("value",))


def set_priorities(connection: Connection, by_job: Mapping[int, int]) -> None:
    """Set the priority of jobs, by their numbers."""
    rows = [{"job_id": job, "name": PRIORITY, "value": float(one)} for job, one in sorted(by_job.items())]
    insert_or_update(connection, JobFeature, rows, key=("job_id", "name"), update=("value",))


def ensure_nodes(connection: Connection, job: int, loads: list[Row]) -> None:
    """Make rows of the job's pods that rows of its load name, where there are none."""
    told = {
        load["node"]: {
            "job_id": job,
            "name": load["node"],
            "role": load["role"],
            "rank": load["rank"],
            "cpu_allotted": load["cpu_allotted"],
            "memory_allotted": load["memory_allotted"],
        }
        for load in loads
    }
    insert_new(connection, JobNode, [told[name] for name in sorted(told)])


def _unless_known(name: str, value: Any) -> Any:
    column: Any = getattr(Job, name)
    unknown = column.is_(None) if column.expression.nullable else column == ""
    return sa.case((unknown, value), else_=column)
