"""What of a cluster's objects the store takes for present: a monitor that starts compares it with what is there."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from convoy.brain.ingest.monitor.store import Place
from convoy.brain.store.tables import Job, JobNode, Node, ScalePlan
from convoy.core.cluster.follow import Known
from convoy.core.cluster.port import Kind


def known(connection: Connection, place: Place, kind: Kind, namespace: str | None) -> list[Known]:
    """Return the objects of a kind, of one namespace (None: of all), that weren't found gone; of events none."""
    query = _query(kind, place)
    if query is None:
        return []
    if namespace is not None and kind is not Kind.NODE:
        query = query.where(Job.namespace == namespace)
    # Their versions aren't stored: each is told again, as it is now.
    return [Known(row.uid, row.namespace, row.name, "") for row in connection.execute(query)]


def _query(kind: Kind, place: Place) -> Any:
    match kind:
        case Kind.NODE:
            there = sa.select(Node.uid, sa.literal("").label("namespace"), Node.name)
            return _present(there.where(Node.cluster_id == place.id), Node)
        case Kind.ELASTIC_JOB:
            return _present(sa.select(Job.uid, Job.namespace, Job.name).where(Job.cluster == place.name), Job)
        case Kind.POD:
            return _of_job(JobNode, place)
        case Kind.SCALE_PLAN:
            return _of_job(ScalePlan, place)
    return None


def _of_job(table: type[Any], place: Place) -> Any:
    rows = sa.select(table.uid, Job.namespace, table.name).join(Job, Job.id == table.job_id)
    return _present(rows.where(Job.cluster == place.name), table)


def _present(query: Any, table: type[Any]) -> Any:
    return query.where(table.gone_at.is_(None), table.uid != "")
