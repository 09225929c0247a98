"""Advice that somebody decides about: recommendations of the batch, proposed, then accepted or refused.

An accepted one stands: its job's master is answered with it (``convoy.brain.serve.standing``). A refused one is
remembered: its size isn't proposed to the job again for a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from convoy.brain.plan.decided import Refusal
from convoy.brain.store.engine import reading
from convoy.brain.store.queries import ENDED, over
from convoy.brain.store.tables import Job, Recommendation, ScalePlan
from convoy.brain.store.turns import in_turns
from convoy.brain.store.write import Row, insert_new
from convoy.core.api.errors import NotFound, Unusable

JOB_OVER = "JobOver"
_SOME = 500
"""Jobs in one statement."""


class Status(StrEnum):
    """What was decided about a recommendation; "" in the row: nobody decides about it."""

    PROPOSED = "proposed"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    SUPERSEDED = "superseded"
    """A later one for the job took its place before anybody decided."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A recommendation of the batch and the job that it is for.

    Attributes:
        row: has the columns of ``recommendation``.
        over: how the job ended, "" of one that didn't: nothing is left to decide.
    """

    row: Row
    job: str
    namespace: str
    uid: str
    optimize_mode: str
    over: str

    @property
    def id(self) -> str:
        """Return its identifier."""
        return str(self.row["id"])

    @property
    def status(self) -> Status | None:
        """Return what was decided; None: nobody decides about it."""
        return Status(self.row["status"]) if self.row["status"] else None


def propose(connection: Connection, rows: Sequence[Row]) -> None:
    """Write recommendations; those that are there already stay as they are.

    What was proposed to the same jobs before, and not decided about, is superseded.
    """
    insert_new(connection, Recommendation, rows)
    new = {row["id"] for row in rows}
    for jobs in _some([row["job_id"] for row in rows]):
        query = sa.select(Recommendation.id).where(
            Recommendation.job_id.in_(jobs), Recommendation.status == Status.PROPOSED.value
        )
        older = [one for one in connection.execute(query).scalars() if one not in new]
        for some in _some(older):
            superseded = sa.update(Recommendation).where(Recommendation.id.in_(some))
            connection.execute(superseded.values(status=Status.SUPERSEDED.value))


def find(engine: Engine, identifier: str) -> Advice:
    """Return the recommendation of that identifier, or of one that begins so.

    Raises:
        NotFound: there is none, or several begin so.
    """
    if not identifier:
        raise NotFound("an empty identifier names no recommendation", reason="NoSuchRecommendation")
    query = _advice().where(Recommendation.id.startswith(identifier, autoescape=True)).limit(2)
    with reading(engine) as connection:
        found = [_read(row) for row in connection.execute(query).mappings()]
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound(
            f"no recommendation {identifier!r}; `convoy brain advice` lists what there is to decide about",
            reason="NoSuchRecommendation",
        )
    raise NotFound(f"several recommendations begin with {identifier!r}; give more of it", reason="SeveralBeginSo")


def listed(engine: Engine, statuses: Iterable[Status], *, limit: int = 1000) -> list[Advice]:
    """Return recommendations of those statuses, the latest first; of proposed ones those of jobs that aren't over."""
    wanted = [status.value for status in statuses]
    lives = sa.and_(Job.state.not_in(ENDED), Job.gone_at.is_(None))
    pending = sa.or_(Recommendation.status != Status.PROPOSED.value, lives)
    query = _advice().where(Recommendation.status.in_(wanted), pending)
    with reading(engine) as connection:
        rows = connection.execute(query.order_by(Recommendation.made_at.desc(), Recommendation.id).limit(limit))
        return [_read(row) for row in rows.mappings()]


def of_run(engine: Engine, run: int) -> list[Advice]:
    """Return the recommendations of a run, by job."""
    query = _advice().where(Recommendation.run_id == run).order_by(Recommendation.job_id)
    with reading(engine) as connection:
        return [_read(row) for row in connection.execute(query).mappings()]


def decide(engine: Engine, identifier: str, status: Status, *, by: str, why: str, now: datetime) -> Advice:
    """Accept or refuse a recommendation; decided the same way already, nothing is changed.

    Where one is accepted, others that were accepted for its job stand no longer.

    Args:
        engine: of the store.
        identifier: of the recommendation, whole.
        status: ACCEPTED or REFUSED.
        by: who decides.
        why: kept with it.
        now: the moment (UTC).

    Raises:
        Unusable: it isn't proposed (any more), or would be accepted for a job that is over; nothing was changed.
        NotFound: it is gone.
        Unavailable: the database can't be reached.
    """
    return in_turns(engine, lambda connection: _decide(connection, identifier, status, by, why, now))


