"""What was allotted to jobs' pods on each machine, by the hour, from the pods' lives.

A pod holds what it was allotted from its start to its end. One whose end nobody told ends with its job, or with its
machine; if they live, it lives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from convoy.brain.features.layout import read_all
from convoy.brain.features.observations import ENDED
from convoy.brain.store.tables import Job, JobNode, Node
from convoy.sql.types import UtcDateTime

RESOURCES = ("cpu", "memory", "accelerators")
_HOUR = 3_600_000_000
"""In microseconds."""


def by_hour(connection: Connection, machines: sa.Select[Any], begin: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
    """Return ``node_id``, ``time`` (the hour's beginning) and the mean over the hour of each of ``RESOURCES``.

    Args:
        connection: on a snapshot.
        machines: a query of machines' numbers.
        begin, end: the first hour's beginning, and the last one's end.
    """
    pods = read_all(connection, _lives(machines).where(JobNode.node_id.is_not(None)))
    return spread(pods, begin, end)


def _lives(machines: sa.Select[Any]) -> sa.Select[*tuple[Any, ...]]:
    over = sa.case((sa.or_(Job.state.in_(ENDED), Job.gone_at.is_not(None)), Job.last_seen))
    began = sa.func.coalesce(JobNode.started_at, JobNode.created_at)
    ended = sa.func.coalesce(JobNode.ended_at, JobNode.gone_at, Job.gone_at, over, Node.gone_at)
    return (
        sa.select(
            JobNode.node_id,
            sa.type_coerce(began, UtcDateTime()).label("begin"),
            sa.type_coerce(ended, UtcDateTime()).label("end"),
            JobNode.cpu_allotted.label("cpu"),
            JobNode.memory_allotted.label("memory"),
            JobNode.accelerators,
        )
        .join(Job, Job.id == JobNode.job_id)
        .join(Node, Node.id == JobNode.node_id)
        .where(JobNode.node_id.in_(machines), began.is_not(None))
    )


def spread(pods: pd.DataFrame, begin: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
    """Return what lives of pods come to by machine and hour: ``node_id``, ``time``, mean of each of ``RESOURCES``.

    Args:
        pods: ``node_id``, ``begin``, ``end`` (missing: it lives) and ``RESOURCES`` (missing: none).
        begin, end: the first hour's beginning, and the last one's end.
    """
    start = _microseconds(pods["begin"], begin).clip(lower=_micro(begin)).to_numpy()
    stop = _microseconds(pods["end"], end).clip(upper=_micro(end)).to_numpy()
    lived = np.flatnonzero(stop > start)
    start, stop = start[lived], stop[lived]
    first, count = start // _HOUR, (stop - 1) // _HOUR - start // _HOUR + 1
    pod = np.repeat(np.arange(len(lived)), count)
    hour = (first[pod] + np.arange(len(pod)) - np.repeat(np.cumsum(count) - count, count)) * _HOUR
    share = (np.minimum(stop[pod], hour + _HOUR) - np.maximum(start[pod], hour)) / _HOUR
    amounts = pods[list(RESOURCES)].astype("float64").fillna(0.0).to_numpy()[lived][pod] * share[:, np.newaxis]
    frame = pd.DataFrame(amounts, columns=list(RESOURCES))
    frame.insert(0, "node_id", pods["node_id"].to_numpy()[lived][pod].astype("int64"))
    frame.insert(1, "time", pd.to_datetime(hour, unit="us", utc=True).astype("datetime64[us, UTC]"))
    return frame.groupby(["node_id", "time"], as_index=False).sum()


def _microseconds(moments: pd.Series[Any], missing: pd.Timestamp) -> pd.Series[Any]:
    known = pd.to_datetime(moments, utc=True).astype("datetime64[us, UTC]").fillna(missing)
    return known.astype("int64")


def _micro(moment: pd.Timestamp) -> int:
    return moment.value // 1000
