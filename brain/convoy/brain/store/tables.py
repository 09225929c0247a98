"""The store's tables, typed. The migrations in ``sql/`` make them; a test compares the two.

Units: seconds, samples/s, cores, bytes; moments are UTC. NULL is "not known". ``origin`` tells measurements of our
own jobs ("measured") from history that somebody imported ("imported"); both count alike, and nothing is deleted.
A row that two reports carry is one row: the keys say what makes two measurements the same.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from convoy.sql.types import ID, TABLE_OPTIONS, TIME_SERIES_OPTIONS, UtcDateTime, name_type

MEASURED = "measured"
IMPORTED = "imported"


class Base(DeclarativeBase):
    """Root of the tables."""


class Job(Base):
    """A training job as its master describes it; the first report makes the row."""

    __tablename__ = "job"
    __table_args__ = (
        sa.UniqueConstraint("uid", name="uq_job_uid"),
        sa.Index("ix_job_name", "name", "namespace"),
        sa.Index("ix_job_template", "template"),
        sa.Index("ix_job_last_seen", "last_seen"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(ID, primary_key=True, autoincrement=True)
    uid: Mapped[str] = mapped_column(name_type(64))
    name: Mapped[str] = mapped_column(name_type(253))
    namespace: Mapped[str] = mapped_column(name_type(63))
    template: Mapped[str] = mapped_column(name_type(255), doc="what runs: jobs of one template run the same program")
    image: Mapped[str] = mapped_column(name_type(1024))
    user: Mapped[str] = mapped_column(name_type(255))
    strategy: Mapped[str] = mapped_column(name_type(32), doc="ps | allreduce")
    model: Mapped[str] = mapped_column(name_type(255))
    cluster: Mapped[str] = mapped_column(name_type(255))
    node_type: Mapped[str] = mapped_column(name_type(255))
    state: Mapped[str] = mapped_column(name_type(32), doc="Waiting | Running | Succeeded | Failed, as last reported")
    origin: Mapped[str] = mapped_column(name_type(16), default=MEASURED)
    first_seen: Mapped[datetime] = mapped_column(UtcDateTime())
    last_seen: Mapped[datetime] = mapped_column(UtcDateTime())


class JobFeature(Base):
    """A number that describes a job's model, data set or hyper-parameters."""

    __tablename__ = "job_feature"
    __table_args__ = (
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_job_feature_job"),
        TABLE_OPTIONS,
    )

    job_id: Mapped[int] = mapped_column(ID, primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(name_type(128), primary_key=True)
    value: Mapped[float] = mapped_column(sa.Double())


class Reporter(Base):
    """A process that reports for a job, and the number of its last report that is stored."""

    __tablename__ = "reporter"
    __table_args__ = (
        sa.UniqueConstraint("job_id", "sender", "incarnation", name="uq_reporter_job_sender_incarnation"),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_reporter_job"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(ID, primary_key=True, autoincrement=True)
    job_id: Mapped[int] = mapped_column(ID)
    sender: Mapped[str] = mapped_column(name_type(253))
    incarnation: Mapped[int] = mapped_column(sa.BigInteger())
    sequence: Mapped[int] = mapped_column(sa.BigInteger(), doc="the watermark: of reports up to it, none is new")
    last_seen: Mapped[datetime] = mapped_column(UtcDateTime())


class TrainingSpeed(Base):
    """The speed over one window of whole steps at one configuration."""

    __tablename__ = "training_speed"
    __table_args__ = (TIME_SERIES_OPTIONS,)

    job_id: Mapped[int] = mapped_column(sa.BigInteger(), primary_key=True, autoincrement=False)
    ended_at: Mapped[datetime] = mapped_column(UtcDateTime(), primary_key=True)
    round: Mapped[int] = mapped_column(sa.BigInteger(), primary_key=True, autoincrement=False)
    last_step: Mapped[int] = mapped_column(sa.BigInteger(), primary_key=True, autoincrement=False)
    first_step: Mapped[int] = mapped_column(sa.BigInteger())
    seconds: Mapped[float] = mapped_column(sa.Double())
    samples: Mapped[float] = mapped_column(sa.Double(), doc="trained in the window, all workers together")
    samples_per_second: Mapped[float | None] = mapped_column(
        sa.Double(), sa.Computed("samples / seconds", persisted=True)
    )
    workers: Mapped[int] = mapped_column(sa.Integer(), doc="processes in the round")
    ps: Mapped[int] = mapped_column(sa.Integer())
    nodes: Mapped[int | None] = mapped_column(sa.Integer())
    batch_size: Mapped[int | None] = mapped_column(sa.Integer(), doc="per worker and micro-step")
    accumulation_steps: Mapped[int | None] = mapped_column(sa.Integer())
    warming: Mapped[bool] = mapped_column(sa.Boolean(), doc="the first window of a round")
    compute_seconds: Mapped[float | None] = mapped_column(sa.Double(), doc="part of a step outside collectives")
    origin: Mapped[str] = mapped_column(name_type(16), default=MEASURED)


class NodeLoad(Base):
    """CPU and memory of one node's process tree over a window."""

    __tablename__ = "node_load"
    __table_args__ = (TIME_SERIES_OPTIONS,)

    job_id: Mapped[int] = mapped_column(sa.BigInteger(), primary_key=True, autoincrement=False)
    ended_at: Mapped[datetime] = mapped_column(UtcDateTime(), primary_key=True)
    node: Mapped[str] = mapped_column(name_type(253), primary_key=True, doc="pod name")
    seconds: Mapped[float] = mapped_column(sa.Double())
    role: Mapped[str] = mapped_column(name_type(32))
    rank: Mapped[int] = mapped_column(sa.Integer())
    round: Mapped[int] = mapped_column(sa.BigInteger())
    cpu_cores: Mapped[float] = mapped_column(sa.Double(), doc="used, mean of the window")
    memory_bytes: Mapped[int] = mapped_column(sa.BigInteger(), doc="used at its end")
    cpu_allotted: Mapped[float | None] = mapped_column(sa.Double())
    memory_allotted: Mapped[int | None] = mapped_column(sa.BigInteger())
    origin: Mapped[str] = mapped_column(name_type(16), default=MEASURED)


class JobEvent(Base):
    """Something that happened to a job."""

    __tablename__ = "job_event"
    __table_args__ = (
        sa.UniqueConstraint("job_id", "happened_at", "reason", "node", name="uq_job_event_job_time_reason_node"),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_job_event_job"),
        sa.Index("ix_job_event_reason", "reason", "happened_at"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(ID, primary_key=True, autoincrement=True)
    job_id: Mapped[int] = mapped_column(ID)
    happened_at: Mapped[datetime] = mapped_column(UtcDateTime())
    reason: Mapped[str] = mapped_column(name_type(128), doc="stable CamelCase")
    node: Mapped[str] = mapped_column(name_type(253), doc="pod name; empty: of the job as a whole")
    round: Mapped[int] = mapped_column(sa.BigInteger())
    step: Mapped[int | None] = mapped_column(sa.BigInteger(), doc="last step known to be finished")
    message: Mapped[str] = mapped_column(sa.Text())
    evidence: Mapped[dict[str, str]] = mapped_column(sa.JSON())


class Recommendation(Base):
    """What the Brain said of a job, and on what ground."""

    __tablename__ = "recommendation"
    __table_args__ = (
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_recommendation_job"),
        sa.Index("ix_recommendation_job_made_at", "job_id", "made_at"),
        sa.Index("ix_recommendation_made_at", "made_at"),
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


class ScalePlan(Base):
    """A change that was made to a job, what was predicted of it, and what came of it."""

    __tablename__ = "scale_plan"
    __table_args__ = (
        sa.UniqueConstraint("job_id", "name", name="uq_scale_plan_job_name"),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_scale_plan_job"),
        sa.ForeignKeyConstraint(["recommendation_id"], ["recommendation.id"], name="fk_scale_plan_recommendation"),
        sa.Index("ix_scale_plan_created_at", "created_at"),
        sa.Index("ix_scale_plan_recommendation", "recommendation_id"),
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


class HistoryObservation(Base):
    """A past job's mean speed and load at one configuration, in the throughput model's columns."""

    __tablename__ = "history_observation"
    __table_args__ = (
        sa.UniqueConstraint("digest", name="uq_history_observation_digest"),
        sa.Index("ix_history_observation_job", "job"),
        sa.Index("ix_history_observation_template", "template"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(ID, primary_key=True, autoincrement=True)
    digest: Mapped[str] = mapped_column(sa.CHAR(64), doc="of the row's content: imported once, however often")
    origin: Mapped[str] = mapped_column(name_type(16), default=IMPORTED)
    source: Mapped[str] = mapped_column(name_type(255), doc="name of the file")
    imported_at: Mapped[datetime] = mapped_column(UtcDateTime())
    job: Mapped[str] = mapped_column(name_type(255))
    template: Mapped[str | None] = mapped_column(name_type(255))
    model: Mapped[str | None] = mapped_column(name_type(255))
    strategy: Mapped[str | None] = mapped_column(name_type(255))
    mode: Mapped[str | None] = mapped_column(name_type(255))
    cluster: Mapped[str | None] = mapped_column(name_type(255))
    accelerator: Mapped[str | None] = mapped_column(name_type(255))
    node_type: Mapped[str | None] = mapped_column(name_type(255))
    workers: Mapped[int] = mapped_column(sa.Integer())
    ps: Mapped[int | None] = mapped_column(sa.Integer())
    nodes: Mapped[int | None] = mapped_column(sa.Integer())
    accelerators_per_worker: Mapped[float | None] = mapped_column(sa.Double())
    batch_size: Mapped[float | None] = mapped_column(sa.Double())
    accumulation_steps: Mapped[float | None] = mapped_column(sa.Double())
    worker_cpu: Mapped[float | None] = mapped_column(sa.Double())
    ps_cpu: Mapped[float | None] = mapped_column(sa.Double())
    cluster_cpu: Mapped[float | None] = mapped_column(sa.Double(), doc="cores that the job could have")
    worker_memory: Mapped[float | None] = mapped_column(sa.Double())
    ps_memory: Mapped[float | None] = mapped_column(sa.Double())
    worker_memory_used: Mapped[float | None] = mapped_column(sa.Double())
    ps_memory_used: Mapped[float | None] = mapped_column(sa.Double())
    worker_cpu_used: Mapped[float | None] = mapped_column(sa.Double())
    ps_cpu_used: Mapped[float | None] = mapped_column(sa.Double())
    ps_cpu_used_max: Mapped[float | None] = mapped_column(sa.Double())
    compute_seconds: Mapped[float | None] = mapped_column(sa.Double())
    throughput: Mapped[float | None] = mapped_column(sa.Double())
    throughput_sd: Mapped[float | None] = mapped_column(sa.Double())
    observed_at: Mapped[datetime | None] = mapped_column(UtcDateTime())
    window_seconds: Mapped[float | None] = mapped_column(sa.Double())
    status: Mapped[str] = mapped_column(name_type(16), doc="ok | failed | oom | warming")
    grad_sqr: Mapped[float | None] = mapped_column(sa.Double())
    grad_var: Mapped[float | None] = mapped_column(sa.Double())
