"""What a run left behind: step logs, the cluster's objects, the Brain's store, the kills. Opened read-only."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from convoy.cli.demo.verify import steps
from convoy.cli.demo.verify.steps import BadEvidence, Trace

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kill:
    """One SIGKILL: when, to what (``worker``, ``node``, ``master``), in which pod, to which process."""

    t: float
    what: str
    pod: str
    pid: int


@dataclass(frozen=True, slots=True)
class Measured:
    """A job that ran at a fixed size without the Brain; ``seen``: the Brain's store knows of it all the same."""

    name: str
    workers: int
    seen: bool
    trace: Trace


@dataclass(frozen=True, slots=True)
class Evidence:
    """All of it. Rows have the store's column names; times are seconds since the epoch.

    Attributes:
        quick: whether the run was the short form, in which speeds aren't judged.
        job: the ElasticJob that the Brain sized.
        plans: its ScalePlans, first to last.
        trace: what its processes logged.
        measured: the jobs at fixed sizes that ran after it.
        kills: in the order of time.
        largest_size: the largest size that the job may have and the machine has cores for.
        history, loads, speeds, recommendations: rows of the Brain's store, the last three of this job alone.
    """

    directory: Path
    quick: bool
    job: dict[str, Any]
    plans: list[dict[str, Any]]
    trace: Trace
    measured: list[Measured]
    kills: list[Kill]
    history: list[Row]
    loads: list[Row]
    speeds: list[Row]
    recommendations: list[Row]
    largest_size: int
    store: Path
    objects: Path


def read(directory: Path) -> Evidence:
    """Read a run's evidence.

    Raises:
        BadEvidence: a part is missing or can't be read; the message names it.
    """
    state = directory / "state"
    objects, store = state / "cluster" / "cluster.db", state / "brain.db"
    quick, kills = _kills(directory / "kills.jsonl")
    jobs = _objects(objects, "ElasticJob")
    sized = [job for job in jobs if job["spec"].get("optimizeMode") == "cluster"]
    if len(sized) != 1:
        raise BadEvidence(f"{objects}: {len(sized)} jobs are sized by the Brain, expected one")
    job = sized[0]
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    known = {row["uid"] for row in _rows(store, "SELECT uid FROM job")}
    plans = [plan for plan in _objects(objects, "ScalePlan") if plan["spec"].get("ownerJob") == name]
    plans.sort(key=lambda plan: moment(plan["metadata"]["creationTimestamp"]))
    return Evidence(
        directory=directory,
        quick=quick,
        job=job,
        plans=plans,
        trace=steps.read(_job_dir(state, job) / "steps"),
        measured=[_measured(state, other, known) for other in jobs if other is not job],
        kills=kills,
        history=_rows(store, "SELECT * FROM history_observation"),
        loads=_of_job(store, "job_node_load", uid),
        speeds=_of_job(store, "training_speed", uid),
        recommendations=_of_job(store, "recommendation", uid),
        largest_size=_largest_size(job, _objects(objects, "Node")),
        store=store,
        objects=objects,
    )


def moment(text: str) -> float:
    """Return a time as Kubernetes or the store writes it in seconds since the epoch; without a zone it is UTC."""
    read = datetime.fromisoformat(text)
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()


def _kills(path: Path) -> tuple[bool, list[Kill]]:
    try:
        records = [json.loads(line) for line in path.read_text().splitlines()]
        quick = records[0]["form"] == "quick"
        kills = [Kill(float(one["t"]), one["what"], one["pod"], int(one["pid"])) for one in records[1:]]
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise BadEvidence(f"{path}: {error!r}") from None
    return quick, sorted(kills, key=lambda kill: kill.t)


def _job_dir(state: Path, job: dict[str, Any]) -> Path:
    metadata = job["metadata"]
    return state / "jobs" / str(metadata["namespace"]) / f"{metadata['name']}-{metadata['uid'][:8]}"


def _largest_size(job: dict[str, Any], nodes: list[dict[str, Any]]) -> int:
    cores = sum(int(float(node["status"]["allocatable"]["cpu"])) for node in nodes)
    most = int(job["spec"]["replicaSpecs"]["worker"].get("maxReplicas", 1))
    return min(most, cores) if cores else most


def _measured(state: Path, job: dict[str, Any], known: set[str]) -> Measured:
    workers = int(job["spec"]["replicaSpecs"]["worker"]["replicas"])
    seen = job["metadata"]["uid"] in known
    return Measured(job["metadata"]["name"], workers, seen, steps.read(_job_dir(state, job) / "steps"))


def _objects(path: Path, kind: str) -> list[dict[str, Any]]:
    rows = _rows(path, "SELECT manifest FROM objects WHERE kind = ?", kind)
    return [json.loads(row["manifest"]) for row in rows]


def _of_job(path: Path, table: str, uid: str) -> list[Row]:
    return _rows(path, f"SELECT t.* FROM {table} t JOIN job ON job.id = t.job_id WHERE job.uid = ?", uid)


def _rows(path: Path, query: str, *values: str) -> list[Row]:
    if not path.is_file():
        raise BadEvidence(f"{path}: no such file")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query, values)]
    except sqlite3.Error as error:
        raise BadEvidence(f"{path}: {error}") from None
