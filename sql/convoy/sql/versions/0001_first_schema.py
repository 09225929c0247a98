"""The first schema: jobs, their reports, recommendations, plans, and imported history.

Revision: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from convoy.sql.steps import create_index, create_table
from convoy.sql.types import ID, TABLE_OPTIONS, TIME_SERIES_OPTIONS, UtcDateTime, name_type

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create everything."""
    _jobs()
    _series()
    _advice()
    _history()


def _jobs() -> None:
    create_table(
        "job",
        sa.Column("id", ID, primary_key=True, autoincrement=True),
        sa.Column("uid", name_type(64), nullable=False),
        sa.Column("name", name_type(253), nullable=False),
        sa.Column("namespace", name_type(63), nullable=False),
        sa.Column("template", name_type(255), nullable=False),
        sa.Column("image", name_type(1024), nullable=False),
        sa.Column("user", name_type(255), nullable=False),
        sa.Column("strategy", name_type(32), nullable=False),
        sa.Column("model", name_type(255), nullable=False),
        sa.Column("cluster", name_type(255), nullable=False),
        sa.Column("node_type", name_type(255), nullable=False),
        sa.Column("state", name_type(32), nullable=False),
        sa.Column("origin", name_type(16), nullable=False),
        sa.Column("first_seen", UtcDateTime(), nullable=False),
        sa.Column("last_seen", UtcDateTime(), nullable=False),
        sa.UniqueConstraint("uid", name="uq_job_uid"),
        **TABLE_OPTIONS,
    )
    create_index("ix_job_name", "job", ["name", "namespace"])
    create_index("ix_job_template", "job", ["template"])
    create_index("ix_job_last_seen", "job", ["last_seen"])
    create_table(
        "job_feature",
        sa.Column("job_id", ID, nullable=False),
        sa.Column("name", name_type(128), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "name"),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_job_feature_job"),
        **TABLE_OPTIONS,
    )
    create_table(
        "reporter",
        sa.Column("id", ID, primary_key=True, autoincrement=True),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("sender", name_type(253), nullable=False),
        sa.Column("incarnation", sa.BigInteger(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("last_seen", UtcDateTime(), nullable=False),
        sa.UniqueConstraint("job_id", "sender", "incarnation", name="uq_reporter_job_sender_incarnation"),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_reporter_job"),
        **TABLE_OPTIONS,
    )


def _series() -> None:
    create_table(
        "training_speed",
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=False),
        sa.Column("round", sa.BigInteger(), nullable=False),
        sa.Column("last_step", sa.BigInteger(), nullable=False),
        sa.Column("first_step", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("samples", sa.Double(), nullable=False),
        sa.Column("samples_per_second", sa.Double(), sa.Computed("samples / seconds", persisted=True), nullable=True),
        sa.Column("workers", sa.Integer(), nullable=False),
        sa.Column("ps", sa.Integer(), nullable=False),
        sa.Column("nodes", sa.Integer(), nullable=True),
        sa.Column("batch_size", sa.Integer(), nullable=True),
        sa.Column("accumulation_steps", sa.Integer(), nullable=True),
        sa.Column("warming", sa.Boolean(), nullable=False),
        sa.Column("compute_seconds", sa.Double(), nullable=True),
        sa.Column("origin", name_type(16), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "ended_at", "round", "last_step"),
        **TIME_SERIES_OPTIONS,
    )
    create_table(
        "node_load",
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=False),
        sa.Column("node", name_type(253), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("role", name_type(32), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("round", sa.BigInteger(), nullable=False),
        sa.Column("cpu_cores", sa.Double(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("cpu_allotted", sa.Double(), nullable=True),
        sa.Column("memory_allotted", sa.BigInteger(), nullable=True),
        sa.Column("origin", name_type(16), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "ended_at", "node"),
        **TIME_SERIES_OPTIONS,
    )
    create_table(
        "job_event",
        sa.Column("id", ID, primary_key=True, autoincrement=True),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("happened_at", UtcDateTime(), nullable=False),
        sa.Column("reason", name_type(128), nullable=False),
        sa.Column("node", name_type(253), nullable=False),
        sa.Column("round", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.UniqueConstraint("job_id", "happened_at", "reason", "node", name="uq_job_event_job_time_reason_node"),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_job_event_job"),
        **TABLE_OPTIONS,
    )
    create_index("ix_job_event_reason", "job_event", ["reason", "happened_at"])


def _advice() -> None:
    create_table(
        "recommendation",
        sa.Column("id", name_type(36), nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("made_at", UtcDateTime(), nullable=False),
        sa.Column("stage", name_type(16), nullable=False),
        sa.Column("decision", name_type(16), nullable=False),
        sa.Column("reason", name_type(128), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("workers_before", sa.Integer(), nullable=False),
        sa.Column("free_cpu", sa.Double(), nullable=True),
        sa.Column("workers", sa.Integer(), nullable=True),
        sa.Column("ps", sa.Integer(), nullable=True),
        sa.Column("worker_cpu", sa.Double(), nullable=True),
        sa.Column("worker_memory", sa.BigInteger(), nullable=True),
        sa.Column("ps_cpu", sa.Double(), nullable=True),
        sa.Column("ps_memory", sa.BigInteger(), nullable=True),
        sa.Column("predicted", sa.Double(), nullable=True),
        sa.Column("lower90", sa.Double(), nullable=True),
        sa.Column("upper90", sa.Double(), nullable=True),
        sa.Column("lower99", sa.Double(), nullable=True),
        sa.Column("upper99", sa.Double(), nullable=True),
        sa.Column("price_per_hour", sa.Double(), nullable=True),
        sa.Column("currency", name_type(8), nullable=False),
        sa.Column("observations", sa.Integer(), nullable=False),
        sa.Column("history_jobs", sa.Integer(), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_recommendation_job"),
        **TABLE_OPTIONS,
    )
    create_index("ix_recommendation_job_made_at", "recommendation", ["job_id", "made_at"])
    create_index("ix_recommendation_made_at", "recommendation", ["made_at"])
    create_table(
        "scale_plan",
        sa.Column("id", ID, primary_key=True, autoincrement=True),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("name", name_type(253), nullable=False),
        sa.Column("recommendation_id", name_type(36), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("carried_out_at", UtcDateTime(), nullable=True),
        sa.Column("workers_before", sa.Integer(), nullable=False),
        sa.Column("workers_after", sa.Integer(), nullable=False),
        sa.Column("predicted", sa.Double(), nullable=True),
        sa.Column("predicted_lower", sa.Double(), nullable=True),
        sa.Column("predicted_upper", sa.Double(), nullable=True),
        sa.Column("realized", sa.Double(), nullable=True),
        sa.Column("realized_seconds", sa.Double(), nullable=True),
        sa.Column("restart_seconds", sa.Double(), nullable=True),
        sa.Column("reason", name_type(128), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("rolled_back", sa.Boolean(), nullable=False),
        sa.UniqueConstraint("job_id", "name", name="uq_scale_plan_job_name"),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_scale_plan_job"),
        sa.ForeignKeyConstraint(["recommendation_id"], ["recommendation.id"], name="fk_scale_plan_recommendation"),
        **TABLE_OPTIONS,
    )
    create_index("ix_scale_plan_created_at", "scale_plan", ["created_at"])
    create_index("ix_scale_plan_recommendation", "scale_plan", ["recommendation_id"])


def _history() -> None:
    names = ("job", "template", "model", "strategy", "mode", "cluster", "accelerator", "node_type")
    create_table(
        "history_observation",
        sa.Column("id", ID, primary_key=True, autoincrement=True),
        sa.Column("digest", sa.CHAR(64), nullable=False),
        sa.Column("origin", name_type(16), nullable=False),
        sa.Column("source", name_type(255), nullable=False),
        sa.Column("imported_at", UtcDateTime(), nullable=False),
        *(sa.Column(name, name_type(255), nullable=name != "job") for name in names),
        sa.Column("workers", sa.Integer(), nullable=False),
        sa.Column("ps", sa.Integer(), nullable=True),
        sa.Column("nodes", sa.Integer(), nullable=True),
        sa.Column("accelerators_per_worker", sa.Double(), nullable=True),
        sa.Column("batch_size", sa.Double(), nullable=True),
        sa.Column("accumulation_steps", sa.Double(), nullable=True),
        sa.Column("worker_cpu", sa.Double(), nullable=True),
        sa.Column("ps_cpu", sa.Double(), nullable=True),
        sa.Column("cluster_cpu", sa.Double(), nullable=True),
        sa.Column("worker_memory", sa.Double(), nullable=True),
        sa.Column("ps_memory", sa.Double(), nullable=True),
        sa.Column("worker_memory_used", sa.Double(), nullable=True),
        sa.Column("ps_memory_used", sa.Double(), nullable=True),
        sa.Column("worker_cpu_used", sa.Double(), nullable=True),
        sa.Column("ps_cpu_used", sa.Double(), nullable=True),
        sa.Column("ps_cpu_used_max", sa.Double(), nullable=True),
        sa.Column("compute_seconds", sa.Double(), nullable=True),
        sa.Column("throughput", sa.Double(), nullable=True),
        sa.Column("throughput_sd", sa.Double(), nullable=True),
        sa.Column("observed_at", UtcDateTime(), nullable=True),
        sa.Column("window_seconds", sa.Double(), nullable=True),
        sa.Column("status", name_type(16), nullable=False),
        sa.Column("grad_sqr", sa.Double(), nullable=True),
        sa.Column("grad_var", sa.Double(), nullable=True),
        sa.UniqueConstraint("digest", name="uq_history_observation_digest"),
        **TABLE_OPTIONS,
    )
    create_index("ix_history_observation_job", "history_observation", ["job"])
    create_index("ix_history_observation_template", "history_observation", ["template"])


def downgrade() -> None:
    """Drop everything."""
    for table in (
        "history_observation",
        "scale_plan",
        "recommendation",
        "job_event",
        "node_load",
        "training_speed",
        "reporter",
        "job_feature",
        "job",
    ):
        op.drop_table(table)
