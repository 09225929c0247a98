"""Masters' reports into the store: each once, acknowledged only when it is committed.

A report is known by (job, sender, incarnation, sequence). The highest sequence stored of a reporter, its watermark,
is committed in the rows' own transaction: a report that comes again is acknowledged and stores nothing. One that
another overtook is still stored. The rows' own keys (a job's window, a node's moment) see to it that none is twice,
even if another master sends it again under a number of its own.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError

from convoy.brain.ingest import check
from convoy.brain.ingest.check import Checker, Position, Row
from convoy.brain.store import attempts, driver_errors, jobs, series
from convoy.brain.store.engine import writing
from convoy.brain.store.retention import Retention
from convoy.brain.store.tables import (
    JobEvent,
    JobNodeLoad,
    Recommendation,
    Reporter,
    ScalePlan,
    TrainingSpeed,
)
from convoy.brain.store.write import each_that_fits, insert_new, insert_or_update
from convoy.core.api.envelope import Envelope
from convoy.core.api.errors import InvalidInput, Unavailable
from convoy.core.api.v1 import brain_pb2
from convoy.core.process.clock import Clock
from convoy.core.process.crashpoint import crash_point

_ATTEMPTS = 4
_MAX_ROWS = 20_000
_LOOK_AGAIN = 600.0
"""Seconds after which the bounds of what is kept are read anew: retention moves them by the day."""
_PLAN_KEY = ("job_id", "name")
_PLAN_UPDATES = (
    "recommendation_id",
    "carried_out_at",
    "workers_before",
    "workers_after",
    "predicted",
    "predicted_lower",
    "predicted_upper",
    "realized",
    "realized_seconds",
    "restart_seconds",
    "reason",
    "message",
    "rolled_back",
)


@dataclass(frozen=True, slots=True)
class Ack:
    """What became of a report: rows stored, and a sentence for each that was refused."""

    stored: int
    refused: list[str]


@dataclass(frozen=True, slots=True)
class _Rows:
    job: Row
    features: list[Row]
    speed: list[Row]
    load: list[Row]
    events: list[Row]
    plans: list[Row]
    refused: list[str]

    @property
    def count(self) -> int:
        return len(self.speed) + len(self.load) + len(self.events) + len(self.plans)


class Ingest:
    """Stores reports. Safe to use from several threads and from several processes at once."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        *,
        clock_tolerance: float = 60.0,
        retention: Retention | None = None,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._tolerance = clock_tolerance
        self._retention = retention or Retention()
        self._since: dict[str, float] = {}
        self._looked_at = -math.inf

    def store(self, envelope: Envelope, report: brain_pb2.BrainReport) -> Ack:
        """Store a report; when this returns it is committed.

        Raises:
            InvalidInput: nobody's report, or of no job, or the database can't hold what describes the job.
            Unavailable: the database can't be reached now; nothing is stored, send it again.
        """
        _refuse_nobody(envelope, report)
        now = self._clock.now()
        rows = _checked(report, self._checker(now))
        for attempt in itertools.count(1):
            try:
                with writing(self._engine) as connection:
                    stored, unknown = _store(connection, envelope, rows, datetime.fromtimestamp(now, UTC))
                    crash_point("brain.report.before-commit")
                crash_point("brain.report.after-commit")
                return Ack(stored, rows.refused + unknown)
            except Unavailable as error:
                deadlock = isinstance(error.__cause__, DBAPIError) and driver_errors.again(error.__cause__)
                if not deadlock or attempt == _ATTEMPTS:
                    raise
                time.sleep(0.02 * attempt)
        raise AssertionError("unreachable")

    def _checker(self, now: float) -> Checker:
        if self._clock.monotonic() - self._looked_at > _LOOK_AGAIN:
            self._since = self._retention.taken_since(self._engine, now)
            self._looked_at = self._clock.monotonic()
        return Checker(
            now,
            self._tolerance,
            speed_since=self._since["training_speed"],
            load_since=self._since["job_node_load"],
        )


def _refuse_nobody(envelope: Envelope, report: brain_pb2.BrainReport) -> None:
    if not envelope.sender or envelope.sequence < 1 or envelope.incarnation < 1:
        raise InvalidInput(
            "a report's metadata needs convoy-sender, convoy-incarnation and convoy-sequence: by them it is stored "
            "once",
            reason="IncompleteEnvelope",
        )
    if len(envelope.sender) > 253 or max(envelope.incarnation, envelope.sequence) > 2**63 - 1:
        raise InvalidInput("convoy-sender, -incarnation or -sequence is too long", reason="IncompleteEnvelope")
    if envelope.sender != envelope.sender.strip():  # MySQL compares names without the spaces at their ends
        raise InvalidInput("convoy-sender begins or ends with a space", reason="IncompleteEnvelope")
    if envelope.job and envelope.job != report.job.uid:
        raise InvalidInput(
            f"convoy-job is {envelope.job!r} and the report is of job {report.job.uid!r}",
            reason="InvalidJobDescription",
        )
    rows = len(report.speed) + len(report.load) + len(report.events) + len(report.plans)
    if rows > _MAX_ROWS:
        raise InvalidInput(f"the report has {rows} rows: expected at most {_MAX_ROWS}", reason="ReportTooLarge")


