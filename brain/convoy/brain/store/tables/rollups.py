"""Time series by the minute and by the hour: sums, so that hours add up from minutes and means are exact.

A row's ``started_at`` is the beginning of its minute or hour; a window counts where it ended. In their keys 0 is "not
known", since a key can't be NULL.
"""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from convoy.brain.store.tables.base import Base
from convoy.sql.types import TABLE_OPTIONS, TIME_SERIES_OPTIONS, UtcDateTime, name_type


class SpeedSums:
    """Sums over the windows of one job, round and configuration."""

    job_id: Mapped[int] = mapped_column(sa.BigInteger(), primary_key=True, autoincrement=False)
    started_at: Mapped[datetime] = mapped_column(UtcDateTime(), primary_key=True)
    round: Mapped[int] = mapped_column(sa.BigInteger(), primary_key=True, autoincrement=False)
    workers: Mapped[int] = mapped_column(sa.Integer(), primary_key=True, autoincrement=False)
    ps: Mapped[int] = mapped_column(sa.Integer(), primary_key=True, autoincrement=False)
    nodes: Mapped[int] = mapped_column(sa.Integer(), primary_key=True, autoincrement=False)
    batch_size: Mapped[int] = mapped_column(sa.Integer(), primary_key=True, autoincrement=False)
    accumulation_steps: Mapped[int] = mapped_column(sa.Integer(), primary_key=True, autoincrement=False)
    warming: Mapped[bool] = mapped_column(sa.Boolean(), primary_key=True)
    windows: Mapped[int] = mapped_column(sa.BigInteger())
    seconds: Mapped[float] = mapped_column(sa.Double())
    samples: Mapped[float] = mapped_column(sa.Double())
    speeds: Mapped[float] = mapped_column(sa.Double(), doc="sum of the windows' samples/s")
    squares: Mapped[float] = mapped_column(sa.Double(), doc="sum of their squares")
    compute_sum: Mapped[float] = mapped_column(sa.Double(), doc="sum of compute_seconds, weighted by seconds")
    compute_time: Mapped[float] = mapped_column(sa.Double(), doc="sum of those seconds")
    first_step: Mapped[int] = mapped_column(sa.BigInteger())
    last_step: Mapped[int] = mapped_column(sa.BigInteger())
    last_ended_at: Mapped[datetime] = mapped_column(UtcDateTime())


class LoadSums:
    """Sums over the windows of one machine or pod; of each measure over the seconds in which it was known."""

    windows: Mapped[int] = mapped_column(sa.BigInteger())
    seconds: Mapped[float] = mapped_column(sa.Double())
    cpu_sum: Mapped[float] = mapped_column(sa.Double(), doc="core-seconds")
    cpu_time: Mapped[float] = mapped_column(sa.Double(), doc="seconds in which it was known")
    cpu_max: Mapped[float | None] = mapped_column(sa.Double(), doc="of a window's mean (cores)")
    memory_sum: Mapped[float] = mapped_column(sa.Double(), doc="bytes, summed over windows")
    memory_windows: Mapped[int] = mapped_column(sa.BigInteger(), doc="windows in which it was known")
    memory_max: Mapped[int | None] = mapped_column(sa.BigInteger())
    network_received: Mapped[float | None] = mapped_column(sa.Double(), doc="bytes, as the three that follow")
    network_sent: Mapped[float | None] = mapped_column(sa.Double())
    disk_read: Mapped[float | None] = mapped_column(sa.Double())
    disk_written: Mapped[float | None] = mapped_column(sa.Double())
    accelerator_sum: Mapped[float] = mapped_column(sa.Double(), doc="accelerator-seconds of work")
    accelerator_time: Mapped[float] = mapped_column(sa.Double(), doc="seconds in which it was known")
    accelerator_memory_max: Mapped[int | None] = mapped_column(sa.BigInteger())


class JobLoadSums(LoadSums):
    """Sums over the windows of one pod; ``steady`` ones apart: between the first and the last past warm-up."""

    job_id: Mapped[int] = mapped_column(sa.BigInteger(), primary_key=True, autoincrement=False)
    started_at: Mapped[datetime] = mapped_column(UtcDateTime(), primary_key=True)
    node: Mapped[str] = mapped_column(name_type(253), primary_key=True)
    source: Mapped[str] = mapped_column(name_type(16), primary_key=True)
    round: Mapped[int] = mapped_column(sa.BigInteger(), primary_key=True, autoincrement=False)
    steady: Mapped[bool] = mapped_column(sa.Boolean(), primary_key=True)
    role: Mapped[str] = mapped_column(name_type(32))
    cpu_allotted: Mapped[float | None] = mapped_column(sa.Double(), doc="the most in the time")
    memory_allotted: Mapped[int | None] = mapped_column(sa.BigInteger())


class NodeLoadSums(LoadSums):
    """Sums over the windows of one machine."""

    node_id: Mapped[int] = mapped_column(sa.BigInteger(), primary_key=True, autoincrement=False)
    started_at: Mapped[datetime] = mapped_column(UtcDateTime(), primary_key=True)


class TrainingSpeed1m(SpeedSums, Base):
    """Training speed by the minute."""

    __tablename__ = "training_speed_1m"
    __table_args__ = (TIME_SERIES_OPTIONS,)


class TrainingSpeed1h(SpeedSums, Base):
    """Training speed by the hour."""

    __tablename__ = "training_speed_1h"
    __table_args__ = (sa.Index("ix_training_speed_1h_started_at", "started_at"), TIME_SERIES_OPTIONS)


class JobNodeLoad1m(JobLoadSums, Base):
    """Load of jobs' pods by the minute."""

    __tablename__ = "job_node_load_1m"
    __table_args__ = (TIME_SERIES_OPTIONS,)


class JobNodeLoad1h(JobLoadSums, Base):
    """Load of jobs' pods by the hour."""

    __tablename__ = "job_node_load_1h"
    __table_args__ = (sa.Index("ix_job_node_load_1h_started_at", "started_at"), TIME_SERIES_OPTIONS)


class NodeLoad1m(NodeLoadSums, Base):
    """Load of machines by the minute."""

    __tablename__ = "node_load_1m"
    __table_args__ = (TIME_SERIES_OPTIONS,)


class NodeLoad1h(NodeLoadSums, Base):
    """Load of machines by the hour."""

    __tablename__ = "node_load_1h"
    __table_args__ = (sa.Index("ix_node_load_1h_started_at", "started_at"), TIME_SERIES_OPTIONS)


class RollupDue(Base):
    """An hour of a series in which rows were stored since it was last rolled up.

    Whoever stores rows counts ``changes`` up in the same transaction; who rolls up deletes the row only if the count
    is still what was read before. So an hour that isn't here is exactly what its roll-ups say.
    """

    __tablename__ = "rollup_due"
    __table_args__ = (TABLE_OPTIONS,)

    series: Mapped[str] = mapped_column(name_type(32), primary_key=True, doc="name of the table")
    subject_id: Mapped[int] = mapped_column(sa.BigInteger(), primary_key=True, autoincrement=False, doc="job or node")
    hour: Mapped[datetime] = mapped_column(UtcDateTime(), primary_key=True, doc="its beginning")
    changes: Mapped[int] = mapped_column(sa.BigInteger())


class SeriesKept(Base):
    """From when on a series holds all of its rows; what is older was rolled up and dropped, and no more is taken."""

    __tablename__ = "series_kept"
    __table_args__ = (TABLE_OPTIONS,)

    series: Mapped[str] = mapped_column(name_type(32), primary_key=True, doc="name of the table")
    complete_since: Mapped[datetime] = mapped_column(UtcDateTime())
