"""Rows of ``optimization_run``: a run of the batch for a window, how far it came, and which process goes on with it.

A process takes a run over by writing its name into the row; what it writes later, it writes only while its name still
stands there. So a process that was taken for dead, and isn't, changes nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from convoy.brain.store.tables import OptimizationRun
from convoy.core.api.errors import Fenced


class State(StrEnum):
    """How a run stands."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Run:
    """A row.

    Attributes:
        stage: the last one that was finished; empty: none yet.
        began_at: when the first process began it: "now" to all of its stages, however late they are done.
        starts: how often it was begun or gone on with.
        report: what each finished stage came to, by its name.
    """

    id: int
    window_from: datetime
    window_until: datetime
    mode: str
    engine: str
    state: State
    stage: str
    began_at: datetime
    ended_at: datetime | None
    deadline_at: datetime | None
    jobs: int
    recommendations: int
    plans: int
    message: str
    report: dict[str, Any]
    owner: str
    starts: int


def take(
    connection: Connection,
    *,
    window: tuple[datetime, datetime],
    mode: str,
    engine: str,
    owner: str,
    now: datetime,
    deadline_at: datetime,
) -> Run:
    """Return the run for a window, begun or gone on with by ``owner``; one that is done is returned as it is.

    Whoever calls this holds the batch's lock. So earlier windows' runs that aren't over never will be: they failed.
    """
    found = of_window(connection, window, mode)
    if found is not None and found.state is State.DONE:
        return found
    begun = {
        "engine": engine, "state": State.RUNNING.value, "ended_at": None, "deadline_at": deadline_at, "owner": owner,
    }  # fmt: skip
    if found is None:
        first = {"window_from": window[0], "window_until": window[1], "mode": mode, "stage": "", "began_at": now}
        counts = {"jobs": 0, "recommendations": 0, "plans": 0, "message": "", "report": {}, "starts": 1}
        connection.execute(sa.insert(OptimizationRun), [{**begun, **first, **counts}])
    else:
        again = {**begun, "message": "", "starts": found.starts + 1}
        connection.execute(sa.update(OptimizationRun).where(OptimizationRun.id == found.id).values(again))
    _give_up_earlier(connection, window[1], now)
    taken = of_window(connection, window, mode)
    assert taken is not None
    return taken


def of_window(connection: Connection, window: tuple[datetime, datetime], mode: str) -> Run | None:
    """Return the run for a window, None where there was none."""
    query = sa.select(OptimizationRun.__table__).where(
        OptimizationRun.window_from == window[0],
        OptimizationRun.window_until == window[1],
        OptimizationRun.mode == mode,
    )
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else _run(row)


def finish_stage(connection: Connection, run: Run, stage: str, document: Any, **counts: int) -> Run:
    """Write down that a stage is finished, and what it came to; ``counts`` are columns of the row.

    Raises:
        Fenced: another process goes on with the run; nothing was changed.
    """
    values: dict[str, Any] = {"stage": stage, "report": {**run.report, stage: document}, **counts}
    _set(connection, run, values)
    return replace(run, **values)


def end(connection: Connection, run: Run, state: State, message: str, now: datetime) -> Run:
    """Write down that a run is over.

    Raises:
        Fenced: another process goes on with the run; nothing was changed.
    """
    _set(connection, run, {"state": state.value, "message": message, "ended_at": now})
    return replace(run, state=state, message=message, ended_at=now)


def _set(connection: Connection, run: Run, values: dict[str, Any]) -> None:
    ours = sa.and_(OptimizationRun.id == run.id, OptimizationRun.owner == run.owner)
    if connection.execute(sa.update(OptimizationRun).where(ours).values(values)).rowcount != 1:
        raise Fenced(f"run {run.id}: another process goes on with it", reason="RunTakenOver")


def _give_up_earlier(connection: Connection, until: datetime, now: datetime) -> None:
    left = sa.and_(OptimizationRun.state == State.RUNNING.value, OptimizationRun.window_until < until)
    values = {
        "state": State.FAILED.value,
        "ended_at": now,
        "message": "it ended before it was done; a later window's run took its place",
    }
    connection.execute(sa.update(OptimizationRun).where(left).values(values))


def _run(row: Any) -> Run:
    return Run(**{**row, "state": State(row["state"])})
