"""The load of machines over time, at a chosen resolution."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any, overload

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from convoy.brain.features import resolution as resolutions
from convoy.brain.features.columns import Column
from convoy.brain.features.hours import Span
from convoy.brain.features.layout import Layout, delivered, read, read_all
from convoy.brain.features.measures import MEASURES, TIME, means, of_windows, raw
from convoy.brain.features.resolution import Resolution, Sums, sums_of
from convoy.brain.store.tables import Cluster, Node, NodeLoad
from convoy.sql.types import UtcDateTime

MACHINE_LOAD = Layout(
    "machine_load",
    "One machine over a minute, an hour, or (raw) a window.",
    (
        Column("cluster", "label", "its name"),
        Column("machine", "label", "its name"),
        Column("node_type", "label", "kind of machine"),
        TIME,
        *MEASURES,
        Column("cpu_capacity", "number", "as last seen (cores)"),
        Column("memory_capacity", "number", "as last seen (bytes)"),
        Column("accelerators_capacity", "number", "as last seen (accelerators)"),
    ),
    order=("cluster", "time", "machine"),
)


@overload
def machine_load(
    engine: Engine,
    resolution: Resolution = "1h",
    *,
    cluster: str | None = None,
    machine: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    chunks: None = None,
) -> pd.DataFrame: ...
@overload
def machine_load(
    engine: Engine,
    resolution: Resolution = "1h",
    *,
    cluster: str | None = None,
    machine: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    chunks: int,
) -> Iterator[pd.DataFrame]: ...
def machine_load(
    engine: Engine,
    resolution: Resolution = "1h",
    *,
    cluster: str | None = None,
    machine: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    chunks: int | None = None,
) -> pd.DataFrame | Iterator[pd.DataFrame]:
    """Return the load of machines (``MACHINE_LOAD``).

    Args:
        engine: of the store.
        resolution: ``raw``, ``1m`` or ``1h``.
        cluster, machine: of that name only.
        since, until: rows whose time lies in [since, until); None: from the beginning, to the end.
        chunks: as in ``pod_load``.

    Raises:
        InvalidInput: no such resolution, a moment that is no datetime or has no time zone, or ``chunks`` is less
            than 1.
        Unavailable: the database can't be reached now.
    """
    resolutions.checked(resolution)
    parts = partial(_machines, nodes(cluster, machine), resolution, Span(since, until))
    return delivered(engine, resolutions.tables(NodeLoad, resolution), MACHINE_LOAD, parts, chunks)


def nodes(cluster: str | None, machine: str | None = None) -> sa.Select[Any]:
    """Return a query of the numbers of machines, of a cluster or of that name only."""
    query = sa.select(Node.id)
    if cluster is not None:
        query = query.where(Node.cluster_id.in_(sa.select(Cluster.id).where(Cluster.name == cluster)))
    return query if machine is None else query.where(Node.name == machine)


def _machines(
    subjects: sa.Select[Any], resolution: Resolution, span: Span, connection: Connection, rows: int
) -> Iterator[pd.DataFrame]:
    described = read_all(
        connection,
        sa.select(
            Node.id.label("node_id"),
            Cluster.name.label("cluster"),
            Node.name.label("machine"),
            Node.node_type,
            *(Node.cpu_capacity, Node.memory_capacity, Node.accelerators_capacity),
        )
        .join(Cluster, Cluster.id == Node.cluster_id)
        .where(Node.id.in_(subjects)),
    )
    if resolution == "raw":
        load = NodeLoad
        queries = [raw(load, load.node_id).where(load.node_id.in_(subjects), *span.holds(load.ended_at))]
    else:
        queries = [by_machine(each) for each in sums_of(connection, NodeLoad, resolution, subjects, span)]
    for query in queries:
        for part in read(connection, query, rows):
            found = of_windows(part) if resolution == "raw" else part
            yield found.merge(described, on="node_id", how="left")


def by_machine(each: Sums) -> sa.Select[*tuple[Any, ...]]:
    """Return a query of a (machine, step) a row: ``node_id``, ``time``, measures."""
    of = each.columns
    return (
        sa.select(
            of.node_id,
            sa.type_coerce(of.started_at, UtcDateTime()).label("time"),
            *(value.label(name) for name, value in means(of).items()),
        )
        .where(each.condition)
        .group_by(of.node_id, of.started_at)
    )
