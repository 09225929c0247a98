"""A Dask cluster of a scheduler and workers, each a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.waiting import until


class DaskCluster:
    """``address`` is the scheduler's, HOST:PORT."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "scheduler.json"
        self.processes: list[subprocess.Popen[bytes]] = []
        self._log = open(folder / "dask.log", "ab")  # noqa: SIM115 (closed by end)
        self.scheduler = self._start(
            "dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show", "--scheduler-file",
            str(self._file),
        )  # fmt: skip
        until(self._file.exists, "the scheduler to listen", timeout=40.0)
        self.address = _address(self._file)

    def worker(self) -> subprocess.Popen[bytes]:
        """Start a worker of one thread."""
        return self._start(
            "dask_worker", f"tcp://{self.address}", "--nthreads", "1", "--no-nanny", "--no-dashboard",
            "--local-directory", str(self._folder),
        )  # fmt: skip

    def end(self) -> None:
        """Kill all of it."""
        for process in self.processes:
            process.kill()
            process.wait(10)
        self._log.close()

    def _start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-m", f"distributed.cli.{program}", *arguments]
        process = subprocess.Popen(command, stdout=self._log, stderr=self._log, env=environment, cwd=self._folder)
        self.processes.append(process)
        return process


@contextmanager
def dask_cluster(folder: Path, workers: int = 2) -> Iterator[DaskCluster]:
    """Give a running cluster; its workers may not have arrived yet."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = DaskCluster(folder)
    try:
        for _ in range(workers):
            cluster.worker()
        yield cluster
    finally:
        cluster.end()


def _address(file: Path) -> str:
    return str(json.loads(file.read_text())["address"]).removeprefix("tcp://")