def _checked(report: brain_pb2.BrainReport, checker: Checker) -> _Rows:
    features = check.features(report.job)
    typed = {row["name"]: row["value"] for row in features.rows if row["name"] in check.TYPED}
    job = {**check.description(report.job), **typed}
    speed = check.each("speed sample", report.speed, checker.speed)
    load = check.each("node load", report.load, checker.load)
    events = check.each("event", report.events, checker.event)
    plans = check.each("plan", report.plans, checker.plan)
    return _Rows(
        job=job,
        features=[row for row in features.rows if row["name"] not in check.TYPED],
        speed=speed.rows,
        load=load.rows,
        events=events.rows,
        plans=check.distinct(plans.rows, ("name",)),
        refused=features.refused + speed.refused + load.refused + events.refused + plans.refused,
    )


def _store(connection: Connection, envelope: Envelope, rows: _Rows, now: datetime) -> tuple[int, list[str]]:
    """Store the rows unless they are; return how many, and sentences about them."""
    known = jobs.job_id(connection, rows.job["uid"])
    job = known if known is not None else jobs.ensure(connection, rows.job, now)
    reporter = _reporter(connection, job, envelope, now)
    if envelope.sequence == reporter.sequence:
        return 0, []
    overtaken = envelope.sequence < reporter.sequence
    if known is not None:
        jobs.ensure(connection, rows.job, now, follow=not overtaken)
    before = Position(reporter.speed_round, reporter.speed_step, reporter.speed_ended_at)
    if overtaken:
        speed, position = check.Checked(rows.speed, []), before
    else:
        speed, position = check.going_forward(rows.speed, before)
    refused = list(speed.refused)
    attempts.follow(connection, job, speed.rows)
    jobs.ensure_nodes(connection, job, rows.load)
    for kind, new, insert in (
        ("speed sample", speed.rows, partial(series.insert, connection, TrainingSpeed)),
        ("node load", rows.load, partial(series.insert, connection, JobNodeLoad)),
        ("event", rows.events, partial(insert_new, connection, JobEvent)),
    ):
        refused += _insert(kind, [{"job_id": job, **row} for row in new], insert)
    plans, unknown = _of_known_recommendations(connection, job, rows.plans)
    if overtaken:
        refused += _insert("plan", plans, partial(insert_new, connection, ScalePlan))
    else:
        jobs.set_features(connection, job, rows.features)
        upsert = partial(insert_or_update, connection, ScalePlan, key=_PLAN_KEY, update=_PLAN_UPDATES)
        refused += _insert("plan", plans, upsert)
    changes = {
        "sequence": max(envelope.sequence, reporter.sequence),
        "last_seen": now,
        "refused": Reporter.refused + len(rows.refused) + len(refused),
        "speed_round": position.round,
        "speed_step": position.step,
        "speed_ended_at": position.ended_at,
    }
    connection.execute(sa.update(Reporter).where(Reporter.id == reporter.id).values(changes))
    return rows.count - len(refused), refused + unknown


def _insert(kind: str, rows: list[Row], insert: Callable[[Sequence[Row]], None]) -> list[str]:
    """Insert the rows; return a sentence for each that the database refused."""
    refused = each_that_fits(rows, insert)
    return [
        f"{kind} {position + 1} of {len(rows)} well-formed ones: the database refuses it: {why}"
        for position, why in refused.items()
    ]


def _reporter(connection: Connection, job: int, envelope: Envelope, now: datetime) -> Any:
    """Return the reporter's row, locked: the same report on two threads takes turns."""
    who = {"job_id": job, "sender": envelope.sender, "incarnation": envelope.incarnation}
    position = (Reporter.speed_round, Reporter.speed_step, Reporter.speed_ended_at)
    query = sa.select(Reporter.id, Reporter.sequence, *position).filter_by(**who).with_for_update()
    found = connection.execute(query).one_or_none()
    if found is None:
        insert_new(connection, Reporter, [{**who, "sequence": 0, "last_seen": now}])
        found = connection.execute(query).one()
    return found


def _of_known_recommendations(connection: Connection, job: int, plans: list[Row]) -> tuple[list[Row], list[str]]:
    """Return the plans with the job and without recommendations that aren't in the store, and a sentence for each."""
    named = {plan["recommendation_id"] for plan in plans} - {None}
    query = sa.select(Recommendation.id).where(Recommendation.id.in_(named))
    there = set(connection.execute(query).scalars()) if named else set()
    unknown = [
        f"plan {plan['name']}: recommendation {plan['recommendation_id']} isn't in the store; the plan was stored "
        "without it"
        for plan in plans
        if plan["recommendation_id"] is not None and plan["recommendation_id"] not in there
    ]
    stored = [
        {
            **plan,
            "job_id": job,
            "recommendation_id": plan["recommendation_id"] if plan["recommendation_id"] in there else None,
        }
        for plan in plans
    ]
    return stored, unknown
