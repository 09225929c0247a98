"""Load of a job's pods while its rounds trained past warm-up: a row a (job, round), by role.

A window counts if it ended between the round's first steady window and its last (``job_attempt``). A pod's agent is
believed before Prometheus, measure by measure. An hour that was summed keeps the ends of its rounds as they were
known then: a window after the last one known counts only once its hour is summed again, because more came in.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from convoy.brain.features.hours import Hours
from convoy.brain.features.layout import read_all
from convoy.brain.store import sums
from convoy.brain.store.tables import JobAttempt, JobNodeLoad, JobNodeLoad1h

TABLES: tuple[type[Any], ...] = (JobNodeLoad, JobNodeLoad1h)
ROUND = ("job_id", "round")
_POD = (*ROUND, "role", "node", "source")
_SUMS = ("cpu_sum", "cpu_time", "memory_sum", "memory_windows")
_ALLOTTED = ("cpu_allotted", "memory_allotted")
_MEASURES = ("cpu_used", "memory_used", "cpu", "memory")
ROLES = ("worker", "ps")


def by_round(connection: Connection, jobs: sa.Select[Any]) -> pd.DataFrame:
    """Return ``job_id``, ``round`` and for each role what its pods used and were allotted, mean over its pods.

    Columns: ``{worker,ps}_{cpu,memory}`` (allotted, the most), ``{worker,ps}_{cpu,memory}_used`` (mean over time) and
    ``ps_cpu_used_max``, of the busiest parameter server; NaN where there is no such role or nothing is known.

    Args:
        connection: on a snapshot.
        jobs: a query of jobs' numbers.
    """
    pods = _pods(connection, jobs)
    roles: list[pd.DataFrame] = []
    for role in ROLES:
        grouped = pods[pods["role"] == role].groupby(list(ROUND))
        names = {measure: f"{role}_{measure}" for measure in _MEASURES}
        roles.append(grouped[list(_MEASURES)].mean().rename(columns=names))
        if role == "ps":
            roles.append(grouped[["cpu_used"]].max().rename(columns={"cpu_used": "ps_cpu_used_max"}))
    return pd.concat(roles, axis=1).reset_index(names=list(ROUND))


def _pods(connection: Connection, jobs: sa.Select[Any]) -> pd.DataFrame:
    """Return one row a (job, round, role, pod), whichever source it is from."""
    dialect = connection.dialect.name
    hours = Hours.read(connection, JobNodeLoad, jobs)
    parts = [read_all(connection, _from_hours(hours, dialect))]
    parts += [read_all(connection, query) for query in _from_rows(hours, dialect)]
    found = pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
    found = found.astype(dict.fromkeys((*_SUMS, *_ALLOTTED), "float64"))
    how = {**dict.fromkeys(_SUMS, "sum"), **dict.fromkeys(_ALLOTTED, "max")}
    pods = found.groupby(list(_POD), as_index=False).agg(how)
    pods = pods.assign(
        cpu_used=pods["cpu_sum"] / pods["cpu_time"].where(pods["cpu_time"] > 0),
        memory_used=pods["memory_sum"] / pods["memory_windows"].where(pods["memory_windows"] > 0),
        cpu=pods["cpu_allotted"],
        memory=pods["memory_allotted"],
    )
    # "agent" sorts before "prometheus", and the first value that is known is taken.
    return pods.sort_values("source").groupby(list(_POD[:-1]), as_index=False)[list(_MEASURES)].first()


def _from_hours(hours: Hours, dialect: str) -> sa.Select[Any]:
    table = JobNodeLoad1h
    keys = [getattr(table, name) for name in _POD]
    measures = [
        *(sa.func.sum(getattr(table, name)).label(name) for name in _SUMS),
        *(sa.func.max(getattr(table, name)).label(name) for name in _ALLOTTED),
    ]
    steady = sa.and_(table.steady.is_(True), hours.summed(table, dialect))
    return sa.select(*keys, *measures).where(steady).group_by(*keys)


def _from_rows(hours: Hours, dialect: str) -> list[sa.Select[Any]]:
    load, attempt = JobNodeLoad, JobAttempt
    _, measures = sums.by_minute(load.__tablename__, dialect)
    keys = [getattr(load, name) for name in _POD]
    steady = sa.and_(
        attempt.job_id == load.job_id,
        attempt.round == load.round,
        load.ended_at >= attempt.steady_since,
        load.ended_at <= attempt.steady_until,
    )
    query = (
        sa.select(*keys, *(measures[name].label(name) for name in (*_SUMS, *_ALLOTTED)))
        .join(attempt, steady)
        .group_by(*keys)
    )
    return [query.where(condition) for condition in hours.unsummed()]
