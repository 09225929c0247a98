"""A batch of what was told into the tables, in one transaction of the caller's.

Objects refer to each other by uid or name, and are told in whatever order they come: of a job or a machine that a pod
names and nobody has told of, a row is made that counts as gone until it is told. An event or a plan whose subject
isn't there is handed back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from convoy.brain.ingest.monitor import merge, subjects
from convoy.brain.ingest.monitor.bring import bring
from convoy.brain.ingest.monitor.parts import Row
from convoy.brain.ingest.monitor.told import Entry
from convoy.brain.store.jobs import set_priorities
from convoy.brain.store.tables import Cluster, Job, JobEvent, JobNode, Node, NodeEvent, Recommendation, ScalePlan
from convoy.brain.store.write import insert_new
from convoy.core.api import names
from convoy.core.cluster.port import Kind

_SEEN = timedelta(minutes=1)
"""How old the last sign of a cluster may grow before it is written again."""


@dataclass(frozen=True, slots=True)
class Place:
    """The cluster whose objects are stored."""

    id: int
    name: str


def write(connection: Connection, place: Place, entries: Sequence[Entry], now: datetime) -> list[Entry]:
    """Store the entries, the earlier ones of an object first; return those whose subject isn't in the store."""
    of = {kind: [entry for entry in entries if entry.kind is kind] for kind in Kind}
    _nodes(connection, place, of[Kind.NODE], now)
    _jobs(connection, place, of[Kind.ELASTIC_JOB], now)
    _pods(connection, place, of[Kind.POD], now)
    waiting = _plans(connection, place, of[Kind.SCALE_PLAN], now)
    for table, kind in (
        (Node, Kind.NODE),
        (Job, Kind.ELASTIC_JOB),
        (JobNode, Kind.POD),
        (ScalePlan, Kind.SCALE_PLAN),
    ):
        _gone(connection, place, table, [entry for entry in of[kind] if entry.row is None])
    waiting += _events(connection, place, of[Kind.EVENT])
    old = sa.update(Cluster).where(Cluster.id == place.id, Cluster.last_seen < now - _SEEN)
    connection.execute(old.values(last_seen=now))
    return waiting


def _nodes(connection: Connection, place: Place, entries: list[Entry], now: datetime) -> None:
    told = [
        {**entry.row, "cluster_id": place.id, "first_seen": now, "last_seen": now, "gone_at": entry.gone_at}
        for entry in entries
        if entry.row is not None
    ]
    changes = bring(connection, Node, ("cluster_id", "name"), told, merge.node)
    told_anew = [_kinds(new) for old, new in changes if _kinds(old)[1:] != _kinds(new)[1:]]
    if told_anew:
        here = JobNode.node_id.in_([machine.id for machine in told_anew])
        query = sa.select(JobNode.job_id, JobNode.node_id, JobNode.role, JobNode.accelerators).where(here)
        pods = [dict(row) for row in connection.execute(query).mappings()]
        _describe_by_machines(connection, pods, told_anew)


def _jobs(connection: Connection, place: Place, entries: list[Entry], now: datetime) -> None:
    told = []
    for entry in entries:
        if entry.row is not None:
            row = {**entry.row}
            made_at, ended_at = row.pop("made_at"), row.pop("ended_at")
            over = row["state"] in ("Succeeded", "Failed")
            told.append(
                _job(row, place, made_at or now, (ended_at if over else None) or now) | {"gone_at": entry.gone_at}
            )
    bring(connection, Job, ("uid",), told, merge.job)


def _job(row: Row, place: Place, first_seen: datetime, last_seen: datetime) -> Row:
    return {
        **dict.fromkeys(("template", "image", "user", "model", "dataset", "strategy"), ""),
        **dict.fromkeys(("optimize_mode", "accelerator", "state"), ""),
        **row,
        "node_type": "",
        "cluster": place.name,
        "first_seen": first_seen,
        "last_seen": last_seen,
    }


def _named_jobs(connection: Connection, place: Place, rows: Iterable[Row], now: datetime) -> dict[str, int]:
    """Return the numbers of the jobs that rows name by uid; make a row of one that isn't told yet."""
    named = {row["job_uid"]: row for row in rows}
    found = subjects.jobs(connection, named)
    new = [
        _job({"uid": uid, "name": named[uid]["job_name"], "namespace": named[uid]["namespace"]}, place, now, now)
        | {"gone_at": now}
        for uid in sorted(named.keys() - found.keys())
    ]
    insert_new(connection, Job, new)
    return subjects.jobs(connection, named) if new else found


def _pods(connection: Connection, place: Place, entries: list[Entry], now: datetime) -> None:
    given = [(entry, entry.row) for entry in entries if entry.row is not None]
    if not given:
        return
    jobs = _named_jobs(connection, place, (row for _, row in given), now)
    machines = _machines(connection, place, {row["node"] for _, row in given} - {""}, now)
    told: list[Row] = []
    for entry, row in given:
        machine = machines.get(row["node"])
        rest = {name: value for name, value in row.items() if name not in _REFERENCES}
        node_id = machine.id if machine else None
        told.append({**rest, "job_id": jobs[row["job_uid"]], "node_id": node_id, "gone_at": entry.gone_at})
    bring(connection, JobNode, ("job_id", "name"), told, merge.pod)
    _describe_by_machines(connection, told, machines.values())
    first = [row for _, row in given if row["role"] == names.WORKER and row["rank"] in (0, None)]
    told_by = {jobs[row["job_uid"]]: row["priority"] for row in first if row["priority"] is not None}
    set_priorities(connection, told_by)


