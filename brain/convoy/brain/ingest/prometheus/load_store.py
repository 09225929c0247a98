"""Load in the store: machines by (cluster, name), pods' jobs by (namespace, name), and the rows, in order of time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from convoy.brain.ingest.prometheus.machines import machines, some_at_a_time
from convoy.brain.ingest.prometheus.owners import Owner, owner_of
from convoy.brain.ingest.prometheus.rows import Loads, Row, ended_at, measures
from convoy.brain.ingest.prometheus.subjects import Pod
from convoy.brain.store import series
from convoy.brain.store.engine import reading
from convoy.brain.store.tables import PROMETHEUS, Cluster, Job, JobNode, JobNodeLoad, Node, NodeLoad
from convoy.brain.store.turns import in_turns
from convoy.core.process.crashpoint import crash_point

_ROWS = 2_000
"""In one transaction, about."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of what was measured.

    Attributes:
        nodes, pods: rows of machines and pods that were stored.
        nodes_before, pods_before: rows of them that were there already.
        strangers: pods of no known job, which are left out.
        outside: pods of known jobs with samples of before their time or after it, which are left out.
    """

    nodes: int
    pods: int
    nodes_before: int
    pods_before: int
    strangers: frozenset[Pod]
    outside: frozenset[Pod]


@dataclass(slots=True)
class _Batch:
    """Rows of whole moments; those of machines under the machine's name."""

    nodes: list[tuple[str, Row]] = field(default_factory=list)
    pods: list[Row] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.nodes) + len(self.pods)


def store(engine: Engine, cluster: str, loads: Loads, step: int) -> Stored:
    """Store rows, a few thousand in a transaction, earliest first: what is stored is whole up to its last moment.

    What is there already stays as it is.

    Raises:
        Unavailable: the database can't be reached now; what was stored until now stays.
        Unusable: it refuses us.
    """
    owners = _owners(engine, cluster, {pod for pod, _ in loads.pods})
    moments: dict[int, _Batch] = defaultdict(_Batch)
    for (name, moment), known in loads.nodes.items():
        moments[moment].nodes.append((name, {**_window(moment, step), **measures(known)}))
    strangers: set[Pod] = set()
    outside: set[Pod] = set()
    for (pod, moment), known in loads.pods.items():
        owner = owner_of(owners.get(pod, ()), ended_at(moment))
        if owner is None:
            (outside if pod in owners else strangers).add(pod)
        else:
            row = {**_window(moment, step), **_described(pod, owner), **measures(known)}
            moments[moment].pods.append(row)
    nodes = pods = nodes_before = pods_before = 0
    for batch in _batches(moments):
        of_nodes, of_pods = in_turns(engine, partial(_insert, cluster, batch))
        crash_point("collect.after-batch")
        nodes, pods = nodes + len(batch.nodes) - of_nodes, pods + len(batch.pods) - of_pods
        nodes_before, pods_before = nodes_before + of_nodes, pods_before + of_pods
    return Stored(nodes, pods, nodes_before, pods_before, frozenset(strangers), frozenset(outside))


def last_stored(engine: Engine, cluster: str, jobs_since: datetime) -> datetime | None:
    """Return the latest moment of a row from Prometheus; None where there is none.

    Args:
        engine: of the database.
        cluster: the name of the machines' cluster.
        jobs_since: where there are no rows of machines, those of pods count, of jobs that were seen since.

    Raises:
        Unavailable: the database can't be reached now.
        Unusable: it refuses us.
    """
    with reading(engine) as connection:
        nodes = sa.select(Node.id).join(Cluster, Cluster.id == Node.cluster_id).where(Cluster.name == cluster)
        jobs = sa.select(Job.id).where(Job.cluster.in_(("", cluster)), Job.last_seen >= jobs_since)
        return _latest(connection, NodeLoad, nodes) or _latest(
            connection, JobNodeLoad, jobs, JobNodeLoad.source == PROMETHEUS
        )


