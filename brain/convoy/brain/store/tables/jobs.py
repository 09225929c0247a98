"""Jobs: what they are, their attempts, pods and events, and who reports of them."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from convoy.brain.store.tables.base import MEASURED, Base
from convoy.sql.types import ID, TABLE_OPTIONS, UtcDateTime, name_type


class Job(Base):
    """A training job as its master describes it; the first report makes the row."""

    __tablename__ = "job"
    __table_args__ = (
        sa.UniqueConstraint("uid", name="uq_job_uid"),
        sa.Index("ix_job_name", "name", "namespace"),
        sa.Index("ix_job_template", "template"),
        sa.Index("ix_job_last_seen", "last_seen"),
        sa.Index("ix_job_user", "user"),
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
    mode: Mapped[str] = mapped_column(name_type(16), default="", doc="sync | async")
    optimize_mode: Mapped[str] = mapped_column(name_type(32), default="", doc="manual | single-job | cluster")
    model: Mapped[str] = mapped_column(name_type(255))
    model_parameters: Mapped[float | None] = mapped_column(sa.Double(), doc="how many numbers the model learns")
    dataset: Mapped[str] = mapped_column(name_type(255), default="")
    dataset_samples: Mapped[float | None] = mapped_column(sa.Double(), doc="samples of an epoch")
    batch_size: Mapped[float | None] = mapped_column(sa.Double(), doc="of all workers together, as asked for")
    learning_rate: Mapped[float | None] = mapped_column(sa.Double())
    accelerator: Mapped[str] = mapped_column(name_type(255), default="", doc="kind of accelerator; empty: none")
    cluster: Mapped[str] = mapped_column(name_type(255), doc="its name in the table cluster; empty: not told")
    node_type: Mapped[str] = mapped_column(name_type(255))
    state: Mapped[str] = mapped_column(name_type(32), doc="Waiting | Running | Succeeded | Failed, as last reported")
    origin: Mapped[str] = mapped_column(name_type(16), default=MEASURED)
    first_seen: Mapped[datetime] = mapped_column(UtcDateTime())
    last_seen: Mapped[datetime] = mapped_column(UtcDateTime())
    gone_at: Mapped[datetime | None] = mapped_column(UtcDateTime(), doc="when its object was found deleted")


class JobFeature(Base):
    """A number that describes a job and has no column of its own in ``job``."""

    __tablename__ = "job_feature"
    __table_args__ = (
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_job_feature_job"),
        TABLE_OPTIONS,
    )

    job_id: Mapped[int] = mapped_column(ID, primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(name_type(128), primary_key=True)
    value: Mapped[float] = mapped_column(sa.Double())


class JobAttempt(Base):
    """A stretch of training between two restarts: the job's round of that number, and the size that it had."""

    __tablename__ = "job_attempt"
    __table_args__ = (
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_job_attempt_job"),
        TABLE_OPTIONS,
    )

    job_id: Mapped[int] = mapped_column(ID, primary_key=True, autoincrement=False)
    round: Mapped[int] = mapped_column(sa.BigInteger(), primary_key=True, autoincrement=False)
    workers: Mapped[int] = mapped_column(sa.Integer(), doc="processes, in its last window")
    ps: Mapped[int] = mapped_column(sa.Integer())
    nodes: Mapped[int | None] = mapped_column(sa.Integer())
    batch_size: Mapped[int | None] = mapped_column(sa.Integer(), doc="per worker and micro-step")
    accumulation_steps: Mapped[int | None] = mapped_column(sa.Integer())
    started_at: Mapped[datetime] = mapped_column(UtcDateTime(), doc="beginning of its first window")
    ended_at: Mapped[datetime] = mapped_column(UtcDateTime(), doc="end of its last window so far")
    first_step: Mapped[int] = mapped_column(sa.BigInteger())
    last_step: Mapped[int] = mapped_column(sa.BigInteger())
    steady_since: Mapped[datetime | None] = mapped_column(UtcDateTime(), doc="end of the first window past warm-up")
    steady_until: Mapped[datetime | None] = mapped_column(UtcDateTime(), doc="end of the last one so far")


class JobNode(Base):
    """A pod of a job, as the cluster shows it or the job's master told of it."""

    __tablename__ = "job_node"
    __table_args__ = (
        sa.UniqueConstraint("job_id", "name", name="uq_job_node_job_name"),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_job_node_job"),
        sa.ForeignKeyConstraint(["node_id"], ["node.id"], name="fk_job_node_node"),
        sa.Index("ix_job_node_node", "node_id"),
        sa.Index("ix_job_node_uid", "uid"),
        sa.Index("ix_job_node_name", "name"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(ID, primary_key=True, autoincrement=True)
    job_id: Mapped[int] = mapped_column(ID)
    name: Mapped[str] = mapped_column(name_type(253), doc="pod name")
    uid: Mapped[str] = mapped_column(name_type(64), default="", doc="pod uid; empty: only its master told of it")
    role: Mapped[str] = mapped_column(name_type(32))
    rank: Mapped[int | None] = mapped_column(sa.Integer())
    node_id: Mapped[int | None] = mapped_column(ID, doc="the machine; NULL: not placed, or not known")
    cpu_allotted: Mapped[float | None] = mapped_column(sa.Double())
    memory_allotted: Mapped[int | None] = mapped_column(sa.BigInteger())
    accelerators: Mapped[float | None] = mapped_column(sa.Double())
    phase: Mapped[str] = mapped_column(name_type(32), default="", doc="Pending | Running | Succeeded | Failed")
    reason: Mapped[str] = mapped_column(name_type(128), default="", doc="why it ended or waits: OOMKilled, say")
    exit_code: Mapped[int | None] = mapped_column(sa.Integer())
    restarts: Mapped[int] = mapped_column(sa.Integer(), default=0)
    created_at: Mapped[datetime | None] = mapped_column(UtcDateTime())
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime())
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime())
    gone_at: Mapped[datetime | None] = mapped_column(UtcDateTime(), doc="when it was found deleted")


class JobEvent(Base):
    """Something that happened to a job."""

    __tablename__ = "job_event"
    __table_args__ = (
        sa.UniqueConstraint("job_id", "happened_at", "reason", "node", name="uq_job_event_job_time_reason_node"),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name="fk_job_event_job"),
        sa.Index("ix_job_event_reason", "reason", "happened_at"),
        sa.Index("ix_job_event_happened_at", "happened_at"),
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
    refused: Mapped[int] = mapped_column(sa.BigInteger(), default=0, doc="rows that were refused, since its start")
    speed_round: Mapped[int] = mapped_column(sa.BigInteger(), default=0, doc="of its furthest window of speed")
    speed_step: Mapped[int] = mapped_column(sa.BigInteger(), default=0)
    speed_ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime())
