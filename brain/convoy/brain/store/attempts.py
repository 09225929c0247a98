"""Attempts of a job: each round's size and span, drawn from its windows of speed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.engine import Connection

from convoy.brain.store.tables import JobAttempt
from convoy.brain.store.write import Row

_SIZE = ("workers", "ps", "nodes", "batch_size", "accumulation_steps")


def follow(connection: Connection, job: int, windows: Sequence[Row]) -> None:
    """Widen the job's attempts by rows of training_speed; the same rows again change nothing."""
    rows = [{"job_id": job, **row} for row in drawn_from(windows)]
    if not rows:
        return
    target: sa.Table = JobAttempt.__table__  # type: ignore[assignment]
    if connection.dialect.name == "mysql":
        inserted = mysql.insert(target)
        # In this order: MySQL's later assignments see what the earlier ones did.
        statement: Any = inserted.on_duplicate_key_update(
            _widened(target, inserted.inserted, sa.func.least, sa.func.greatest)
        )
    else:
        upsert = sqlite.insert(target)
        changes = dict(_widened(target, upsert.excluded, sa.func.min, sa.func.max))
        statement = upsert.on_conflict_do_update(index_elements=["job_id", "round"], set_=changes)
    connection.execute(statement, rows)


def drawn_from(windows: Iterable[Row]) -> list[Row]:
    """Return what rows of training_speed say of their rounds, one row a round."""
    rounds: dict[int, list[Row]] = {}
    for window in windows:
        rounds.setdefault(window["round"], []).append(window)
    return [{"round": number, **_attempt(of)} for number, of in sorted(rounds.items())]


def _attempt(windows: list[Row]) -> Row:
    last = max(windows, key=lambda window: window["ended_at"])
    steady = [window["ended_at"] for window in windows if not window["warming"]]
    return {
        **{name: last[name] for name in _SIZE},
        "started_at": min(window["ended_at"] - timedelta(seconds=window["seconds"]) for window in windows),
        "ended_at": last["ended_at"],
        "first_step": min(window["first_step"] for window in windows),
        "last_step": max(window["last_step"] for window in windows),
        "steady_since": min(steady, default=None),
        "steady_until": max(steady, default=None),
    }


def _widened(old: sa.Table, new: Any, least: Any, greatest: Any) -> list[tuple[str, Any]]:
    def known(name: str, choose: Any) -> Any:
        return sa.func.coalesce(choose(old.c[name], new[name]), old.c[name], new[name])

    later = new["ended_at"] >= old.c.ended_at
    return [
        *((name, sa.case((later, new[name]), else_=old.c[name])) for name in _SIZE),
        ("started_at", least(old.c.started_at, new["started_at"])),
        ("ended_at", greatest(old.c.ended_at, new["ended_at"])),
        ("first_step", least(old.c.first_step, new["first_step"])),
        ("last_step", greatest(old.c.last_step, new["last_step"])),
        ("steady_since", known("steady_since", least)),
        ("steady_until", known("steady_until", greatest)),
    ]
