"""The sums themselves: which columns a roll-up has and what of a series is summed in each."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from convoy.brain.store.tables import (
    JobAttempt,
    JobNodeLoad,
    JobNodeLoad1h,
    JobNodeLoad1m,
    NodeLoad,
    NodeLoad1h,
    NodeLoad1m,
    TrainingSpeed,
    TrainingSpeed1h,
    TrainingSpeed1m,
)

Columns = dict[str, Any]
"""By name: attributes of the tables, or expressions of them."""
KINDS: dict[str, tuple[type[Any], type[Any], type[Any]]] = {
    "training_speed": (TrainingSpeed, TrainingSpeed1m, TrainingSpeed1h),
    "job_node_load": (JobNodeLoad, JobNodeLoad1m, JobNodeLoad1h),
    "node_load": (NodeLoad, NodeLoad1m, NodeLoad1h),
}
"""Each series: its table, and those of its sums by the minute and by the hour."""
_GREATEST = frozenset(
    {"cpu_max", "memory_max", "accelerator_memory_max", "cpu_allotted", "memory_allotted", "role", "last_step"}
    | {"last_ended_at"}
)
_LEAST = frozenset({"first_step"})


def replace(connection: Connection, series: str, subject: int, begin: datetime, end: datetime) -> None:
    """Sum a subject's rows of [begin, end), whole hours, by minute and by hour, in place of what was there."""
    raw, minutes, hours = KINDS[series]
    owner = "node_id" if series == "node_load" else "job_id"

    def of_subject(table: type[Any], moment: str) -> sa.ColumnElement[bool]:
        at = getattr(table, moment)
        return sa.and_(getattr(table, owner) == subject, at >= begin, at < end)

    for table in (minutes, hours):
        connection.execute(sa.delete(table).where(of_subject(table, "started_at")))
    keys, measures = by_minute(series, connection.dialect.name)
    rows = sa.select(*(value.label(name) for name, value in {**keys, **measures}.items()))
    rows = rows.where(of_subject(raw, "ended_at")).group_by(*keys.values())
    if series == "job_node_load":
        rows = rows.select_from(sa.outerjoin(JobNodeLoad, JobAttempt, _same_round()))
    connection.execute(sa.insert(minutes).from_select([*keys, *measures], rows))
    keys, measures = _by_hour(minutes, connection.dialect.name)
    rows = sa.select(*(value.label(name) for name, value in {**keys, **measures}.items()))
    rows = rows.where(of_subject(minutes, "started_at")).group_by(*keys.values())
    connection.execute(sa.insert(hours).from_select([*keys, *measures], rows))


def by_minute(series: str, dialect: str) -> tuple[Columns, Columns]:
    """Return a roll-up's keys and sums, from the series' columns."""
    if series == "training_speed":
        return _speed_keys(dialect), _speed_sums()
    if series == "job_node_load":
        load = JobNodeLoad
        keys: Columns = {
            "job_id": load.job_id,
            "started_at": beginning(load.ended_at, "minute", dialect),
            "node": load.node,
            "source": load.source,
            "round": load.round,
            "steady": steady(),
        }
        allotted: Columns = {
            "role": sa.func.max(load.role),
            "cpu_allotted": sa.func.max(load.cpu_allotted),
            "memory_allotted": sa.func.max(load.memory_allotted),
        }
        return keys, {**allotted, **load_sums(load)}
    return (
        {"node_id": NodeLoad.node_id, "started_at": beginning(NodeLoad.ended_at, "minute", dialect)},
        load_sums(NodeLoad),
    )


def _speed_keys(dialect: str) -> Columns:
    t = TrainingSpeed
    return {
        "job_id": t.job_id,
        "started_at": beginning(t.ended_at, "minute", dialect),
        "round": t.round,
        "workers": t.workers,
        "ps": t.ps,
        "nodes": sa.func.coalesce(t.nodes, 0),
        "batch_size": sa.func.coalesce(t.batch_size, 0),
        "accumulation_steps": sa.func.coalesce(t.accumulation_steps, 0),
        "warming": t.warming,
    }


