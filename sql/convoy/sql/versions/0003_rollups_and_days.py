"""Roll-ups by the minute and by the hour; the large series by day.

Revision: 0003
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from convoy.sql.steps import create_index, create_table, execute, on_mysql, partition_by_day
from convoy.sql.types import TABLE_OPTIONS, TIME_SERIES_OPTIONS, UtcDateTime, name_type

revision = "0003"
down_revision = "0002"

_SERIES = {"training_speed": "job_id", "job_node_load": "job_id", "node_load": "node_id"}


def upgrade() -> None:
    """Create the tables, and mark all that there is as to be rolled up."""
    for resolution in ("1m", "1h"):
        _speed(f"training_speed_{resolution}")
        _job_load(f"job_node_load_{resolution}")
        _node_load(f"node_load_{resolution}")
    for series in _SERIES:
        create_index(f"ix_{series}_1h_started_at", f"{series}_1h", ["started_at"])
    create_table(
        "rollup_due",
        sa.Column("series", name_type(32), nullable=False),
        sa.Column("subject_id", sa.BigInteger(), nullable=False),
        sa.Column("hour", UtcDateTime(), nullable=False),
        sa.Column("changes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("series", "subject_id", "hour"),
        **TABLE_OPTIONS,
    )
    create_table(
        "series_kept",
        sa.Column("series", name_type(32), nullable=False),
        sa.Column("complete_since", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("series"),
        **TABLE_OPTIONS,
    )
    for series, subject in _SERIES.items():
        execute(_all_due(series, subject))
        partition_by_day(series, "ended_at")
        partition_by_day(f"{series}_1m", "started_at")


def _speed(name: str) -> None:
    create_table(
        name,
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("round", sa.BigInteger(), nullable=False),
        sa.Column("workers", sa.Integer(), nullable=False),
        sa.Column("ps", sa.Integer(), nullable=False),
        sa.Column("nodes", sa.Integer(), nullable=False),
        sa.Column("batch_size", sa.Integer(), nullable=False),
        sa.Column("accumulation_steps", sa.Integer(), nullable=False),
        sa.Column("warming", sa.Boolean(), nullable=False),
        sa.Column("windows", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("samples", sa.Double(), nullable=False),
        sa.Column("speeds", sa.Double(), nullable=False),
        sa.Column("squares", sa.Double(), nullable=False),
        sa.Column("compute_sum", sa.Double(), nullable=False),
        sa.Column("compute_time", sa.Double(), nullable=False),
        sa.Column("first_step", sa.BigInteger(), nullable=False),
        sa.Column("last_step", sa.BigInteger(), nullable=False),
        sa.Column("last_ended_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint(
            "job_id",
            "started_at",
            "round",
            "workers",
            "ps",
            "nodes",
            "batch_size",
            "accumulation_steps",
            "warming",
        ),
        **TIME_SERIES_OPTIONS,
    )


def _job_load(name: str) -> None:
    create_table(
        name,
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("node", name_type(253), nullable=False),
        sa.Column("source", name_type(16), nullable=False),
        sa.Column("round", sa.BigInteger(), nullable=False),
        sa.Column("steady", sa.Boolean(), nullable=False),
        sa.Column("role", name_type(32), nullable=False),
        sa.Column("cpu_allotted", sa.Double(), nullable=True),
        sa.Column("memory_allotted", sa.BigInteger(), nullable=True),
        *_load_sums(),
        sa.PrimaryKeyConstraint("job_id", "started_at", "node", "source", "round", "steady"),
        **TIME_SERIES_OPTIONS,
    )


def _node_load(name: str) -> None:
    create_table(
        name,
        sa.Column("node_id", sa.BigInteger(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        *_load_sums(),
        sa.PrimaryKeyConstraint("node_id", "started_at"),
        **TIME_SERIES_OPTIONS,
    )


def _load_sums() -> list[sa.Column[Any]]:
    return [
        sa.Column("windows", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("cpu_sum", sa.Double(), nullable=False),
        sa.Column("cpu_time", sa.Double(), nullable=False),
        sa.Column("cpu_max", sa.Double(), nullable=True),
        sa.Column("memory_sum", sa.Double(), nullable=False),
        sa.Column("memory_windows", sa.BigInteger(), nullable=False),
        sa.Column("memory_max", sa.BigInteger(), nullable=True),
        sa.Column("network_received", sa.Double(), nullable=True),
        sa.Column("network_sent", sa.Double(), nullable=True),
        sa.Column("disk_read", sa.Double(), nullable=True),
        sa.Column("disk_written", sa.Double(), nullable=True),
        sa.Column("accelerator_sum", sa.Double(), nullable=False),
        sa.Column("accelerator_time", sa.Double(), nullable=False),
        sa.Column("accelerator_memory_max", sa.BigInteger(), nullable=True),
    ]


def _all_due(series: str, subject: str) -> str:
    hour = (
        "TIMESTAMP(DATE(s.ended_at), MAKETIME(HOUR(s.ended_at), 0, 0))"
        if on_mysql()
        else "strftime('%Y-%m-%d %H:00:00.000000', s.ended_at)"
    )
    return (
        f"INSERT INTO rollup_due (series, subject_id, hour, changes) SELECT '{series}', g.subject, g.hour, 1 "
        f"FROM (SELECT DISTINCT s.{subject} AS subject, {hour} AS hour FROM {series} s) g "
        f"LEFT JOIN rollup_due d ON d.series = '{series}' AND d.subject_id = g.subject AND d.hour = g.hour "
        "WHERE d.series IS NULL"
    )
