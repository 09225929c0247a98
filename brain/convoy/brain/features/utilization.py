"""How much of machines and clusters was used, by the hour, beside what was allotted to jobs and what there is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from convoy.brain.features import allotment
from convoy.brain.features import resolution as resolutions
from convoy.brain.features.allotment import RESOURCES
from convoy.brain.features.columns import Column
from convoy.brain.features.hours import Span
from convoy.brain.features.layout import Layout, read, read_all
from convoy.brain.features.machine_load import by_machine, nodes
from convoy.brain.features.resolution import sums_of
from convoy.brain.store.engine import snapshot
from convoy.brain.store.tables import Cluster, Node, NodeLoad

_HOUR = pd.Timedelta(hours=1)
_USE = (
    Column("time", "time", "beginning of the hour"),
    Column("resource", "label", "what the numbers count", choices=RESOURCES),
    Column("used", "number", "mean over the time in which it was measured (cores, bytes, accelerators)"),
)
_ROOM = (
    Column("allotted", "number", "to jobs' pods, mean over the hour (cores, bytes, accelerators)"),
    Column("allocatable", "number", "what pods may take, as last seen (cores, bytes, accelerators)"),
    Column("capacity", "number", "what there is, as last seen (cores, bytes, accelerators)"),
)
MACHINE_HOURS = Layout(
    "machine_hours",
    "One resource of one machine over an hour in which it was measured; accelerators only where it has some.",
    (
        Column("cluster", "label", "its name"),
        Column("machine", "label", "its name"),
        Column("node_type", "label", "kind of machine"),
        *_USE,
        Column("used_max", "number", "the most in a window (cores, bytes); of accelerators not known"),
        *_ROOM,
    ),
    order=("cluster", "time", "machine", "resource"),
)
CLUSTER_HOURS = Layout(
    "cluster_hours",
    "One resource of a cluster over an hour in which any of its machines was measured: summed over machines, each "
    "for the part of the hour in which it was there. `used` is the sum over those that were measured.",
    (
        Column("cluster", "label", "its name"),
        *_USE,
        *_ROOM,
        Column("machines", "number", "that were there, mean over the hour"),
        Column("measured", "number", "of them, those whose use of this resource is known"),
    ),
    order=("cluster", "resource", "time"),
)


def machine_hours(
    engine: Engine,
    *,
    cluster: str | None = None,
    machine: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> pd.DataFrame:
    """Return the use of machines by the hour (``MACHINE_HOURS``).

    Args:
        engine: of the store.
        cluster, machine: of that name only.
        since, until: hours that begin in [since, until); None: from the beginning, to the end.

    Raises:
        InvalidInput: a moment that is no datetime, or has no time zone.
        Unavailable: the database can't be reached now.
    """
    machines, load, allotted = _read(engine, nodes(cluster, machine), Span(since, until))
    measured = load.merge(machines, on="node_id").merge(allotted, on=["node_id", "time"], how="left")
    return MACHINE_HOURS.joined([MACHINE_HOURS.typed(part) for part in _by_resource(measured)])


def cluster_hours(
    engine: Engine, *, cluster: str | None = None, since: datetime | None = None, until: datetime | None = None
) -> pd.DataFrame:
    """Return the use of whole clusters by the hour (``CLUSTER_HOURS``).

    Args:
        engine: of the store.
        cluster: of that name only.
        since, until: hours that begin in [since, until); None: from the beginning, to the end.

    Raises:
        InvalidInput: a moment that is no datetime, or has no time zone.
        Unavailable: the database can't be reached now.
    """
    machines, load, allotted = _read(engine, nodes(cluster), Span(since, until))
    hours = load.merge(machines[["node_id", "cluster"]], on="node_id")[["cluster", "time"]].drop_duplicates()
    of_hour = machines.merge(hours, on="cluster")
    for known in (load, allotted):
        of_hour = of_hour.merge(known, on=["node_id", "time"], how="left")
    there = of_hour.assign(share=_share(of_hour))
    parts = [_of_cluster(part) for part in _by_resource(there[there["share"] > 0])]
    return CLUSTER_HOURS.joined([CLUSTER_HOURS.typed(part) for part in parts])


def _read(engine: Engine, subjects: sa.Select[Any], span: Span) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return machines, their load by hour, and what was allotted on them by hour; each has ``node_id``."""
    with snapshot(engine, *resolutions.tables(NodeLoad, "1h")) as connection:
        machines = read_all(connection, _machines(subjects))
        load = _load(connection, subjects, span)
        if load.empty:
            begin = end = pd.Timestamp(0, tz="UTC")
        else:
            begin, end = load["time"].min(), load["time"].max() + _HOUR
        return machines, load, allotment.by_hour(connection, subjects, begin, end)


