"""What the Brain says, on what ground, and what came of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from convoy.brain.store.tables.base import Base
from convoy.sql.types import ID, TABLE_OPTIONS, UtcDateTime, name_type


class Recommendation(Base):
    """What the Brain said of a job, and on what ground."""

    __tablename__ = "recommendation"
    __table_args__ = (
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_recommendation_job"),
        sa.ForeignKeyConstraint(["run_id"], ["optimization_run.id"], name="fk_recommendation_run"),
        sa.Index("ix_recommendation_job_made_at", "job_id", "made_at"),
        sa.Index("ix_recommendation_made_at", "made_at"),
        sa.Index("ix_recommendation_run", "run_id"),
        sa.Index("ix_recommendation_status", "status", "made_at"),
        TABLE_OPTIONS,
    )

    id: Mapped[str] = mapped_column(name_type(36), primary_key=True)
    job_id: Mapped[int] = mapped_column(ID)
    made_at: Mapped[datetime] = mapped_column(UtcDateTime())
    stage: Mapped[str] = mapped_column(name_type(16), doc="START | RUNNING")
    decision: Mapped[str] = mapped_column(name_type(16), doc="UNDEFINED | KEEP | CHANGE | EXPLORE")
    reason: Mapped[str] = mapped_column(name_type(128), doc="stable CamelCase")
    message: Mapped[str] = mapped_column(sa.Text())
    workers_before: Mapped[int] = mapped_column(sa.Integer())
    free_cpu: Mapped[float | None] = mapped_column(sa.Double(), doc="cores that the job could have, its own included")
    workers: Mapped[int | None] = mapped_column(sa.Integer(), doc="of the target")
    ps: Mapped[int | None] = mapped_column(sa.Integer())
    worker_cpu: Mapped[float | None] = mapped_column(sa.Double())
    worker_memory: Mapped[int | None] = mapped_column(sa.BigInteger())
    ps_cpu: Mapped[float | None] = mapped_column(sa.Double())
    ps_memory: Mapped[int | None] = mapped_column(sa.BigInteger())
    predicted: Mapped[float | None] = mapped_column(sa.Double(), doc="samples/s at the target")
    lower90: Mapped[float | None] = mapped_column(sa.Double())
    upper90: Mapped[float | None] = mapped_column(sa.Double())
    lower99: Mapped[float | None] = mapped_column(sa.Double())
    upper99: Mapped[float | None] = mapped_column(sa.Double())
    price_per_hour: Mapped[float | None] = mapped_column(sa.Double())
    currency: Mapped[str] = mapped_column(name_type(8))
    observations: Mapped[int] = mapped_column(sa.Integer(), doc="of this job")
    history_jobs: Mapped[int] = mapped_column(sa.Integer(), doc="whose evidence formed the prior")
    options: Mapped[list[dict[str, Any]]] = mapped_column(sa.JSON(), doc="everything that was weighed")
    request: Mapped[dict[str, Any]] = mapped_column(sa.JSON(), doc="what was asked: current size, limits, horizon")
    evidence: Mapped[dict[str, Any]] = mapped_column(sa.JSON(), doc="the observations and the model's terms")
    seconds: Mapped[float] = mapped_column(sa.Double(), doc="that the answer took")
    run_id: Mapped[int | None] = mapped_column(ID, doc="the batch's run that made it; NULL: a master asked")
    status: Mapped[str] = mapped_column(
        name_type(16), default="", doc="proposed | accepted | refused | superseded; empty: nobody decides about it"
    )
    decided_by: Mapped[str] = mapped_column(name_type(255), default="", doc="who accepted or refused it")
    decided_at: Mapped[datetime | None] = mapped_column(UtcDateTime())
    decided_why: Mapped[str | None] = mapped_column(sa.Text())
    plan: Mapped[str] = mapped_column(name_type(253), default="", doc="the ScalePlan that was written for it")


class ScalePlan(Base):
    """A change that was made to a job, what was predicted of it, and what came of it."""

    __tablename__ = "scale_plan"
    __table_args__ = (
        sa.UniqueConstraint("job_id", "name", name="uq_scale_plan_job_name"),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_scale_plan_job"),
        sa.ForeignKeyConstraint(["recommendation_id"], ["recommendation.id"], name="fk_scale_plan_recommendation"),
        sa.Index("ix_scale_plan_created_at", "created_at"),
        sa.Index("ix_scale_plan_recommendation", "recommendation_id"),
        sa.Index("ix_scale_plan_uid", "uid"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(ID, primary_key=True, autoincrement=True)
    job_id: Mapped[int] = mapped_column(ID)
    name: Mapped[str] = mapped_column(name_type(253))
    recommendation_id: Mapped[str | None] = mapped_column(name_type(36), doc="NULL: not the Brain's")
    created_at: Mapped[datetime] = mapped_column(UtcDateTime())
    carried_out_at: Mapped[datetime | None] = mapped_column(UtcDateTime(), doc="first step at the new size")
    workers_before: Mapped[int] = mapped_column(sa.Integer())
    workers_after: Mapped[int] = mapped_column(sa.Integer())
    predicted: Mapped[float | None] = mapped_column(sa.Double(), doc="samples/s")
    predicted_lower: Mapped[float | None] = mapped_column(sa.Double())
    predicted_upper: Mapped[float | None] = mapped_column(sa.Double())
    realized: Mapped[float | None] = mapped_column(sa.Double(), doc="samples/s, after warm-up")
    realized_seconds: Mapped[float | None] = mapped_column(sa.Double())
    restart_seconds: Mapped[float | None] = mapped_column(sa.Double(), doc="last step before to first step after")
    reason: Mapped[str] = mapped_column(name_type(128))
    message: Mapped[str] = mapped_column(sa.Text())
    rolled_back: Mapped[bool] = mapped_column(sa.Boolean())
    uid: Mapped[str] = mapped_column(name_type(64), default="", doc="of its object; empty: only a master told of it")
    phase: Mapped[str] = mapped_column(name_type(32), default="", doc="of its object, as last seen")
    gone_at: Mapped[datetime | None] = mapped_column(UtcDateTime(), doc="when its object was found deleted")


class ModelVersion(Base):
    """A fitted model: what it was fitted to, how good it is, where its file lies."""

    __tablename__ = "model_version"
    __table_args__ = (
        sa.UniqueConstraint("name", "version", name="uq_model_version_name_version"),
        sa.UniqueConstraint("name", "digest", name="uq_model_version_name_digest"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(ID, primary_key=True, autoincrement=True)
    name: Mapped[str] = mapped_column(name_type(64), doc="throughput | load | memory | startup | demand | ...")
    version: Mapped[int] = mapped_column(sa.Integer())
    digest: Mapped[str] = mapped_column(sa.CHAR(64), doc="SHA-256 of its file")
    stage: Mapped[str] = mapped_column(name_type(16), doc="candidate | champion | retired | refused")
    code_version: Mapped[str] = mapped_column(name_type(64), doc="of Convoy, that fitted it")
    schema_hash: Mapped[str] = mapped_column(sa.CHAR(64), doc="SHA-256 of the names and types of its columns")
    created_at: Mapped[datetime] = mapped_column(UtcDateTime())
    trained_from: Mapped[datetime | None] = mapped_column(UtcDateTime(), doc="first moment of what it was fitted to")
    trained_until: Mapped[datetime | None] = mapped_column(UtcDateTime())
    rows: Mapped[int] = mapped_column(sa.BigInteger(), doc="it was fitted to")
    jobs: Mapped[int] = mapped_column(sa.BigInteger(), doc="they came from")
    seconds: Mapped[float] = mapped_column(sa.Double(), doc="that the fit took")
    file: Mapped[str] = mapped_column(name_type(1024), doc="its name in the models folder; empty: it was removed")
    metrics: Mapped[dict[str, Any]] = mapped_column(
        sa.JSON(), doc="of its back-test, the last decision about it, when it was promoted"
    )


class OptimizationRun(Base):
    """A run of the scheduled batch: for which window, how far it came, what it did."""

    __tablename__ = "optimization_run"
    __table_args__ = (
        sa.UniqueConstraint("window_from", "window_until", "mode", name="uq_optimization_run_window_mode"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(ID, primary_key=True, autoincrement=True)
    window_from: Mapped[datetime] = mapped_column(UtcDateTime())
    window_until: Mapped[datetime] = mapped_column(UtcDateTime())
    mode: Mapped[str] = mapped_column(name_type(16), doc="advise | apply")
    engine: Mapped[str] = mapped_column(name_type(255), doc="where models were fitted")
    state: Mapped[str] = mapped_column(name_type(16), doc="running | done | failed")
    stage: Mapped[str] = mapped_column(name_type(32), doc="the last one that was finished")
    began_at: Mapped[datetime] = mapped_column(UtcDateTime())
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime())
    deadline_at: Mapped[datetime | None] = mapped_column(UtcDateTime())
    jobs: Mapped[int] = mapped_column(sa.Integer(), doc="that were planned for")
    recommendations: Mapped[int] = mapped_column(sa.Integer(), doc="that were written")
    plans: Mapped[int] = mapped_column(sa.Integer(), doc="ScalePlans that were applied")
    message: Mapped[str] = mapped_column(sa.Text(), doc="what it came to, or why it failed")
    report: Mapped[dict[str, Any]] = mapped_column(sa.JSON())
    owner: Mapped[str] = mapped_column(name_type(255), default="", doc="process that goes on with it, or did last")
    starts: Mapped[int] = mapped_column(sa.Integer(), default=0, doc="how often it was begun or gone on with")
