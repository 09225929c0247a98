"""A store with something to learn from and jobs to plan for, and the batch run on it: here, or as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from convoy.brain.batch.engines import Fitter, Local
from convoy.brain.batch.pipeline import Outcome, run_window
from convoy.brain.batch.window import Window
from convoy.brain.batch.work import Mode, Surroundings
from convoy.brain.ingest.history import import_history
from convoy.brain.models.registry.kinds import KINDS
from convoy.brain.settings import BrainSettings
from convoy.brain.store.engine import open_engine, reading
from convoy.brain.store.model_files import Registry
from convoy.brain.store.tables import Job, ModelVersion, OptimizationRun, Recommendation, RollupDue
from convoy.brain.store.tables.base import Base
from convoy.core.api import names
from convoy.core.cluster.local import LocalCluster, open_cluster
from convoy.core.process import logs
from convoy.core.process.clock import SystemClock
from support.loglinear import LogLinear
from support.manifests import job as job_manifest
from support.simulated_jobs import simulated_history
from support.stored import Stored, speed

JOBS = ("first", "second", "by-hand")
"""Live jobs; the last one's size is its user's."""
NOW = datetime(2033, 3, 2, 10, 20, tzinfo=UTC)
"""Later than history is imported, whose time is the machine's."""
WINDOW = Window(datetime(2033, 3, 2, 9, tzinfo=UTC), datetime(2033, 3, 2, 10, tzinfo=UTC))


class At:
    """A clock that runs, from a moment."""

    def __init__(self, moment: datetime = NOW) -> None:
        self._ahead = moment.timestamp() - SystemClock().now()

    def now(self) -> float:
        """Return seconds since the epoch."""
        return SystemClock().now() + self._ahead

    def monotonic(self) -> float:
        """Return seconds that never step back."""
        return SystemClock().monotonic()


def fill(engine: Engine, home: Path, *, uids: dict[str, str] | None = None, now: datetime = NOW) -> None:
    """Store history of 12 jobs, and the live jobs, each measured at one worker, with their masters' questions."""
    frame = simulated_history(12, 0, prefix="past")
    few = frame[frame["workers"].isin([1, 2, 4, 8]) & frame["batch_size"].isin([16, 64])]
    path = home / "history.csv"
    few.assign(template="t").to_csv(path, index=False)
    assert import_history(engine, path).refused.rows == 0
    stored = Stored(engine)
    for place, name in enumerate(JOBS):
        uid = (uids or {}).get(name, f"uid-{name}")
        mode = "manual" if name == "by-hand" else "cluster"
        seen = {"first_seen": now - timedelta(minutes=30), "last_seen": now}
        number = stored.job(uid, name=name, template="t", optimize_mode=mode, **seen)
        rows = [
            {**speed(10.0 * count, rate=300.0 * (1 + place)), "ended_at": now - timedelta(seconds=1200 - 10 * count)}
            for count in range(1, 21)
        ]
        stored.speed(number, rows)
        asked = {
            "job": {"uid": uid},
            "stage": "RUNNING",
            "current": {"workers": 1, "worker_cpu": 1.0},
            "limits": {"min_workers": 1, "max_workers": 8, "node_unit": 1, "free_cpu": 64.0},
        }
        stored.recommendation(number, f"asked-{name}", request=asked, made_at=now - timedelta(minutes=15))


@contextmanager
def cluster_with_jobs(state_dir: Path) -> Iterator[tuple[LocalCluster, dict[str, str]]]:
    """Give this machine's cluster with the live jobs as objects, and their uids; no operator runs."""
    with open_cluster(state_dir) as cluster:
        uids = {}
        for name in JOBS:
            manifest = job_manifest(name, metadata__namespace="default", spec__optimizeMode="cluster")
            made = cluster.create(manifest, field_manager=names.MANAGER_CLI)
            uids[name] = made["metadata"]["uid"]
        yield cluster, uids


def small_model(patch: pytest.MonkeyPatch) -> None:
    """Have a small model in the place of the one of throughput, which takes seconds to learn."""
    kind = replace(KINDS["throughput"], module="support.loglinear", attribute="LogLinear")
    patch.setitem(KINDS, "throughput", kind)
    patch.setattr("convoy.brain.serve.knowledge.ThroughputModel", LogLinear)
    patch.setattr("convoy.brain.serve.companions.Companions.needs", lambda self, asked, load: None)