def _machines(subjects: sa.Select[Any]) -> sa.Select[*tuple[Any, ...]]:
    names = [f"{resource}_{room}" for resource in RESOURCES for room in ("capacity", "allocatable")]
    return (
        sa.select(
            Node.id.label("node_id"),
            Cluster.name.label("cluster"),
            Node.name.label("machine"),
            Node.node_type,
            *(Node.first_seen, Node.gone_at),
            *(getattr(Node, name) for name in names),
        )
        .join(Cluster, Cluster.id == Node.cluster_id)
        .where(Node.id.in_(subjects))
    )


_LOAD = Layout(
    "load",
    "A machine's hour.",
    (
        Column("node_id", "number", "number of the machine"),
        Column("time", "time", "beginning of the hour"),
        Column("seconds", "number", "how long was measured"),
        *(Column(f"{resource}_used", "number", "mean") for resource in RESOURCES),
        *(Column(f"{resource}_used_max", "number", "most") for resource in RESOURCES),
    ),
)


def _load(connection: Connection, subjects: sa.Select[Any], span: Span) -> pd.DataFrame:
    queries = [by_machine(each) for each in sums_of(connection, NodeLoad, "1h", subjects, span)]
    parts = [_LOAD.typed(part) for query in queries for part in read(connection, query)]
    return _LOAD.joined(parts).astype({"node_id": "int64"})


def _by_resource(hours: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the rows of each resource, its measures by their names in the layouts."""
    for resource in RESOURCES:
        rooms = {f"{resource}_{room}": room for room in ("used", "used_max", "allocatable", "capacity")}
        rows = hours.rename(columns=rooms).assign(resource=resource, allotted=hours[resource].fillna(0.0))
        if resource == "accelerators":
            rows = rows[(rows["capacity"].astype("float64") > 0) | rows["used"].notna()]
        yield rows


def _share(hours: pd.DataFrame) -> pd.Series[Any]:
    """Return the part of its hour in which each machine was there, as far as anybody saw it."""
    begin = hours["time"]
    came = pd.to_datetime(hours["first_seen"], utc=True).clip(lower=begin)
    went = pd.to_datetime(hours["gone_at"], utc=True).fillna(begin + _HOUR).clip(upper=begin + _HOUR)
    seen = ((went - came) / _HOUR).clip(lower=0.0)
    measured = (hours["seconds"] / _HOUR.total_seconds()).fillna(0.0)
    return seen.where(seen > measured, measured).clip(upper=1.0)


def _of_cluster(machines: pd.DataFrame) -> pd.DataFrame:
    """Return the sum over the machines of each cluster and hour, of one resource."""
    share = machines["share"]
    amounts = machines[["used", "allocatable", "capacity"]].astype("float64").mul(share, axis=0)
    # What was allotted is a mean over the whole hour already.
    rows = amounts.assign(
        allotted=machines["allotted"], machines=share, measured=share.where(amounts["used"].notna())
    )
    key = ["cluster", "time", "resource"]
    grouped = pd.concat([machines[key], rows], axis=1).groupby(key)
    return grouped.sum(min_count=1).fillna({"measured": 0.0}).reset_index()
