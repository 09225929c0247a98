"""Machines of a cluster in the store, where the Kubernetes monitor hasn't told of them or doesn't run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import islice

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from convoy.brain.store.tables import Cluster, Node
from convoy.brain.store.write import insert_new

_NAMES = 500
"""In one statement."""
_SEEN = timedelta(minutes=1)
"""How old the last sign of a machine may grow before it is written again."""


def machines(
    connection: Connection, cluster: str, names: set[str], first: datetime, last: datetime
) -> dict[str, int]:
    """Return the numbers of a cluster's machines by name; one that isn't there is made.

    Args:
        connection: in a transaction that writes.
        cluster: its name.
        names: of the machines.
        first, last: between which they were seen. The monitor's word on a machine that it told of prevails.
    """
    number = _cluster(connection, cluster, first, last)
    found = _numbers(connection, number, names)
    if new := sorted(names - found.keys()):
        row = {"cluster_id": number, "first_seen": first, "last_seen": last}
        insert_new(connection, Node, [{**row, "name": name} for name in new])
        found = _numbers(connection, number, names)
    query = sa.select(Node.id).where(Node.cluster_id == number, Node.uid == "", Node.last_seen < last - _SEEN)
    old = set(found.values()) & set(connection.execute(query).scalars())
    for some in some_at_a_time(old):
        connection.execute(sa.update(Node).where(Node.id.in_(some)).values(last_seen=last))
    return found


def some_at_a_time(values: Iterable[object]) -> Iterator[list[object]]:
    """Yield distinct values, as many as one statement should hold, in order: who locks rows does so in one order."""
    rest = iter(sorted(set(values)))  # type: ignore[type-var]
    while some := list(islice(rest, _NAMES)):
        yield some


def _cluster(connection: Connection, name: str, first: datetime, last: datetime) -> int:
    query = sa.select(Cluster.id, Cluster.last_seen).where(Cluster.name == name)
    found = connection.execute(query).one_or_none()
    if found is None:
        insert_new(connection, Cluster, [{"name": name, "first_seen": first, "last_seen": last}])
        found = connection.execute(query).one()
    if found.last_seen < last - _SEEN:
        connection.execute(sa.update(Cluster).where(Cluster.id == found.id).values(last_seen=last))
    number: int = found.id
    return number


def _numbers(connection: Connection, cluster: int, names: set[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for some in some_at_a_time(names):
        query = sa.select(Node.name, Node.id).where(Node.cluster_id == cluster, Node.name.in_(some))
        found.update({row.name: row.id for row in connection.execute(query)})
    return found