def surroundings(
    engine: Engine,
    home: Path,
    *,
    mode: Mode = Mode.ADVISE,
    cluster: LocalCluster | None = None,
    clock: Any = None,
    fitter: Fitter | None = None,
    **changes: Any,
) -> Surroundings:
    """Return what a batch in this process works with; ``told`` of its progress are (stage, what) in ``progress``."""
    settings = BrainSettings.load(**{"reports_dir": home / "reports", "models_dir": home / "models", **changes})
    return Surroundings(
        engine=engine,
        registry=Registry(engine, settings.models_folder()),
        settings=settings,
        clock=clock or At(),
        mode=mode,
        fitter=fitter or Local(),
        cluster=cluster,
        progress=lambda stage, what: None,
        stop=threading.Event(),
    )


def in_process(url: str, home: Path, *, mode: str = "advise", seconds: float = 120.0, **environment: str) -> Any:
    """Run the batch for the window as a process of its own; return how it ended and what it printed."""
    return subprocess.run(
        [sys.executable, "-m", "support.batches", url, str(home), mode, str(seconds)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[1]), **environment},
    )


def main(url: str, home: Path, mode: str, seconds: float) -> None:
    """Run the batch for the window with the small model, on this machine's cluster if there is one."""
    from convoy.brain.batch.pipeline import run_window

    logs.configure("batch")
    engine = open_engine(url)
    state_dir = Path(os.environ["CONVOY_STATE_DIR"])
    cluster = open_cluster(state_dir) if (state_dir / "cluster").is_dir() else None
    with pytest.MonkeyPatch.context() as patch:
        small_model(patch)
        around = surroundings(engine, home, mode=Mode(mode), cluster=cluster)
        outcome = run_window(around, WINDOW, seconds)
    sys.stdout.write(json.dumps({"ending": outcome.ending.value, "message": outcome.message}) + "\n")


def runs_of(engine: Engine) -> list[Any]:
    """Return the rows of runs, the latest window first."""
    order = (OptimizationRun.window_until.desc(), OptimizationRun.id.desc())
    with reading(engine) as connection:
        return list(connection.execute(sa.select(OptimizationRun.__table__).order_by(*order)).all())


_VARY = {
    Recommendation: ("seconds", "made_at", "decided_at", "evidence", "run_id"),
    ModelVersion: ("digest", "file", "created_at", "seconds", "metrics", "id"),
    OptimizationRun: ("began_at", "ended_at", "deadline_at", "owner", "starts", "engine", "id"),
    RollupDue: (),
}


def written(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    """Return what runs wrote, without what differs between two of the same: times, and what a database numbers."""
    found: dict[str, list[dict[str, Any]]] = {}
    with reading(engine) as connection:
        names_of = {row.id: row for row in connection.execute(sa.select(Job.id, Job.name, Job.uid))}
        for table, vary in _VARY.items():
            rows = connection.execute(sa.select(table.__table__)).mappings().all()
            found[table.__tablename__] = [
                {name: value for name, value in row.items() if name not in vary} for row in rows
            ]
    advised = {row["id"]: row["job_id"] for row in found["recommendation"] if not row["id"].startswith("asked-")}
    text = json.dumps(_timeless(found), default=str)
    for identifier, job in advised.items():
        text = text.replace(identifier, f"advice-{names_of[job].name}").replace(identifier[:8], names_of[job].name)
    for job in names_of.values():
        text = text.replace(job.uid, f"uid-of-{job.name}").replace(f'"job_id": {job.id},', f'"job_id": "{job.name}",')
    normal: dict[str, list[dict[str, Any]]] = json.loads(text)
    return {table: sorted(rows, key=json.dumps) for table, rows in normal.items()}


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        vary = ("seconds", "fitted_at", "digest", "hours")  # of a file that says how long its fit took
        return {name: _timeless(one) for name, one in value.items() if name not in vary}
    if isinstance(value, list):
        return [_timeless(one) for one in value]
    return value


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], float(sys.argv[4]))


def run(around: Surroundings, window: Window = WINDOW, seconds: float = 120.0) -> Outcome:
    """Run the batch here."""
    return run_window(around, window, seconds)


def all_rows(engine: Engine, table: type[Base]) -> list[sa.RowMapping]:
    """Return a table's rows."""
    with reading(engine) as connection:
        return list(connection.execute(sa.select(table.__table__)).mappings())


def proposed(engine: Engine) -> dict[int, sa.RowMapping]:
    """Return what runs of the batch recommended, by the job's number."""
    return {row["job_id"]: row for row in all_rows(engine, Recommendation) if row["run_id"] is not None}
