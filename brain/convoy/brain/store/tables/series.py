"""Time series: a row a window. They have no foreign keys, and their keys hold their time: MySQL keeps them by day."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from convoy.brain.store.tables.base import MEASURED, Base
from convoy.sql.types import TIME_SERIES_OPTIONS, UtcDateTime, name_type


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
    grad_sqr: Mapped[float | None] = mapped_column(sa.Double(), doc="squared norm of the mean gradient, estimated")
    grad_var: Mapped[float | None] = mapped_column(sa.Double(), doc="variance of one sample's gradient")
    loader_wait: Mapped[float | None] = mapped_column(sa.Double(), doc="of a step for its data, mean (s)")
    loader_workers: Mapped[int | None] = mapped_column(sa.Integer(), doc="that load each worker's data")
    origin: Mapped[str] = mapped_column(name_type(16), default=MEASURED)


AGENT = "agent"
PROMETHEUS = "prometheus"


class LoadMeasures:
    """What is measured of a machine or a pod over a window; NULL where it isn't known."""

    cpu_cores: Mapped[float | None] = mapped_column(sa.Double(), doc="used, mean of the window (cores)")
    memory_bytes: Mapped[int | None] = mapped_column(sa.BigInteger(), doc="used at its end")
    network_received: Mapped[float | None] = mapped_column(sa.Double(), doc="bytes/s, as all that follows")
    network_sent: Mapped[float | None] = mapped_column(sa.Double())
    disk_read: Mapped[float | None] = mapped_column(sa.Double())
    disk_written: Mapped[float | None] = mapped_column(sa.Double())
    accelerator_busy: Mapped[float | None] = mapped_column(sa.Double(), doc="accelerators used, mean: 1.5 of 2, say")
    accelerator_memory: Mapped[int | None] = mapped_column(sa.BigInteger(), doc="used on all of them, at its end")


class JobNodeLoad(LoadMeasures, Base):
    """Load of one pod of a job over a window."""

    __tablename__ = "job_node_load"
    __table_args__ = (TIME_SERIES_OPTIONS,)

    job_id: Mapped[int] = mapped_column(sa.BigInteger(), primary_key=True, autoincrement=False)
    ended_at: Mapped[datetime] = mapped_column(UtcDateTime(), primary_key=True)
    node: Mapped[str] = mapped_column(name_type(253), primary_key=True, doc="pod name")
    source: Mapped[str] = mapped_column(name_type(16), primary_key=True, default=AGENT, doc="agent | prometheus")
    seconds: Mapped[float] = mapped_column(sa.Double())
    role: Mapped[str] = mapped_column(name_type(32))
    rank: Mapped[int | None] = mapped_column(sa.Integer())
    round: Mapped[int] = mapped_column(sa.BigInteger(), doc="0: not known")
    cpu_allotted: Mapped[float | None] = mapped_column(sa.Double())
    memory_allotted: Mapped[int | None] = mapped_column(sa.BigInteger())


class NodeLoad(LoadMeasures, Base):
    """Load of one machine over a window."""

    __tablename__ = "node_load"
    __table_args__ = (TIME_SERIES_OPTIONS,)

    node_id: Mapped[int] = mapped_column(sa.BigInteger(), primary_key=True, autoincrement=False)
    ended_at: Mapped[datetime] = mapped_column(UtcDateTime(), primary_key=True)
    seconds: Mapped[float] = mapped_column(sa.Double())