def set_plan(engine: Engine, identifier: str, plan: str) -> None:
    """Write down the ScalePlan that was written for a recommendation."""
    this = sa.update(Recommendation).where(Recommendation.id == identifier)
    in_turns(engine, lambda connection: connection.execute(this.values(plan=plan)))


def standing(connection: Connection, job_uid: str, since: datetime) -> Advice | None:
    """Return what was accepted for a job last, since a moment; None where nothing was, or it was rolled back."""
    query = _advice().where(Job.uid == job_uid, Recommendation.status == Status.ACCEPTED.value)
    recent = query.where(Recommendation.decided_at >= since).order_by(Recommendation.decided_at.desc())
    found = connection.execute(recent.limit(1)).mappings().one_or_none()
    if found is None:
        return None
    back = sa.select(ScalePlan.id).where(ScalePlan.recommendation_id == found["id"], ScalePlan.rolled_back)
    return _read(found) if connection.execute(back.limit(1)).first() is None else None


def refusals(connection: Connection, job_uids: Iterable[str], since: datetime) -> dict[str, list[Refusal]]:
    """Return by job's uid the sizes that were refused since a moment, the latest first."""
    columns = (Job.uid, Recommendation.workers, Recommendation.decided_by, Recommendation.decided_at)
    found: dict[str, list[Refusal]] = {}
    for uids in _some(list(job_uids)):
        query = (
            sa.select(*columns, Recommendation.decided_why)
            .join(Job, Job.id == Recommendation.job_id)
            .where(Job.uid.in_(uids), Recommendation.status == Status.REFUSED.value)
            .where(Recommendation.decided_at >= since)
            .order_by(Recommendation.decided_at.desc())
        )
        for uid, workers, by, at, why in connection.execute(query):
            assert at is not None  # it is what the rows were found by
            found.setdefault(uid, []).append(Refusal(workers or 0, by, at, why or ""))
    return found


def _decide(connection: Connection, identifier: str, status: Status, by: str, why: str, now: datetime) -> Advice:
    locked = sa.select(Recommendation.id).where(Recommendation.id == identifier).with_for_update()
    if connection.execute(locked).first() is None:
        raise NotFound(f"recommendation {identifier}: it is gone", reason="NoSuchRecommendation")
    this = _advice().where(Recommendation.id == identifier)
    found = _read(connection.execute(this).mappings().one())
    if found.status is status:
        return found
    if found.status is not Status.PROPOSED:
        raise Unusable(f"recommendation {identifier}: {_undecidable(found)}", reason="NotProposed")
    if status is Status.ACCEPTED:
        if found.over:
            raise Unusable(
                f"recommendation {identifier}: its job {found.namespace}/{found.job} is over ({found.over}): "
                "there is nothing to change any more",
                reason=JOB_OVER,
            )
        others = sa.update(Recommendation).where(
            Recommendation.job_id == found.row["job_id"], Recommendation.status == Status.ACCEPTED.value
        )
        connection.execute(others.values(status=Status.SUPERSEDED.value))
    values = {"status": status.value, "decided_by": by[:255], "decided_at": now, "decided_why": why[:4000]}
    connection.execute(sa.update(Recommendation).where(Recommendation.id == identifier).values(values))
    return _read(connection.execute(this).mappings().one())


def _undecidable(advice: Advice) -> str:
    row = advice.row
    match advice.status:
        case None:
            return f"there is nothing to decide: it says {row['decision']}, or answered the job's master"
        case Status.SUPERSEDED:
            return "a later one took its place; `convoy brain advice` lists what there is to decide about"
        case decided:
            return f"{row['decided_by']} {decided.value} it on {row['decided_at']:%Y-%m-%d %H:%M} UTC"


def _advice() -> Any:
    job = (Job.name.label("job"), Job.namespace, Job.uid, Job.optimize_mode, Job.state, Job.gone_at)
    return sa.select(Recommendation.__table__, *job).join(Job, Job.id == Recommendation.job_id)


def _read(row: Any) -> Advice:
    values = dict(row)
    job = {name: values.pop(name) for name in ("job", "namespace", "uid", "optimize_mode")}
    return Advice(values, **job, over=over(values.pop("state"), values.pop("gone_at")))


def _some(items: list[Any]) -> list[list[Any]]:
    return [items[start : start + _SOME] for start in range(0, len(items), _SOME)]
