"""Clusters, machines, attempts, pods; the load of machines beside that of pods; models and runs of the batch.

Revision: 0002
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import context

from convoy.sql.steps import add_column, create_index, create_table, execute, has_column, on_mysql
from convoy.sql.types import ID, TABLE_OPTIONS, TIME_SERIES_OPTIONS, UtcDateTime, name_type

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the new tables and columns; bring what 0001 holds over."""
    _clusters()
    _jobs()
    _loads()
    _models()


def _clusters() -> None:
    create_table(
        "cluster",
        sa.Column("id", ID, primary_key=True, autoincrement=True),
        sa.Column("name", name_type(255), nullable=False),
        sa.Column("uid", name_type(64), nullable=False),
        sa.Column("version", name_type(64), nullable=False),
        sa.Column("first_seen", UtcDateTime(), nullable=False),
        sa.Column("last_seen", UtcDateTime(), nullable=False),
        sa.UniqueConstraint("name", name="uq_cluster_name"),
        **TABLE_OPTIONS,
    )
    create_table(
        "node",
        sa.Column("id", ID, primary_key=True, autoincrement=True),
        sa.Column("cluster_id", ID, nullable=False),
        sa.Column("name", name_type(253), nullable=False),
        sa.Column("uid", name_type(64), nullable=False),
        sa.Column("node_type", name_type(255), nullable=False),
        sa.Column("zone", name_type(255), nullable=False),
        sa.Column("accelerator", name_type(255), nullable=False),
        sa.Column("cpu_capacity", sa.Double(), nullable=True),
        sa.Column("memory_capacity", sa.BigInteger(), nullable=True),
        sa.Column("accelerators_capacity", sa.Double(), nullable=True),
        sa.Column("cpu_allocatable", sa.Double(), nullable=True),
        sa.Column("memory_allocatable", sa.BigInteger(), nullable=True),
        sa.Column("accelerators_allocatable", sa.Double(), nullable=True),
        sa.Column("ready", sa.Boolean(), nullable=True),
        sa.Column("schedulable", sa.Boolean(), nullable=True),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("first_seen", UtcDateTime(), nullable=False),
        sa.Column("last_seen", UtcDateTime(), nullable=False),
        sa.Column("gone_at", UtcDateTime(), nullable=True),
        sa.UniqueConstraint("cluster_id", "name", name="uq_node_cluster_name"),
        sa.ForeignKeyConstraint(["cluster_id"], ["cluster.id"], name="fk_node_cluster"),
        **TABLE_OPTIONS,
    )
    create_table(
        "node_event",
        sa.Column("id", ID, primary_key=True, autoincrement=True),
        sa.Column("node_id", ID, nullable=False),
        sa.Column("happened_at", UtcDateTime(), nullable=False),
        sa.Column("reason", name_type(128), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.UniqueConstraint("node_id", "happened_at", "reason", name="uq_node_event_node_time_reason"),
        sa.ForeignKeyConstraint(["node_id"], ["node.id"], name="fk_node_event_node"),
        **TABLE_OPTIONS,
    )
    create_index("ix_node_event_happened_at", "node_event", ["happened_at"])


def _jobs() -> None:
    columns: dict[str, list[sa.Column[Any]]] = {
        "job": [
            sa.Column("mode", name_type(16), nullable=False, server_default=""),
            sa.Column("optimize_mode", name_type(32), nullable=False, server_default=""),
            sa.Column("model_parameters", sa.Double(), nullable=True),
            sa.Column("dataset", name_type(255), nullable=False, server_default=""),
            sa.Column("dataset_samples", sa.Double(), nullable=True),
            sa.Column("batch_size", sa.Double(), nullable=True),
            sa.Column("learning_rate", sa.Double(), nullable=True),
            sa.Column("accelerator", name_type(255), nullable=False, server_default=""),
            sa.Column("gone_at", UtcDateTime(), nullable=True),
        ],
        "reporter": [
            sa.Column("refused", sa.BigInteger(), nullable=False, server_default="0"),
            sa.Column("speed_round", sa.BigInteger(), nullable=False, server_default="0"),
            sa.Column("speed_step", sa.BigInteger(), nullable=False, server_default="0"),
            sa.Column("speed_ended_at", UtcDateTime(), nullable=True),
        ],
        "scale_plan": [
            sa.Column("uid", name_type(64), nullable=False, server_default=""),
            sa.Column("phase", name_type(32), nullable=False, server_default=""),
            sa.Column("gone_at", UtcDateTime(), nullable=True),
        ],
    }
    for table, added in columns.items():
        for column in added:
            add_column(table, column)
    create_index("ix_job_user", "job", ["user"])
    create_index("ix_scale_plan_uid", "scale_plan", ["uid"])
    create_index("ix_job_event_happened_at", "job_event", ["happened_at"])
    create_table(
        "job_attempt",
        sa.Column("job_id", ID, nullable=False),
        sa.Column("round", sa.BigInteger(), nullable=False),
        sa.Column("workers", sa.Integer(), nullable=False),
        sa.Column("ps", sa.Integer(), nullable=False),
        sa.Column("nodes", sa.Integer(), nullable=True),
        sa.Column("batch_size", sa.Integer(), nullable=True),
        sa.Column("accumulation_steps", sa.Integer(), nullable=True),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=False),
        sa.Column("first_step", sa.BigInteger(), nullable=False),
        sa.Column("last_step", sa.BigInteger(), nullable=False),
        sa.Column("steady_since", UtcDateTime(), nullable=True),
        sa.Column("steady_until", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("job_id", "round"),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_job_attempt_job"),
        **TABLE_OPTIONS,
    )
    create_table(
        "job_node",
        sa.Column("id", ID, primary_key=True, autoincrement=True),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("name", name_type(253), nullable=False),
        sa.Column("uid", name_type(64), nullable=False),
        sa.Column("role", name_type(32), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=True),
        sa.Column("node_id", ID, nullable=True),
        sa.Column("cpu_allotted", sa.Double(), nullable=True),
        sa.Column("memory_allotted", sa.BigInteger(), nullable=True),
        sa.Column("accelerators", sa.Double(), nullable=True),
        sa.Column("phase", name_type(32), nullable=False),
        sa.Column("reason", name_type(128), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("restarts", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=True),
        sa.Column("started_at", UtcDateTime(), nullable=True),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.Column("gone_at", UtcDateTime(), nullable=True),
        sa.UniqueConstraint("job_id", "name", name="uq_job_node_job_name"),
        sa.ForeignKeyConstraint(["node_id"], ["node.id"], name="fk_job_node_node"),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_job_node_job"),
        **TABLE_OPTIONS,
    )
    create_index("ix_job_node_node", "job_node", ["node_id"])
    create_index("ix_job_node_uid", "job_node", ["uid"])
    create_index("ix_job_node_name", "job_node", ["name"])
    begun = (
        "DATE_SUB(s.ended_at, INTERVAL ROUND(s.seconds * 1000000) MICROSECOND)"
        if on_mysql()
        else "strftime('%Y-%m-%d %H:%M:%f', s.ended_at, '-' || s.seconds || ' seconds') || '000'"
    )
    execute(
        "INSERT INTO job_attempt (job_id, round, workers, ps, nodes, batch_size, accumulation_steps, started_at, "
        "ended_at, first_step, last_step, steady_since, steady_until) "
        "SELECT s.job_id, s.round, MAX(s.workers), MAX(s.ps), MAX(s.nodes), MAX(s.batch_size), "
        f"MAX(s.accumulation_steps), MIN({begun}), MAX(s.ended_at), MIN(s.first_step), MAX(s.last_step), "
        "MIN(CASE WHEN s.warming THEN NULL ELSE s.ended_at END), "
        "MAX(CASE WHEN s.warming THEN NULL ELSE s.ended_at END) "
        "FROM training_speed s JOIN job j ON j.id = s.job_id LEFT JOIN job_attempt a "
        "ON a.job_id = s.job_id AND a.round = s.round WHERE a.job_id IS NULL GROUP BY s.job_id, s.round"
    )


def _loads() -> None:
    """What was the load of pods becomes ``job_node_load``; ``node_load`` is that of machines from now on."""
    create_table(
        "job_node_load",
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=False),
        sa.Column("node", name_type(253), nullable=False),
        sa.Column("source", name_type(16), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("role", name_type(32), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=True),
        sa.Column("round", sa.BigInteger(), nullable=False),
        sa.Column("cpu_allotted", sa.Double(), nullable=True),
        sa.Column("memory_allotted", sa.BigInteger(), nullable=True),
        sa.Column("cpu_cores", sa.Double(), nullable=True),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("network_received", sa.Double(), nullable=True),
        sa.Column("network_sent", sa.Double(), nullable=True),
        sa.Column("disk_read", sa.Double(), nullable=True),
        sa.Column("disk_written", sa.Double(), nullable=True),
        sa.Column("accelerator_busy", sa.Double(), nullable=True),
        sa.Column("accelerator_memory", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("job_id", "ended_at", "node", "source"),
        **TIME_SERIES_OPTIONS,
    )
    # Rendered as a script, this runs after 0001, which made the old table.
    if context.is_offline_mode() or has_column("node_load", "job_id"):
        execute(
            "INSERT INTO job_node (job_id, name, uid, role, `rank`, cpu_allotted, memory_allotted, phase, reason, "
            "restarts) SELECT l.job_id, l.node, '', MAX(l.role), MAX(l.`rank`), MAX(l.cpu_allotted), "
            "MAX(l.memory_allotted), '', '', 0 FROM node_load l JOIN job j ON j.id = l.job_id LEFT JOIN job_node n "
            "ON n.job_id = l.job_id AND n.name = l.node WHERE n.id IS NULL GROUP BY l.job_id, l.node"
        )
        execute(
            "INSERT INTO job_node_load (job_id, ended_at, node, source, seconds, role, `rank`, round, cpu_cores, "
            "memory_bytes, cpu_allotted, memory_allotted) SELECT l.job_id, l.ended_at, l.node, 'agent', l.seconds, "
            "l.role, l.`rank`, l.round, l.cpu_cores, l.memory_bytes, l.cpu_allotted, l.memory_allotted "
            "FROM node_load l LEFT JOIN job_node_load n ON n.job_id = l.job_id AND n.ended_at = l.ended_at "
            "AND n.node = l.node AND n.source = 'agent' WHERE n.job_id IS NULL"
        )
        execute("DROP TABLE node_load")
    create_table(
        "node_load",
        sa.Column("node_id", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("cpu_cores", sa.Double(), nullable=True),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("network_received", sa.Double(), nullable=True),
        sa.Column("network_sent", sa.Double(), nullable=True),
        sa.Column("disk_read", sa.Double(), nullable=True),
        sa.Column("disk_written", sa.Double(), nullable=True),
        sa.Column("accelerator_busy", sa.Double(), nullable=True),
        sa.Column("accelerator_memory", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("node_id", "ended_at"),
        **TIME_SERIES_OPTIONS,
    )


def _models() -> None:
    create_table(
        "model_version",
        sa.Column("id", ID, primary_key=True, autoincrement=True),
        sa.Column("name", name_type(64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("digest", sa.CHAR(64), nullable=False),
        sa.Column("stage", name_type(16), nullable=False),
        sa.Column("code_version", name_type(64), nullable=False),
        sa.Column("schema_hash", sa.CHAR(64), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("trained_from", UtcDateTime(), nullable=True),
        sa.Column("trained_until", UtcDateTime(), nullable=True),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("jobs", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("file", name_type(1024), nullable=False),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.UniqueConstraint("name", "version", name="uq_model_version_name_version"),
        sa.UniqueConstraint("name", "digest", name="uq_model_version_name_digest"),
        **TABLE_OPTIONS,
    )
    create_table(
        "optimization_run",
        sa.Column("id", ID, primary_key=True, autoincrement=True),
        sa.Column("window_from", UtcDateTime(), nullable=False),
        sa.Column("window_until", UtcDateTime(), nullable=False),
        sa.Column("mode", name_type(16), nullable=False),
        sa.Column("engine", name_type(255), nullable=False),
        sa.Column("state", name_type(16), nullable=False),
        sa.Column("stage", name_type(32), nullable=False),
        sa.Column("began_at", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.Column("deadline_at", UtcDateTime(), nullable=True),
        sa.Column("jobs", sa.Integer(), nullable=False),
        sa.Column("recommendations", sa.Integer(), nullable=False),
        sa.Column("plans", sa.Integer(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("report", sa.JSON(), nullable=False),
        sa.UniqueConstraint("window_from", "window_until", "mode", name="uq_optimization_run_window_mode"),
        **TABLE_OPTIONS,
    )