def _latest(connection: Connection, table: type[Any], of: Any, *conditions: Any) -> datetime | None:
    """Return the last moment of a series' subjects, each found at the end of its own rows."""
    subject = getattr(table, series.SUBJECT[table.__tablename__])
    moments = []
    for one in connection.execute(of).scalars().all():
        query = sa.select(table.ended_at).where(subject == one, *conditions)
        moments.append(connection.execute(query.order_by(table.ended_at.desc()).limit(1)).scalar())
    return max(filter(None, moments), default=None)


def _window(moment: int, step: int) -> Row:
    return {"ended_at": ended_at(moment), "seconds": float(step)}


def _described(pod: Pod, owner: Owner) -> Row:
    return {
        "job_id": owner.job_id,
        "node": pod.name,
        "source": PROMETHEUS,
        "role": owner.role,
        "rank": owner.rank,
        "round": 0,
        "cpu_allotted": owner.cpu_allotted,
        "memory_allotted": owner.memory_allotted,
    }


def _owners(engine: Engine, cluster: str, pods: set[Pod]) -> dict[Pod, list[Owner]]:
    """Return the jobs of this cluster, or of none that is known, that have or had pods of these names."""
    found: dict[Pod, list[Owner]] = defaultdict(list)
    with reading(engine) as connection:
        for names in some_at_a_time({pod.name for pod in pods}):
            query = (
                sa.select(JobNode, Job.namespace, Job.first_seen)
                .join_from(JobNode, Job, JobNode.job_id == Job.id)
                .where(JobNode.name.in_(names), Job.cluster.in_(("", cluster)))
            )
            for row in connection.execute(query):
                found[Pod(row.namespace, row.name)].append(_owner(row))
    return found


def _owner(row: Any) -> Owner:
    return Owner(
        job_id=row.job_id,
        role=row.role,
        rank=row.rank,
        cpu_allotted=row.cpu_allotted,
        memory_allotted=row.memory_allotted,
        since=min(row.first_seen, row.created_at or row.first_seen),
        begun_before=row.created_at is None,
        until=min(filter(None, (row.ended_at, row.gone_at)), default=None),
    )


def _batches(moments: dict[int, _Batch]) -> Iterator[_Batch]:
    batch = _Batch()
    for moment in sorted(moments):
        batch.nodes += moments[moment].nodes
        batch.pods += moments[moment].pods
        if len(batch) >= _ROWS:
            yield batch
            batch = _Batch()
    if len(batch):
        yield batch


def _insert(cluster: str, batch: _Batch, connection: Connection) -> tuple[int, int]:
    """Insert a batch; return how many rows of machines and of pods were there already."""
    nodes_before = pods_before = 0
    if batch.nodes:
        moments = [row["ended_at"] for _, row in batch.nodes]
        numbers = machines(connection, cluster, {name for name, _ in batch.nodes}, min(moments), max(moments))
        rows = [{"node_id": numbers[name], **row} for name, row in batch.nodes]
        nodes_before = _there(connection, NodeLoad, rows)
        series.insert(connection, NodeLoad, rows)
    if batch.pods:
        pods_before = _there(connection, JobNodeLoad, batch.pods)
        series.insert(connection, JobNodeLoad, batch.pods)
    return nodes_before, pods_before


def _there(connection: Connection, table: type[Any], rows: list[Row]) -> int:
    """Return how many of the rows are there, by their keys."""
    columns = list(table.__table__.primary_key)
    subject = table.__table__.c[series.SUBJECT[table.__tablename__]]
    keys = {tuple(row[column.name] for column in columns) for row in rows}
    moments = [row["ended_at"] for row in rows]
    between = table.ended_at.between(min(moments), max(moments))
    found = 0
    for some in some_at_a_time({row[subject.name] for row in rows}):
        query = sa.select(*columns).where(subject.in_(some), between)
        found += sum(tuple(key) in keys for key in connection.execute(query))
    return found