def _speed_sums() -> Columns:
    t = TrainingSpeed
    known = t.compute_seconds.is_not(None)
    return {
        "windows": sa.func.count(),
        "seconds": sa.func.sum(t.seconds),
        "samples": sa.func.sum(t.samples),
        "speeds": sa.func.sum(t.samples_per_second),
        "squares": sa.func.sum(t.samples_per_second * t.samples_per_second),
        "compute_sum": sa.func.sum(sa.case((known, t.compute_seconds * t.seconds), else_=0.0)),
        "compute_time": sa.func.sum(sa.case((known, t.seconds), else_=0.0)),
        "first_step": sa.func.min(t.first_step),
        "last_step": sa.func.max(t.last_step),
        "last_ended_at": sa.func.max(t.ended_at),
    }


def load_sums(load: Any) -> Columns:
    """Return the sums of a load's measures, each over the time in which it was known."""

    def over_time(measure: Any) -> sa.ColumnElement[Any]:
        return sa.func.sum(measure * load.seconds)

    def known(measure: Any, value: Any) -> sa.ColumnElement[Any]:
        return sa.func.sum(sa.case((measure.is_not(None), value), else_=0))

    return {
        "windows": sa.func.count(),
        "seconds": sa.func.sum(load.seconds),
        "cpu_sum": sa.func.coalesce(over_time(load.cpu_cores), 0.0),
        "cpu_time": known(load.cpu_cores, load.seconds),
        "cpu_max": sa.func.max(load.cpu_cores),
        "memory_sum": sa.func.coalesce(sa.func.sum(load.memory_bytes), 0),
        "memory_windows": known(load.memory_bytes, 1),
        "memory_max": sa.func.max(load.memory_bytes),
        "network_received": over_time(load.network_received),
        "network_sent": over_time(load.network_sent),
        "disk_read": over_time(load.disk_read),
        "disk_written": over_time(load.disk_written),
        "accelerator_sum": sa.func.coalesce(over_time(load.accelerator_busy), 0.0),
        "accelerator_time": known(load.accelerator_busy, load.seconds),
        "accelerator_memory_max": sa.func.max(load.accelerator_memory),
    }


def steady() -> sa.ColumnElement[bool]:
    """Return whether a pod's window lies where its round trained past warm-up; needs the attempt joined."""
    at = JobNodeLoad.ended_at
    within = sa.and_(at >= JobAttempt.steady_since, at <= JobAttempt.steady_until)
    return sa.case((within, sa.true()), else_=sa.false())


def _same_round() -> sa.ColumnElement[bool]:
    return sa.and_(JobAttempt.job_id == JobNodeLoad.job_id, JobAttempt.round == JobNodeLoad.round)


def _by_hour(minutes: type[Any], dialect: str) -> tuple[Columns, Columns]:
    table: sa.Table = minutes.__table__
    keys: Columns = {}
    measures: Columns = {}
    for column in table.columns:
        if column.name == "started_at":
            keys[column.name] = beginning(column, "hour", dialect)
        elif column.primary_key:
            keys[column.name] = column
        elif column.name in _GREATEST:
            measures[column.name] = sa.func.max(column)
        elif column.name in _LEAST:
            measures[column.name] = sa.func.min(column)
        else:
            measures[column.name] = sa.func.sum(column)
    return keys, measures


def beginning(moment: Any, unit: str, dialect: str) -> sa.ColumnElement[Any]:
    """Return the beginning of the minute or hour in which a moment lies, as the database keeps moments."""
    if dialect == "mysql":
        minute = sa.func.minute(moment) if unit == "minute" else sa.literal_column("0")
        return sa.func.timestamp(sa.func.date(moment), sa.func.maketime(sa.func.hour(moment), minute, 0))
    text = "%Y-%m-%d %H:%M:00.000000" if unit == "minute" else "%Y-%m-%d %H:00:00.000000"
    return sa.func.strftime(text, moment)
