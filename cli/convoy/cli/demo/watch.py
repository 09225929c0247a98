"""What the demo watches while the job trains: the last steps, from the step logs' ends, and the store's counts."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TAIL = 1024  # bytes: more than one line


@dataclass(frozen=True, slots=True)
class Last:
    """The last step that one process logged."""

    t: float
    step: int
    round: int
    rank: int
    world: int
    pid: int
    pod: str


def last_steps(steps: Path) -> list[Last]:
    """Return the last step of every process of the latest round, in the order of their ranks."""
    ends = [end for file in steps.glob("*.jsonl") if (end := _end(file)) is not None]
    latest = max((end.round for end in ends), default=0)
    return sorted((end for end in ends if end.round == latest), key=lambda end: end.rank)


def _end(file: Path) -> Last | None:
    with open(file, "rb") as log:
        log.seek(max(0, file.stat().st_size - _TAIL))
        lines = log.read().split(b"\n")
    for line in reversed(lines[:-1]):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if "event" not in record:
            return Last(**{name: record[name] for name in Last.__slots__})
    return None


def first_step(steps: Path, round_number: int) -> float | None:
    """Return when the first step of a round was finished, None where none was."""
    moments = []
    for file in steps.glob("*.jsonl"):
        for line in file.read_text().splitlines():
            if f'"round":{round_number},' in line and '"event"' not in line:
                moments.append(float(json.loads(line)["t"]))
                break
    return min(moments, default=None)


def records(steps: Path) -> list[dict[str, Any]]:
    """Return all finished steps and marks that were logged, in the order of time; torn lines are passed over."""
    found = []
    for file in steps.glob("*.jsonl"):
        for line in file.read_text().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
    return sorted(found, key=lambda record: float(record["t"]))


def rows(store: Path, query: str, *values: Any) -> list[dict[str, Any]]:
    """Return a query's rows; none where the store, or a table, isn't there yet."""
    if not store.is_file():
        return []
    try:
        with closing(sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True, timeout=5)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query, values)]
    except sqlite3.OperationalError:
        return []


def of_job(store: Path, table: str, uid: str) -> list[dict[str, Any]]:
    """Return the rows of a job."""
    return rows(store, f"SELECT t.* FROM {table} t JOIN job ON job.id = t.job_id WHERE job.uid = ?", uid)
