"""What the Brain's store knows of a job, for ``convoy explain``: its last answer, plans' outcomes, what happened."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from convoy.core.api.errors import ConvoyError, NotFound

if TYPE_CHECKING:
    from convoy.brain.store.tables import Recommendation

NOTICES = ("NodeCheckSkipped", "FlagLeftOut", "NothingMeasured")
"""Reasons of what holds for the whole job: told once, however long ago it was and however many nodes said it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the Brain's."""

    at: datetime
    decision: str
    reason: str
    message: str
    why: tuple[str, ...] = ()
    """The predicted speed explained, a sentence each."""


@dataclass(frozen=True, slots=True)
class Happened:
    """Something that happened to the job."""

    at: datetime
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Told:
    """What the store knows. ``outcomes``: a sentence by plan. ``problem``: why it couldn't be read, if so."""

    answer: Answer | None = None
    outcomes: dict[str, str] = field(default_factory=dict)
    events: tuple[Happened, ...] = ()
    problem: str = ""


def read(uid: str, database_url: str | None, *, events: int = 12) -> Told:
    """Read it from the Brain's database; one that isn't there, or knows no such job, tells nothing.

    ``events``: how many of the last events, beside what holds for the whole job (NOTICES).

    ``database_url``: None: as the settings say.
    """
    try:
        from convoy.brain.plan.feedback import in_words
        from convoy.brain.report.outcomes import outcomes
        from convoy.brain.settings import BrainSettings
        from convoy.brain.store import queries
        from convoy.brain.store.engine import check, open_engine
    except ModuleNotFoundError as error:
        return Told(problem=f"{error.name} isn't installed; pip install 'convoy-train[brain]'")
    try:
        settings = BrainSettings.load(database_url=database_url)
        url = settings.database()
        check(url, must_exist=True)
        engine = open_engine(url, must_exist=True)
        try:
            job = queries.find_job(engine, uid)
            last = queries.recommendations(engine, job, limit=1)
            plans = in_words(outcomes(engine, settings, job.uid), settings.currency)
            noticed = {(one.reason, one.message): one for one in queries.events(engine, job, reasons=NOTICES)}
            happened = [*noticed.values(), *queries.events(engine, job, limit=events, without=NOTICES)]
        finally:
            engine.dispose()
    except NotFound:
        return Told()
    except ConvoyError as error:
        return Told(problem=str(error))
    return Told(
        answer=next((_answer(one) for one in last), None),
        outcomes={plan.plan: plan.sentence for plan in plans},
        events=tuple(
            Happened(_utc(one.happened_at), one.reason, one.message)
            for one in sorted(happened, key=lambda one: one.happened_at)
        ),
    )


def _answer(one: Recommendation) -> Answer:
    why = one.evidence.get("explanation", {}).get("sentences", [])
    return Answer(_utc(one.made_at), one.decision, one.reason, one.message, tuple(map(str, why)))


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
