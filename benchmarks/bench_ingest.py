"""How fast masters' reports reach MariaDB through the Brain, beside a bare ``executemany`` of the same rows.

    make servers
    python benchmarks/bench_ingest.py                          # 200,000 windows of speed
    python benchmarks/bench_ingest.py --rows 5000000           # is memory flat over five million?
    python benchmarks/bench_ingest.py --database-url mysql://USER:PASSWORD@HOST:3306

It makes a database of its own on the server and drops it at the end. The bare peer is one PyMySQL connection that
inserts the rows, ready made, into a table of the same definition, batch for batch with a commit each: what the Brain
can't do without. It is timed before and after the Brain, and the mean counts. The Brain is a process of its own
(``convoy brain serve``); its masters are threads of this one, each with a job, and send the next batch when the last
one was acknowledged. Printed are rows a second, the ratio, the Brain's memory as it goes, and, from the store itself,
whether each row is there once.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import psutil
import pymysql
import sqlalchemy as sa

from convoy.brain.store.engine import open_engine, parse_url
from convoy.brain.store.migrate import migrate
from convoy.brain.store.tables import TrainingSpeed
from convoy.core.api.envelope import Envelope
from convoy.core.api.v1 import brain_pb2, brain_pb2_grpc, metrics_pb2
from convoy.core.process.quiet import quiet_grpc

START_SECONDS = 60.0
COLUMNS = (
    "job_id", "ended_at", "round", "last_step", "first_step", "seconds", "samples", "workers", "ps", "nodes",
    "batch_size", "accumulation_steps", "warming", "compute_seconds", "origin",
)  # fmt: skip
SERVER = "CONVOY_TEST_MARIADB_URL"


def main() -> int:
    """Run it; 1 if a row is missing or there twice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=500, help="rows a report (default: 500, as masters send)")
    parser.add_argument("--masters", type=int, default=4, help="jobs that report side by side (default: 4)")
    parser.add_argument("--database-url", default=server_url())
    given = parser.parse_args()
    if not given.database_url:
        parser.error(f"no server: run `make servers`, or name one with --database-url or {SERVER}")
    rows = given.rows - given.rows % (given.batch * given.masters)
    quiet_grpc()
    with database(given.database_url) as url:
        some = min(rows, 200_000)
        before = bare(url, some, given.batch)
        seconds, memory, stored = through_the_brain(url, rows, given.batch, given.masters)
        after = bare(url, some, given.batch)
    limit = (before + after) / 2
    print(f"bare executemany   {limit:10,.0f} rows/s   ({before:,.0f} before, {after:,.0f} after; {some:,} rows)")
    print(f"through the Brain  {rows / seconds:10,.0f} rows/s   ({rows:,} rows, {given.masters} masters)")
    print(f"ratio              {rows / seconds / limit:10.2f}")
    print("Brain's memory     " + "  ".join(f"{share:.0%} {size / 2**20:.0f} MiB" for share, size in memory))
    print(f"stored             {stored:10,} of {rows:,}")
    return int(stored != rows)


