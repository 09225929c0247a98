"""History that somebody imported."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from convoy.brain.store.tables.base import IMPORTED, Base
from convoy.sql.types import ID, TABLE_OPTIONS, UtcDateTime, name_type


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
