"""Rows of ``model_version``: the versions of each model, of which one at most is the champion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from convoy.brain.models.registry.facts import Facts
from convoy.brain.models.registry.promotion import Promotion
from convoy.brain.store.tables import ModelVersion


class Stage(StrEnum):
    """What a version is."""

    CANDIDATE = "candidate"
    """Fitted, and nothing decided yet."""
    CHAMPION = "champion"
    """The one that is used."""
    RETIRED = "retired"
    """It was the champion."""
    REFUSED = "refused"
    """A candidate that its back-test, or somebody, decided against; a champion that somebody took back."""


@dataclass(frozen=True, slots=True)
class Version:
    """A row.

    Attributes:
        name: of the model.
        number: of the version, from 1.
        digest: SHA-256 of its file.
        stage: what it is.
        file: its name in the folder; empty: it was removed because newer ones are there.
        promoted_at: when it became the champion last; None: never.
        decision: the last one about it, as ``Promotion.document``; empty: there was none.
        score: of its back-test: ``error``, ``coverage``, ``jobs``, ``rows``; empty: there was none.
        feedback: errors of what it predicted of plans that were carried out, as ``ModelError.document`` and when
            they were looked at (``at``); empty: they weren't.
    """

    name: str
    number: int
    digest: str
    stage: Stage
    file: str
    code_version: str
    schema_hash: str
    created_at: datetime
    trained_from: datetime | None
    trained_until: datetime | None
    rows: int
    jobs: int
    seconds: float
    promoted_at: datetime | None
    decision: dict[str, Any]
    score: dict[str, Any]
    feedback: dict[str, Any]

    @property
    def shown(self) -> str:
        """Return it in words: ``throughput version 3``."""
        return f"{self.name} version {self.number}"


def listed(connection: Connection, name: str | None = None, stage: Stage | None = None) -> list[Version]:
    """Return the versions of a model, or of all, newest first; of one stage, or of all."""
    query = sa.select(ModelVersion.__table__).order_by(ModelVersion.name, ModelVersion.version.desc())
    if name is not None:
        query = query.where(ModelVersion.name == name)
    if stage is not None:
        query = query.where(ModelVersion.stage == stage.value)
    return [_version(row) for row in connection.execute(query).mappings()]


def last_good_first(versions: Sequence[Version]) -> list[Version]:
    """Return the champion, then those that were it, the latest promoted first; of one model's versions."""
    good = (Stage.CHAMPION, Stage.RETIRED)
    once = [one for one in versions if one.stage in good and one.promoted_at is not None]
    return sorted(once, key=lambda one: (one.stage is Stage.CHAMPION, one.promoted_at, one.number), reverse=True)


def add(connection: Connection, facts: Facts, digest: str, file: str) -> int:
    """Add a candidate and return its number; that of the same file, if it is known."""
    same = sa.and_(ModelVersion.name == facts.name, ModelVersion.digest == digest)
    known = connection.execute(sa.select(ModelVersion.version).where(same)).scalar_one_or_none()
    if known is not None:
        connection.execute(sa.update(ModelVersion).where(same).values(file=file))
        return known
    last = sa.select(sa.func.max(ModelVersion.version)).where(ModelVersion.name == facts.name)
    number = (connection.execute(last).scalar_one_or_none() or 0) + 1
    row = {
        "name": facts.name,
        "version": number,
        "digest": digest,
        "stage": Stage.CANDIDATE.value,
        "code_version": facts.code_version,
        "schema_hash": facts.schema.hash,
        "created_at": facts.created_at,
        "trained_from": facts.trained_from,
        "trained_until": facts.trained_until,
        "rows": facts.rows,
        "jobs": facts.jobs,
        "seconds": facts.seconds,
        "file": file,
        "metrics": {} if facts.contest is None else {"score": _score(facts)},
    }
    connection.execute(sa.insert(ModelVersion), [row])
    return number


def promote(connection: Connection, version: Version, decision: Promotion, now: datetime) -> None:
    """Make a version the champion; whatever was it is retired."""
    connection.execute(
        sa.update(ModelVersion)
        .where(ModelVersion.name == version.name, ModelVersion.stage == Stage.CHAMPION.value)
        .values(stage=Stage.RETIRED.value)
    )
    told = {"promoted_at": now.isoformat(), "decision": {**decision.document(), "at": now.isoformat()}}
    _update(connection, version, told, stage=Stage.CHAMPION.value)


def refuse(connection: Connection, version: Version, decision: Promotion, now: datetime) -> None:
    """Write down that a version isn't promoted; a candidate is refused by it, others stay what they are."""
    stage = Stage.REFUSED if version.stage is Stage.CANDIDATE else version.stage
    told = {"decision": {**decision.document(), "at": now.isoformat()}}
    _update(connection, version, told, stage=stage.value)


def take_back(connection: Connection, version: Version, decision: Promotion, now: datetime) -> None:
    """Refuse a version that was the champion: it is no last good one either."""
    told = {"decision": {**decision.document(), "at": now.isoformat()}}
    _update(connection, version, told, stage=Stage.REFUSED.value)


def note_feedback(connection: Connection, version: Version, document: dict[str, Any], now: datetime) -> None:
    """Write down how right a version was about plans that were carried out."""
    _update(connection, version, {"feedback": {**document, "at": now.isoformat()}})


def forget_file(connection: Connection, version: Version) -> None:
    """Write down that a version's file is gone, or is going to be."""
    _update(connection, version, {}, file="")


def _update(connection: Connection, version: Version, told: dict[str, Any], **values: Any) -> None:
    row = sa.and_(ModelVersion.name == version.name, ModelVersion.version == version.number)
    metrics = connection.execute(sa.select(ModelVersion.metrics).where(row)).scalar_one()
    connection.execute(sa.update(ModelVersion).where(row).values(**values, metrics={**metrics, **told}))


def _score(facts: Facts) -> dict[str, Any]:
    """Return the main numbers of a back-test."""
    if facts.contest is None:
        return {}
    own = facts.contest.candidate
    coverage = own.coverage()
    return {
        "protocol": own.protocol,
        "jobs": len(own.scores),
        "rows": own.rows,
        "error": asdict(own.error()) if own.scores else None,
        "coverage": None if coverage is None else asdict(coverage),
        "width": own.width(),
        "level": own.level,
    }


def _version(row: Any) -> Version:
    told = row["metrics"] or {}
    promoted = told.get("promoted_at")
    return Version(
        name=row["name"],
        number=row["version"],
        digest=row["digest"],
        stage=Stage(row["stage"]),
        file=row["file"],
        code_version=row["code_version"],
        schema_hash=row["schema_hash"],
        created_at=row["created_at"],
        trained_from=row["trained_from"],
        trained_until=row["trained_until"],
        rows=row["rows"],
        jobs=row["jobs"],
        seconds=row["seconds"],
        promoted_at=None if promoted is None else datetime.fromisoformat(promoted),
        decision=told.get("decision", {}),
        score=told.get("score", {}),
        feedback=told.get("feedback", {}),
    )
