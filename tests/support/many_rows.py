"""A store with many rows of each kind, put there in bulk: what indexes are for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from convoy.brain.store.engine import writing
from convoy.brain.store.sums import KINDS
from convoy.brain.store.tables import (
    Base,
    Cluster,
    HistoryObservation,
    Job,
    JobAttempt,
    JobEvent,
    JobNode,
    JobNodeLoad,
    JobNodeLoad1h,
    JobNodeLoad1m,
    Node,
    NodeEvent,
    NodeLoad,
    NodeLoad1h,
    NodeLoad1m,
    Recommendation,
    Reporter,
    RollupDue,
    ScalePlan,
    TrainingSpeed,
    TrainingSpeed1h,
    TrainingSpeed1m,
)
from support.stored import START, Row, at

JOBS = 150
HOURS = 10
_SUMS = {
    **dict.fromkeys(("cpu_sum", "cpu_time", "memory_sum", "accelerator_sum", "accelerator_time"), 0.0),
    "windows": 6,
    "seconds": 60.0,
    "memory_windows": 0,
    "memory_max": 2**20,
}


def fill(engine: Engine) -> None:
    """Put rows of ``JOBS`` jobs, each with two pods, and of as many machines, into an empty store."""
    with writing(engine) as connection:
        for table, rows in _rows():
            connection.execute(sa.insert(table), list(rows))
        if connection.dialect.name == "mysql":
            for name in Base.metadata.tables:
                connection.exec_driver_sql(f"ANALYZE TABLE {name}").all()


def _rows() -> Iterator[tuple[type[Any], Iterator[Row]]]:
    seen = {"first_seen": START, "last_seen": START}
    yield Cluster, iter([{"id": 1, "name": "here", **seen}])
    yield Node, ({"id": n, "cluster_id": 1, "name": f"n{n}", **seen} for n in _numbers())
    yield NodeEvent, ({"node_id": n, "happened_at": at(h), "reason": "R", "message": ""} for n, h in _hours())
    yield Job, (_job(n) for n in _numbers())
    yield JobAttempt, (_attempt(n, number) for n in _numbers() for number in (1, 2))
    yield JobNode, (_pod(n, node) for n in _numbers() for node in ("a", "b"))
    yield JobEvent, (_event(n, hour) for n, hour in _hours())
    yield Reporter, (_reporter(n, number) for n in _numbers() for number in (1, 2))
    yield Recommendation, (_recommendation(n, hour) for n, hour in _hours())
    yield ScalePlan, (_plan(n, hour) for n, hour in _hours())
    yield HistoryObservation, (_observation(n, hour) for n, hour in _hours())
    yield TrainingSpeed, (_speed(n, hour, minute) for n, hour in _hours() for minute in range(5))
    yield JobNodeLoad, (_load(n, hour, node) for n, hour in _hours() for node in ("a", "b"))
    yield NodeLoad, ({"node_id": n, "ended_at": at(3600 * hour + 7), "seconds": 10.0} for n, hour in _hours())
    for speeds in (TrainingSpeed1m, TrainingSpeed1h):
        yield speeds, (_speed_sums(n, hour) for n, hour in _hours())
    for loads in (JobNodeLoad1m, JobNodeLoad1h):
        yield loads, (_load_sums(n, hour, node) for n, hour in _hours() for node in ("a", "b"))
    for machines in (NodeLoad1m, NodeLoad1h):
        yield machines, ({"node_id": n, "started_at": at(3600 * hour), **_SUMS} for n, hour in _hours())
    yield RollupDue, (_due(series, n) for series in KINDS for n in _numbers())


def _numbers() -> range:
    return range(1, JOBS + 1)


def _hours() -> Iterator[tuple[int, int]]:
    return ((number, hour) for number in _numbers() for hour in range(HOURS))


def _job(number: int) -> Row:
    names = ("image", "user", "model", "cluster", "node_type")
    return dict.fromkeys(names, f"of-{number % 20}") | {
        "id": number,
        "uid": f"uid-{number}",
        "name": f"job-{number}",
        "namespace": "default",
        "template": f"template-{number % 50}",
        "strategy": "allreduce",
        "state": "Running" if number % 10 == 0 else "Succeeded",
        "first_seen": START,
        "last_seen": START + timedelta(hours=number),
    }


def _attempt(job: int, number: int) -> Row:
    sizes = {"workers": number, "ps": 0, "nodes": number, "first_step": 0, "last_step": 100}
    span = {"started_at": at(0), "ended_at": at(9999), "steady_since": at(10), "steady_until": at(9999)}
    return {"job_id": job, "round": number, **sizes, **span}


def _pod(job: int, name: str) -> Row:
    told = {"role": "worker", "rank": 0, "uid": f"pod-{job}-{name}", "started_at": at(0)}
    return {"job_id": job, "name": name, "node_id": job, **told}


def _event(job: int, hour: int) -> Row:
    told = {"reason": f"Reason{hour}", "node": "", "round": 1, "message": "", "evidence": {}}
    return {"job_id": job, "happened_at": at(3600 * hour), **told}


def _reporter(job: int, number: int) -> Row:
    return {"job_id": job, "sender": "master-0", "incarnation": number, "sequence": 9, "last_seen": START}


def _recommendation(job: int, hour: int) -> Row:
    texts = {"stage": "RUNNING", "decision": "KEEP", "reason": "R", "message": "", "currency": ""}
    numbers = {"workers_before": 1, "observations": 1, "history_jobs": 1, "seconds": 0.1}
    found: Row = {"options": [], "request": {}, "evidence": {}}
    return {"id": f"r-{job}-{hour}", "job_id": job, "made_at": at(3600 * hour), **texts, **numbers, **found}


def _plan(job: int, hour: int) -> Row:
    told = {"workers_before": 1, "workers_after": 2, "reason": "", "message": "", "rolled_back": False}
    return {"job_id": job, "name": f"plan-{hour}", "created_at": at(3600 * hour), **told}


def _observation(job: int, hour: int) -> Row:
    told = {"workers": 1, "throughput": 10.0, "observed_at": START, "status": "ok"}
    whence = {"digest": f"{job}-{hour}".rjust(64, "0"), "source": "file", "imported_at": START}
    return {"job": f"past-{job}", "template": f"template-{job % 50}", **told, **whence}


def _due(series: str, subject: int) -> Row:
    return {"series": series, "subject_id": subject, "hour": at(3600 * (HOURS - 1)), "changes": 1}


def _speed(job: int, hour: int, minute: int) -> Row:
    second = 3600 * hour + 60 * minute
    sizes = {"workers": 1, "ps": 0, "nodes": 1, "batch_size": 32, "accumulation_steps": 1}
    steps = {"round": 1, "first_step": second, "last_step": second, "seconds": 10.0, "samples": 100.0}
    return {"job_id": job, "ended_at": at(second), "warming": False, **sizes, **steps}


def _load(job: int, hour: int, node: str) -> Row:
    told = {"source": "agent", "seconds": 10.0, "role": "worker", "rank": 0, "round": 1, "memory_bytes": 1}
    return {"job_id": job, "ended_at": at(3600 * hour + 5), "node": node, **told}


def _speed_sums(job: int, hour: int) -> Row:
    key = {"workers": 1, "ps": 0, "nodes": 1, "batch_size": 32, "accumulation_steps": 1, "warming": False}
    sums = {"windows": 5, "seconds": 50.0, "samples": 500.0, "speeds": 50.0, "squares": 500.0, "compute_sum": 0.0}
    rest = {"compute_time": 0.0, "first_step": 0, "last_step": 9, "last_ended_at": at(3600 * hour + 240)}
    return {"job_id": job, "started_at": at(3600 * hour), "round": 1, **key, **sums, **rest}


def _load_sums(job: int, hour: int, node: str) -> Row:
    key = {"node": node, "source": "agent", "round": 1, "steady": True, "role": "worker"}
    return {"job_id": job, "started_at": at(3600 * hour), **key, **_SUMS}
