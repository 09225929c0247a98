"""Rows of the store, put there as ingest puts them, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from convoy.brain.store import attempts, jobs, series
from convoy.brain.store.engine import writing
from convoy.brain.store.tables import (
    Cluster,
    Job,
    JobNode,
    JobNodeLoad,
    Node,
    NodeLoad,
    Recommendation,
    ScalePlan,
    TrainingSpeed,
)
from convoy.brain.store.write import insert_new

Row = dict[str, Any]
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
"""A full hour."""
GIB = 2**30


def at(seconds: float) -> datetime:
    """Return the moment so many seconds after START."""
    return START + timedelta(seconds=seconds)


def speed(second: float, *, rate: float = 100.0, seconds: float = 10.0, **changes: Any) -> Row:
    """A window of training that ends so many seconds after START."""
    step = changes.pop("step", round(second * 10))
    row = {
        "ended_at": at(second),
        "seconds": seconds,
        "samples": rate * seconds,
        "first_step": step,
        "last_step": step,
        "round": 1,
        "workers": 1,
        "ps": 0,
        "nodes": 1,
        "batch_size": 32,
        "accumulation_steps": 1,
        "warming": False,
        "compute_seconds": None,
    }
    return row | changes


def pod_load(second: float, node: str = "worker-0", **changes: Any) -> Row:
    """A window of a pod's load that ends so many seconds after START."""
    row = {
        "ended_at": at(second),
        "seconds": 10.0,
        "node": node,
        "source": "agent",
        "role": "worker",
        "rank": 0,
        "round": 1,
        "cpu_cores": None,
        "memory_bytes": None,
        "network_received": None,
        "network_sent": None,
        "disk_read": None,
        "disk_written": None,
        "accelerator_busy": None,
        "accelerator_memory": None,
        "cpu_allotted": None,
        "memory_allotted": None,
    }
    return row | changes


class Stored:
    """Puts rows into a store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def job(self, uid: str = "uid-1", **changes: Any) -> int:
        """Store a job; return its number."""
        seen = changes.pop("first_seen", START), changes.pop("last_seen", START + timedelta(hours=1))
        texts = ("image", "user", "model", "dataset", "mode", "optimize_mode", "accelerator", "cluster", "node_type")
        row = dict.fromkeys(texts, "") | {
            "uid": uid,
            "name": uid,
            "namespace": "default",
            "template": "template-1",
            "strategy": "allreduce",
            "state": "Running",
        }
        gone = changes.pop("gone_at", None)
        with writing(self._engine) as connection:
            number = jobs.ensure(connection, row | changes, seen[0])
            values = {"last_seen": seen[1], "gone_at": gone}
            connection.execute(sa.update(Job).where(Job.id == number).values(values))
        return number

    def speed(self, job: int, rows: Iterable[Row]) -> None:
        """Store windows of a job's speed, and what they say of its attempts."""
        given = list(rows)
        with writing(self._engine) as connection:
            attempts.follow(connection, job, given)
            series.insert(connection, TrainingSpeed, [{"job_id": job, **row} for row in given])

    def pod_load(self, job: int, rows: Iterable[Row]) -> None:
        """Store windows of the load of a job's pods."""
        with writing(self._engine) as connection:
            series.insert(connection, JobNodeLoad, [{"job_id": job, **row} for row in rows])

    def machine_load(self, node: int, rows: Iterable[Row]) -> None:
        """Store windows of the load of a machine: of rows as ``pod_load`` gives them, what a machine has."""
        names = set(NodeLoad.__table__.columns.keys())
        with writing(self._engine) as connection:
            given = [{name: value for name, value in row.items() if name in names} for row in rows]
            series.insert(connection, NodeLoad, [{"node_id": node, **row} for row in given])

    def machine(self, name: str = "machine-1", cluster: str = "east", **changes: Any) -> int:
        """Store a machine, and its cluster where it isn't there; return the machine's number."""
        seen = {"first_seen": START, "last_seen": START}
        with writing(self._engine) as connection:
            insert_new(connection, Cluster, [{"name": cluster, **seen}])
            found = connection.execute(sa.select(Cluster.id).where(Cluster.name == cluster)).scalar_one()
            row = {"cluster_id": found, "name": name, **seen} | changes
            connection.execute(sa.insert(Node).values(**row))
            query = sa.select(Node.id).where(Node.cluster_id == found, Node.name == name)
            return connection.execute(query).scalar_one()

    def pod(self, job: int, name: str = "worker-0", **changes: Any) -> None:
        """Store a pod of a job."""
        with writing(self._engine) as connection:
            connection.execute(sa.insert(JobNode).values(**{"job_id": job, "name": name, "role": "worker"} | changes))

    def plan(self, job: int, name: str = "plan-1", **changes: Any) -> None:
        """Store a plan of a job."""
        row = {
            "job_id": job,
            "name": name,
            "created_at": START,
            "workers_before": 1,
            "workers_after": 2,
            "reason": "FasterWithMore",
            "message": "",
            "rolled_back": False,
        }
        with writing(self._engine) as connection:
            connection.execute(sa.insert(ScalePlan).values(**row | changes))

    def recommendation(self, job: int, identifier: str, **changes: Any) -> None:
        """Store a recommendation for a job."""
        row = {
            "id": identifier,
            "job_id": job,
            "made_at": START,
            "stage": "RUNNING",
            "decision": "CHANGE",
            "reason": "FasterWithMore",
            "message": "",
            "workers_before": 1,
            "currency": "USD",
            "observations": 1,
            "history_jobs": 0,
            "options": [],
            "request": {},
            "evidence": {},
            "seconds": 0.1,
        }
        with writing(self._engine) as connection:
            connection.execute(sa.insert(Recommendation).values(**row | changes))