_REFERENCES = ("namespace", "job_uid", "job_name", "node", "made_at", "priority")


class _Machine(NamedTuple):
    id: int
    node_type: str
    accelerator: str


def _kinds(node: Any) -> _Machine:
    return _Machine(node["id"], node["node_type"], node["accelerator"])


def _machines(connection: Connection, place: Place, named: set[str], now: datetime) -> dict[str, _Machine]:
    """Return the machines of these names; make a row of one that isn't told yet."""
    query = sa.select(Node.id, Node.name, Node.node_type, Node.accelerator)
    query = query.where(Node.cluster_id == place.id, Node.name.in_(named))
    found = {row["name"]: _kinds(row) for row in connection.execute(query).mappings()} if named else {}
    new = [
        {"cluster_id": place.id, "name": name, "first_seen": now, "last_seen": now, "gone_at": now}
        for name in sorted(named - found.keys())
    ]
    insert_new(connection, Node, new)
    return {row["name"]: _kinds(row) for row in connection.execute(query).mappings()} if new else found


def _describe_by_machines(connection: Connection, pods: list[Row], machines: Iterable[_Machine]) -> None:
    """Say of jobs on what kind of machine their workers run, unless that is known."""
    by_id = {machine.id: machine for machine in machines}
    kinds: dict[tuple[str, str], set[int]] = {}
    for pod in pods:
        machine = by_id.get(pod["node_id"])
        if machine is None or pod["role"] != names.WORKER:
            continue
        for column, kind in (("node_type", machine.node_type), ("accelerator", machine.accelerator)):
            if kind and (column == "node_type" or pod["accelerators"]):
                kinds.setdefault((column, kind), set()).add(pod["job_id"])
    for (column, kind), jobs in sorted(kinds.items()):
        unknown = getattr(Job, column) == ""
        query = sa.select(Job.id).where(Job.id.in_(jobs), unknown).order_by(Job.id)
        if which := list(connection.execute(query).scalars()):
            connection.execute(sa.update(Job).where(Job.id.in_(which), unknown).values({column: kind}))


def _plans(connection: Connection, place: Place, entries: list[Entry], now: datetime) -> list[Entry]:
    given = [(entry, entry.row) for entry in entries if entry.row is not None]
    if not given:
        return []
    jobs = _named_jobs(connection, place, (row for _, row in given if row["job_uid"]), now)
    by_name = subjects.jobs_by_name(
        connection, place.name, {(row["namespace"], row["job_name"]) for _, row in given if not row["job_uid"]}
    )
    there = _recommendations(connection, {row["recommendation_id"] for _, row in given} - {None})
    told, waiting = [], []
    for entry, row in given:
        job = jobs[row["job_uid"]] if row["job_uid"] else by_name.get((row["namespace"], row["job_name"]))
        if job is None:
            waiting.append(entry)
            continue
        told.append(
            {name: value for name, value in row.items() if name not in _REFERENCES}
            | {"job_id": job, "created_at": row["made_at"] or now, "gone_at": entry.gone_at}
            | {"recommendation_id": row["recommendation_id"] if row["recommendation_id"] in there else None}
            | _NOT_TOLD
        )
    bring(connection, ScalePlan, ("job_id", "name"), told, merge.plan)
    return waiting


_NOT_TOLD: Row = {
    "carried_out_at": None,
    "workers_before": 0,
    "realized": None,
    "realized_seconds": None,
    "restart_seconds": None,
    "rolled_back": False,
}
"""What of a plan only the job's master tells."""


def _recommendations(connection: Connection, named: set[str]) -> set[str]:
    query = sa.select(Recommendation.id).where(Recommendation.id.in_(named))
    return set(connection.execute(query).scalars()) if named else set()


def _events(connection: Connection, place: Place, entries: list[Entry]) -> list[Entry]:
    """Insert events; return those of which the subject isn't in the store."""
    found = subjects.find(connection, place.id, [entry.subject for entry in entries if entry.subject])
    of_jobs, of_nodes, waiting = [], [], []
    for entry in entries:
        assert entry.row is not None
        assert entry.subject is not None
        match found.get(entry.subject):
            case subjects.OfJob(job, node):
                of_jobs.append({**entry.row, "job_id": job, "node": node, "round": 0, "step": None})
            case subjects.OfNode(node_id):
                of_nodes.append({**{name: entry.row[name] for name in _OF_NODE}, "node_id": node_id})
            case None:
                waiting.append(entry)
    insert_new(connection, JobEvent, of_jobs)
    insert_new(connection, NodeEvent, of_nodes)
    return waiting


_OF_NODE = ("happened_at", "reason", "message")


def _gone(connection: Connection, place: Place, table: type[Any], entries: list[Entry]) -> None:
    """Mark objects of which nothing more is known than that they went."""
    for moment in {entry.gone_at for entry in entries}:
        uids = [entry.uid for entry in entries if entry.gone_at == moment]
        statement = sa.update(table).where(table.uid.in_(uids), table.gone_at.is_(None))
        if table is Node:
            statement = statement.where(Node.cluster_id == place.id)
        connection.execute(statement.values(gone_at=moment))
