"""Which rows objects mean that others name: by uid, by name where there is no uid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from convoy.brain.ingest.monitor.event import Subject
from convoy.brain.store.tables import Job, JobNode, Node, ScalePlan
from convoy.core.cluster.port import Kind


@dataclass(frozen=True, slots=True)
class OfJob:
    """A job, and the pod of it; ``""``: the job as a whole."""

    job_id: int
    node: str


@dataclass(frozen=True, slots=True)
class OfNode:
    """A machine."""

    node_id: int


Found: TypeAlias = OfJob | OfNode


def jobs(connection: Connection, uids: Iterable[str]) -> dict[str, int]:
    """Return the numbers of the jobs with these uids."""
    named = list(uids)
    query = sa.select(Job.uid, Job.id).where(Job.uid.in_(named))
    return {row.uid: row.id for row in connection.execute(query)} if named else {}


def jobs_by_name(
    connection: Connection, cluster: str, named: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], int]:
    """Return the numbers of the jobs that are there under (namespace, name), of several the latest."""
    wanted = set(named)
    if not wanted:
        return {}
    query = sa.select(Job.namespace, Job.name, Job.id).where(
        sa.tuple_(Job.name, Job.namespace).in_([(name, namespace) for namespace, name in wanted]),
        Job.cluster == cluster,
        Job.gone_at.is_(None),
    )
    return {(row.namespace, row.name): row.id for row in connection.execute(query.order_by(Job.id))}


def find(connection: Connection, cluster_id: int, wanted: Sequence[Subject]) -> dict[Subject, Found]:
    """Return what is stored of events' subjects; those that aren't are left out."""
    of = {kind: [one for one in wanted if one.kind is kind] for kind in Kind}
    known_jobs = jobs(connection, {one.uid for one in of[Kind.ELASTIC_JOB]})
    found: dict[Subject, Found] = {
        one: OfJob(known_jobs[one.uid], "") for one in of[Kind.ELASTIC_JOB] if one.uid in known_jobs
    }
    pods = sa.select(JobNode.uid, JobNode.job_id, JobNode.name)
    plans = sa.select(ScalePlan.uid, ScalePlan.job_id, sa.literal("").label("name"))
    for kind, query, uid in ((Kind.POD, pods, JobNode.uid), (Kind.SCALE_PLAN, plans, ScalePlan.uid)):
        if uids := {one.uid for one in of[kind]}:
            there = {row.uid: OfJob(row.job_id, row.name) for row in connection.execute(query.where(uid.in_(uids)))}
            found |= {one: there[one.uid] for one in of[kind] if one.uid in there}
    if machines := {one.name for one in of[Kind.NODE]}:
        nodes = sa.select(Node.name, Node.id).where(Node.cluster_id == cluster_id, Node.name.in_(machines))
        ids = {row.name: row.id for row in connection.execute(nodes)}
        found |= {one: OfNode(ids[one.name]) for one in of[Kind.NODE] if one.name in ids}
    return found