def server_url() -> str:
    """Return the URL of the server that `make servers` started, or the one that the environment names."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    file = cache / "convoy" / "servers" / "mariadb.env"
    found = file.read_text().strip().partition("=")[2] if file.is_file() else ""
    return os.environ.get(SERVER, found)


@contextmanager
def database(server: str, *, keep: bool = False) -> Iterator[str]:
    """Give the URL of a migrated database that is dropped at the end, or kept and named."""
    name = f"convoy_bench_{uuid.uuid4().hex[:8]}"
    root = sa.create_engine(parse_url(server).set(database=None))
    with root.begin() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    url = parse_url(server).set(drivername="mysql", database=name, query={}).render_as_string(hide_password=False)
    try:
        migrate(url)
        yield url
    finally:
        if keep:
            print(f"kept               {name}")
        else:
            with root.begin() as connection:
                connection.exec_driver_sql(f"DROP DATABASE {name}")
        root.dispose()


def bare(url: str, rows: int, batch: int) -> float:
    """Insert rows, ready made, into a table like training_speed; return rows a second."""
    parsed = parse_url(url)
    connection = pymysql.connect(
        host=parsed.host, port=parsed.port or 3306, user=parsed.username, password=str(parsed.password or ""),
        database=parsed.database, charset="utf8mb4",
    )  # fmt: skip
    begin = datetime.now(UTC).replace(tzinfo=None) - timedelta(days=2)
    ready = [
        (
            1,
            begin + timedelta(seconds=number * 0.5),
            1,
            number,
            number,
            0.5,
            512.0,
            8,
            0,
            2,
            64,
            1,
            0,
            0.01,
            "measured",
        )
        for number in range(rows)
    ]
    statement = f"INSERT INTO bare ({', '.join(COLUMNS)}) VALUES ({', '.join(['%s'] * len(COLUMNS))})"
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE bare LIKE training_speed")
        begun = time.perf_counter()
        for start in range(0, rows, batch):
            cursor.executemany(statement, ready[start : start + batch])
            connection.commit()
        seconds = time.perf_counter() - begun
        cursor.execute("DROP TABLE bare")
    return rows / seconds


def through_the_brain(url: str, rows: int, batch: int, masters: int) -> tuple[float, list[tuple[float, int]], int]:
    """Send rows to a Brain; return the seconds, its memory by share of the rows, and how many rows are stored."""
    environment = {
        **os.environ,
        "CONVOY_DATABASE_URL": url,
        "CONVOY_BRAIN_PORT": "0",
        "CONVOY_MAINTAIN_EVERY_SECONDS": "0",
    }
    brain = subprocess.Popen(
        [sys.executable, "-m", "convoy.cli.main", "brain", "serve"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        address = served_at(brain)
        sent = [0] * masters
        threads = [
            threading.Thread(target=master, args=(address, number, rows // masters, batch, sent), daemon=True)
            for number in range(masters)
        ]
        process = psutil.Process(brain.pid)
        memory: list[tuple[float, int]] = []
        begun = time.perf_counter()
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.02)
            share = sum(sent) / rows
            if share >= (len(memory) + 1) / 5:
                memory.append((share, process.memory_info().rss))
        seconds = time.perf_counter() - begun
        if sum(sent) != rows:
            raise SystemExit(f"only {sum(sent):,} rows were acknowledged")
    finally:
        brain.terminate()
        brain.wait(30)
    engine = open_engine(url)
    with engine.connect() as connection:
        query = sa.select(sa.func.count()).select_from(TrainingSpeed)
        stored = int(connection.execute(query).scalar_one())
    engine.dispose()
    return seconds, memory, stored


def served_at(brain: subprocess.Popen[str]) -> str:
    """Wait until the Brain says at which address it serves; go on reading what it says, so that it never waits."""
    assert brain.stderr is not None
    until = time.monotonic() + START_SECONDS
    said: list[str] = []
    for line in brain.stderr:
        said.append(line)
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        if found and "serving" in line:
            threading.Thread(target=lambda: [None for _ in brain.stderr or ()], daemon=True).start()
            return found.group(0)
        if time.monotonic() > until:
            break
    raise SystemExit(f"the Brain didn't start: {''.join(said)}")


def master(address: str, number: int, rows: int, batch: int, sent: list[int]) -> None:
    """Send one job's rows, a report after the other."""
    job = brain_pb2.JobDescription(
        uid=f"bench-{number}", name=f"bench-{number}", namespace="default", state="Running"
    )
    begin = time.time() - 2 * 86400
    with grpc.insecure_channel(address) as channel:
        stub = brain_pb2_grpc.BrainStub(channel)
        for sequence, start in enumerate(range(0, rows, batch), start=1):
            report = brain_pb2.BrainReport(job=job, speed=[window(begin, one) for one in range(start, start + batch)])
            envelope = Envelope(job=job.uid, sender="master-0", incarnation=1, sequence=sequence)
            ack: Any = stub.Report(report, metadata=envelope.to_metadata(), timeout=60)
            if ack.refused:
                raise SystemExit(f"refused: {ack.refused[0]}")
            sent[number] += ack.stored


def window(begin: float, number: int) -> metrics_pb2.SpeedSample:
    """Return the half second of step ``number``."""
    return metrics_pb2.SpeedSample(
        time=begin + number * 0.1, seconds=0.1, first_step=number, last_step=number, samples=512.0, workers=8,
        nodes=2, batch_size=64, accumulation_steps=1, round=1, compute_seconds=0.01,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
