"""The store at cluster scale: 10,000 jobs and 50 million windows of speed on MariaDB or MySQL.

    make servers
    python benchmarks/bench_store.py --jobs 200                 # a million windows: a minute
    python benchmarks/bench_store.py                            # all fifty million: about an hour, 10 GB of disk
    python benchmarks/bench_store.py --database-url mysql://USER:PASSWORD@HOST:3306

It makes a database of its own and drops it at the end (--keep leaves it, and --database NAME uses it again). The jobs
have 5,000 windows each, spread over four weeks. Printed are:

- maintenance: how many windows a second it sums, and what it does to the store;
- what a master waits for the acknowledgement of a report of 100 windows, while nothing else goes on, and while
  maintenance sums, makes days and drops the oldest ones: the longest wait is what a lock of its could cost ingest;
- the frame of speed by configuration for one job, before and after its hours were summed, of 20 jobs.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from bench_ingest import SERVER, database, server_url, window
from sqlalchemy.engine import Engine

from convoy.brain.features import frames
from convoy.brain.ingest.reports import Ingest
from convoy.brain.store import rollup
from convoy.brain.store.engine import open_engine, parse_url
from convoy.brain.store.maintain import maintain
from convoy.brain.store.migrate import migrate
from convoy.brain.store.retention import Retention
from convoy.brain.store.tables import Job
from convoy.core.api.envelope import Envelope
from convoy.core.api.v1 import brain_pb2
from convoy.core.process.clock import SystemClock

WINDOWS = 5000
SPAN = timedelta(days=28)
SETTLED = timedelta(hours=15)
POOL_BYTES = 2 << 30
NEW_JOBS = 0.02
"""Share of the jobs whose hours are still due when maintenance is timed beside ingest."""


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--database-url", default=server_url())
    parser.add_argument("--keep", action="store_true", help="leave the database there")
    parser.add_argument("--database", help="use the one that --keep left")
    given = parser.parse_args()
    if not given.database_url:
        parser.error(f"no server: run `make servers`, or name one with --database-url or {SERVER}")
    random.seed(7)
    with roomy(given.database_url), chosen(given) as url:
        engine = open_engine(url)
        if not given.database:
            load(engine, given.jobs)
        measure(engine, given.jobs, new=not given.database)
        engine.dispose()
    return 0


@contextmanager
def chosen(given: argparse.Namespace) -> Iterator[str]:
    """Give the database that was kept, or a new one, which is dropped unless it is to be kept."""
    if given.database:
        named = parse_url(given.database_url).set(drivername="mysql", database=given.database, query={})
        migrate(named.render_as_string(hide_password=False))
        yield named.render_as_string(hide_password=False)
        return
    with database(given.database_url, keep=given.keep) as url:
        yield url


@contextmanager
def roomy(server: str) -> Iterator[None]:
    """Give the server the memory that one of this size has; put its own setting back."""
    root = sa.create_engine(parse_url(server).set(database=None))
    with root.connect() as connection:
        before = connection.exec_driver_sql("SELECT @@innodb_buffer_pool_size").scalar_one()
        if int(before) < POOL_BYTES:
            connection.exec_driver_sql(f"SET GLOBAL innodb_buffer_pool_size = {POOL_BYTES}")
        try:
            yield
        finally:
            connection.exec_driver_sql(f"SET GLOBAL innodb_buffer_pool_size = {before}")
    root.dispose()


def load(engine: Engine, jobs: int) -> None:
    """Have the server itself write the windows of all jobs, and mark their hours."""
    begun, now = time.perf_counter(), datetime.now(UTC)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE number (n INT PRIMARY KEY)")
        numbers = [{"n": number} for number in range(1, WINDOWS + 1)]
        connection.execute(sa.text("INSERT INTO number (n) VALUES (:n)"), numbers)
    for job in range(1, jobs + 1):
        start = now - SETTLED - random.random() * (SPAN - SETTLED)
        with engine.begin() as connection:
            connection.execute(sa.insert(Job), [a_job(job, start)])
            connection.execute(sa.text(_WINDOWS), {"job": job, "start": start.replace(tzinfo=None)})
            connection.execute(sa.text(_DUE), {"job": job})
            connection.execute(sa.text(_ATTEMPTS), {"job": job})
        progress("windows written", job * WINDOWS, jobs * WINDOWS)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE number")
    print(f"written            {jobs * WINDOWS:12,} windows of {jobs:,} jobs in {time.perf_counter() - begun:,.0f} s")


_WINDOWS = """
INSERT INTO training_speed (job_id, ended_at, round, last_step, first_step, seconds, samples, workers, ps, nodes,
  batch_size, accumulation_steps, warming, origin)
SELECT :job, DATE_ADD(:start, INTERVAL n * 10 SECOND), 1 + n DIV 1250, n, n, 10.0, 5000.0 + n % 97,
  1 << (n DIV 1250), 0, 1, 64, 1, n % 1250 = 0, 'measured' FROM number
