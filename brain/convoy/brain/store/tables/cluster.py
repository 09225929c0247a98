"""Clusters and their machines."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from convoy.brain.store.tables.base import Base
from convoy.sql.types import ID, TABLE_OPTIONS, UtcDateTime, name_type


class Cluster(Base):
    """A cluster that is watched."""

    __tablename__ = "cluster"
    __table_args__ = (sa.UniqueConstraint("name", name="uq_cluster_name"), TABLE_OPTIONS)

    id: Mapped[int] = mapped_column(ID, primary_key=True, autoincrement=True)
    name: Mapped[str] = mapped_column(name_type(255))
    uid: Mapped[str] = mapped_column(name_type(64), default="", doc="of its kube-system namespace; empty: not known")
    version: Mapped[str] = mapped_column(name_type(64), default="", doc="of its API server")
    first_seen: Mapped[datetime] = mapped_column(UtcDateTime())
    last_seen: Mapped[datetime] = mapped_column(UtcDateTime())


class Node(Base):
    """A machine of a cluster. One that comes back under its name is the same row, with what it is now."""

    __tablename__ = "node"
    __table_args__ = (
        sa.UniqueConstraint("cluster_id", "name", name="uq_node_cluster_name"),
        sa.ForeignKeyConstraint(["cluster_id"], ["cluster.id"], name="fk_node_cluster"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(ID, primary_key=True, autoincrement=True)
    cluster_id: Mapped[int] = mapped_column(ID)
    name: Mapped[str] = mapped_column(name_type(253))
    uid: Mapped[str] = mapped_column(name_type(64), default="")
    node_type: Mapped[str] = mapped_column(name_type(255), default="", doc="kind of machine")
    zone: Mapped[str] = mapped_column(name_type(255), default="")
    accelerator: Mapped[str] = mapped_column(name_type(255), default="", doc="kind of accelerator; empty: none")
    cpu_capacity: Mapped[float | None] = mapped_column(sa.Double())
    memory_capacity: Mapped[int | None] = mapped_column(sa.BigInteger())
    accelerators_capacity: Mapped[float | None] = mapped_column(sa.Double())
    cpu_allocatable: Mapped[float | None] = mapped_column(sa.Double(), doc="what pods may take")
    memory_allocatable: Mapped[int | None] = mapped_column(sa.BigInteger())
    accelerators_allocatable: Mapped[float | None] = mapped_column(sa.Double())
    ready: Mapped[bool | None] = mapped_column(sa.Boolean(), doc="NULL: not known")
    schedulable: Mapped[bool | None] = mapped_column(sa.Boolean(), doc="not cordoned; NULL: not known")
    labels: Mapped[dict[str, str]] = mapped_column(sa.JSON(), default=dict)
    first_seen: Mapped[datetime] = mapped_column(UtcDateTime())
    last_seen: Mapped[datetime] = mapped_column(UtcDateTime())
    gone_at: Mapped[datetime | None] = mapped_column(UtcDateTime(), doc="when it was found deleted")


class NodeEvent(Base):
    """Something that happened to a machine."""

    __tablename__ = "node_event"
    __table_args__ = (
        sa.UniqueConstraint("node_id", "happened_at", "reason", name="uq_node_event_node_time_reason"),
        sa.ForeignKeyConstraint(["node_id"], ["node.id"], name="fk_node_event_node"),
        sa.Index("ix_node_event_happened_at", "happened_at"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(ID, primary_key=True, autoincrement=True)
    node_id: Mapped[int] = mapped_column(ID)
    happened_at: Mapped[datetime] = mapped_column(UtcDateTime())
    reason: Mapped[str] = mapped_column(name_type(128), doc="stable CamelCase")
    message: Mapped[str] = mapped_column(sa.Text())
