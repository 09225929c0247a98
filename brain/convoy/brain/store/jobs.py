"""Rows of jobs: made by the first that tells of one, and found again."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from convoy.brain.store.tables import MEASURED, Job, JobFeature
from convoy.brain.store.write import insert_new, insert_or_update


def job_id(connection: Connection, uid: str) -> int | None:
    """Return the number of the job with this uid, None where there is none."""
    return connection.execute(sa.select(Job.id).where(Job.uid == uid)).scalar_one_or_none()


def ensure(connection: Connection, description: dict[str, Any], now: datetime, *, follow: bool = True) -> int:
    """Return the number of the described job; make its row where there is none.

    Of a job that is known, only its state and the time of its last sign change, and only if ``follow`` (what is told
    isn't older than what is stored).
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
        connection.execute(sa.update(Job).where(Job.id == found).values(changes))
    return found


def set_features(connection: Connection, job: int, rows: list[dict[str, Any]]) -> None:
    """Set features of a job."""
    numbered = [{"job_id": job, **row} for row in rows]
    insert_or_update(connection, JobFeature, numbered, key=("job_id", "name"), update=("value",))