"""
_DUE = """
INSERT INTO rollup_due (series, subject_id, hour, changes)
SELECT DISTINCT 'training_speed', job_id, TIMESTAMP(DATE(ended_at), MAKETIME(HOUR(ended_at), 0, 0)), 1
FROM training_speed WHERE job_id = :job
"""
_ATTEMPTS = """
INSERT INTO job_attempt (job_id, round, workers, ps, nodes, batch_size, accumulation_steps, started_at, ended_at,
  first_step, last_step, steady_since, steady_until)
SELECT job_id, round, MAX(workers), 0, 1, 64, 1, MIN(ended_at), MAX(ended_at), MIN(first_step), MAX(last_step),
  MIN(ended_at), MAX(ended_at) FROM training_speed WHERE job_id = :job GROUP BY job_id, round
"""


def a_job(number: int, seen: datetime) -> dict[str, Any]:
    """Return a row of job."""
    empty = dict.fromkeys(("image", "user", "model", "cluster", "node_type"), "")
    return {
        "id": number, "uid": f"job-{number}", "name": f"job-{number}", "namespace": "default", "state": "Succeeded",
        "template": f"template-{number % 100}", "strategy": "allreduce", **empty, "first_seen": seen,
        "last_seen": seen,
    }  # fmt: skip


def measure(engine: Engine, jobs: int, *, new: bool) -> None:
    """Time frames and maintenance, of a new store before its hours are summed too; print what comes out."""
    some = random.sample(range(1, jobs + 1), 20)
    if new:
        print_frames("frame, hours due   ", engine, some)
        left = set(range(1, jobs + 1)[-max(1, round(jobs * NEW_JOBS)) :])
        due = rollup.due_hours(engine)
        hide(engine, left)
        summed = seconds_of(lambda: roll_up_all(engine, due))
        show(engine)
        windows = (jobs - len(left)) * WINDOWS
        print(f"summed             {windows / summed:12,.0f} windows/s  ({windows:,} in {summed:,.0f} s)")
    print_frames("frame, hours summed", engine, some)
    alone = Probe(engine, "alone")
    with alone:
        time.sleep(20)
    beside = Probe(engine, "beside")
    with beside:
        done = maintain(engine, datetime.now(UTC), Retention(speed=10))
    print(f"maintained         {done.hours:,} hours summed, {done.days} days made, {done.removed} removed")
    for probe in (alone, beside):
        print(f"ingest {probe.name:12s} {probe.told()}")


def hide(engine: Engine, jobs: set[int]) -> None:
    """Put marks of jobs aside."""
    some = f"rollup_due WHERE subject_id >= {min(jobs)}"
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE TABLE aside AS SELECT * FROM {some}")
        connection.exec_driver_sql(f"DELETE FROM {some}")


def show(engine: Engine) -> None:
    """Bring them back."""
    with engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO rollup_due SELECT * FROM aside")
        connection.exec_driver_sql("DROP TABLE aside")


def roll_up_all(engine: Engine, due: int) -> None:
    """Sum what is due, and say how far it is."""
    done = 0

    def told(hours: int) -> None:
        nonlocal done
        done += hours
        progress("hours summed", done, due)

    rollup.roll_up(engine, on_hours=told)


def print_frames(what: str, engine: Engine, jobs: list[int]) -> None:
    """Time the frame of each job."""
    seconds = []
    for job in jobs:
        begun = time.perf_counter()
        frame = frames.observed(engine, f"job-{job}")
        seconds.append(time.perf_counter() - begun)
        if len(frame) != 4 or frame["window_seconds"].sum() != (WINDOWS - 4) * 10:
            raise SystemExit(f"the frame of job-{job} isn't what was written:\n{frame}")
    print(f"{what} {statistics.median(seconds) * 1000:10,.0f} ms median, {max(seconds) * 1000:,.0f} ms worst of 20")


class Probe:
    """A master that reports without pause, and what it waited for each acknowledgement."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.name = name
        self._ingest = Ingest(engine, SystemClock())
        self._stop = threading.Event()
        self._waits: list[float] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Probe:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def told(self) -> str:
        """Return the waits, in a line."""
        ordered = sorted(self._waits)
        return (
            f"{len(ordered):,} reports; median {statistics.median(ordered) * 1000:,.0f} ms, 99 %: "
            f"{ordered[int(len(ordered) * 0.99)] * 1000:,.0f} ms, longest {ordered[-1] * 1000:,.0f} ms"
        )

    def _run(self) -> None:
        job = brain_pb2.JobDescription(uid=f"probe-{self.name}", name="probe", namespace="default", state="Running")
        for sequence in range(1, 10**9):
            if self._stop.is_set():
                return
            begin = time.time() - 60
            speed = [window(begin, number) for number in range(sequence * 100, sequence * 100 + 100)]
            for number, sample in enumerate(speed):
                sample.time = begin + number * 1e-4
            envelope = Envelope(job=job.uid, sender="master-0", incarnation=1, sequence=sequence)
            begun = time.perf_counter()
            self._ingest.store(envelope, brain_pb2.BrainReport(job=job, speed=speed))
            self._waits.append(time.perf_counter() - begun)


def seconds_of(work: Callable[[], None]) -> float:
    """Return how long something takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def progress(what: str, done: int, of: int) -> None:
    """Say how far it is, on a terminal alone."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done:,} of {of:,} {what} " + ("\n" if done >= of else ""))


if __name__ == "__main__":
    sys.exit(main())
