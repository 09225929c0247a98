"""Whether a job that a frame is asked of is known; else its frame would be empty, as if nothing had been measured."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from convoy.brain.store.engine import reading
from convoy.brain.store.tables import Job
from convoy.core.api.errors import NotFound

_SHOWN = 5


def require_job(engine: Engine, uid: str) -> None:
    """Return if the store knows a job of that uid.

    Raises:
        NotFound: it knows none; the message has the uids of jobs of that name, if there are such.
        Unavailable: the database can't be reached now.
    """
    with reading(engine) as connection:
        if connection.execute(sa.select(Job.id).where(Job.uid == uid)).first() is not None:
            return
        latest = (
            sa.select(Job.uid).where(Job.name == uid).order_by(Job.first_seen.desc(), Job.id.desc()).limit(_SHOWN)
        )
        named = connection.execute(latest).scalars().all()
    if named:
        where = f"that is a job's name; jobs of that name have the uids {', '.join(named)}, the latest first"
    else:
        where = "uids stand beside names in the table `job` (SELECT uid, name FROM job)"
    raise NotFound(f"job_uid is {uid!r}: the Brain knows no job of that uid; {where}", reason="UnknownJob")
