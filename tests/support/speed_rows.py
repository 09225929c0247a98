"""Rows of training_speed, and what is to become of them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from convoy.brain.store import series
from convoy.brain.store.engine import reading, writing
from convoy.brain.store.tables import Job, TrainingSpeed


def windows(
    job: int, begin: datetime, count: int, *, seconds: float = 10.0, round: int = 1, workers: int = 2
) -> list[dict[str, Any]]:
    """Windows that follow one another; the first one of the round is still warming up."""
    return [
        {
            "job_id": job,
            "ended_at": begin + timedelta(seconds=seconds * number),
            "round": round,
            "last_step": number,
            "first_step": number,
            "seconds": seconds,
            "samples": 100.0 + number % 7,
            "workers": workers,
            "ps": 0,
            "nodes": None,
            "batch_size": 8,
            "accumulation_steps": 1,
            "warming": number == 0,
            "compute_seconds": 0.5 if number % 2 else None,
        }
        for number in range(count)
    ]


def store(engine: Engine, rows: list[dict[str, Any]]) -> None:
    with writing(engine) as connection:
        series.insert(connection, TrainingSpeed, rows)


def make_jobs(engine: Engine, *numbers: int, last_seen: datetime) -> None:
    empty = dict.fromkeys(("template", "image", "user", "strategy", "model", "cluster", "node_type", "state"), "")
    rows = [
        {"id": number, "uid": f"uid-{number}", "name": f"job-{number}", "namespace": "default", **empty,
         "first_seen": last_seen, "last_seen": last_seen}
        for number in numbers
    ]  # fmt: skip
    with writing(engine) as connection:
        connection.execute(sa.insert(Job), rows)


def count(engine: Engine, table: Any) -> int:
    with reading(engine) as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
