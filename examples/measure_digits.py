"""Measure how fast digits.py trains at several sizes, and write the rows that a history of past jobs is made of.

    python examples/measure_digits.py --output history.csv             # some minutes on 2 cores
    python examples/measure_digits.py --output history.csv --quick     # three jobs, short windows

A job is one model and one global batch; repeating a measurement shows how much the machine's speed drifts. For each
number of workers the script is really run, each worker as a node of its own on this machine (OMP_NUM_THREADS=1, one
core each), and its steps are timed after a warm-up. Nothing is computed that wasn't measured. Run it while the
machine does nothing else: a window in which other processes took CPU is measured again while patience lasts, then the
quietest counts, unless others took more than ``--most-others`` of it. Rows are written as they are measured.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil
import yaml

from convoy.core.api.job import ElasticJob
from convoy.core.api.template import template_key
from convoy.core.process.signals import die_with_parent

SCRIPT = Path(__file__).with_name("digits.py")
MANIFEST = Path(__file__).with_name("digits-allreduce.yaml")
COLUMNS = (
    "job", "template", "model", "strategy", "mode", "cluster", "accelerator", "node_type", "workers", "nodes",
    "batch_size", "accumulation_steps", "worker_cpu", "cluster_cpu", "worker_cpu_used", "worker_memory_used",
    "throughput", "throughput_sd", "observed_at", "window_seconds", "status", "origin",
)  # fmt: skip
START_DEADLINE = 120.0
QUIET_CORES = 0.1
"""CPU, in cores, that other processes may take in a window."""
BLOCK = 5
"""Steps whose mean is one sample of the speed: neighbouring steps aren't independent."""


@dataclass(frozen=True)
class Job:
    """One model and one global batch."""

    width: int
    depth: int
    global_batch: int

    @property
    def model(self) -> str:
        """Its name."""
        return f"digits-conv{self.depth}x{self.width}"


JOBS = tuple(
    Job(width, depth, batch)
    for width, depth in ((32, 3), (48, 3), (64, 2), (64, 3), (96, 3))
    for batch in (256, 512, 1024)
)
QUICK = (Job(48, 3, 512), Job(64, 3, 512), Job(64, 2, 1024))


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(rank: int, world: int, port: int, job_dir: Path) -> dict[str, str]:
    """Return a worker's environment: a node of its own with one core."""
    return os.environ | {
        "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "CONVOY_JOB_DIR": str(job_dir),
        "POD_NAME": f"measure-{rank}", "CUDA_VISIBLE_DEVICES": "",
    }  # fmt: skip


@contextmanager
def running(job: Job, world: int, job_dir: Path) -> Iterator[list[psutil.Process]]:
    """Run the job's workers until the block ends."""
    port = free_port()
    command = [
        sys.executable, str(SCRIPT), "--steps=1000000", f"--global-batch={job.global_batch}", f"--width={job.width}",
        f"--depth={job.depth}", "--checkpoint-every=20",
    ]  # fmt: skip
    with open(job_dir / "stderr.txt", "wb") as errors:
        started = [
            subprocess.Popen(
                command,
                env=environment(rank, world, port, job_dir),
                stdout=errors,
                stderr=errors,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
            for rank in range(world)
        ]
        try:
            yield [psutil.Process(process.pid) for process in started]
        finally:
            for process in started:
                process.send_signal(signal.SIGKILL)
            for process in started:
                process.wait(30)


def finished_steps(job_dir: Path) -> list[float]:
    """Return the times at which process rank 0 finished its steps."""
    lines = [line for path in (job_dir / "steps").glob("measure-0-*.jsonl") for line in path.read_text().splitlines()]
    return [record["t"] for record in map(json.loads, lines) if "event" not in record]


def wait_for_steps(job_dir: Path, count: int, workers: list[psutil.Process]) -> None:
    """Wait until so many steps are finished; end with what a worker said if one died."""
    deadline = time.monotonic() + START_DEADLINE
    while len(finished_steps(job_dir)) < count:
        if not all(worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE for worker in workers):
            raise SystemExit(f"a worker ended early:\n{(job_dir / 'stderr.txt').read_text()[-2000:]}")
        if time.monotonic() > deadline:
            raise SystemExit(f"{count} steps weren't finished within {START_DEADLINE:g} s; is the machine busy?")
        time.sleep(0.2)


@dataclass(frozen=True)
class Window:
    """A stretch of time and who used the processors in it, in cores."""

    since: float
    until: float
    own: float
    others: float


def busy_seconds() -> float:
    """Return the CPU time that all of the machine, and its host in our stead, has used."""
    times = psutil.cpu_times()
    return sum(getattr(times, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq", "steal"))


def quietest_window(workers: list[psutil.Process], job_dir: Path, seconds: float, patience: float) -> Window:
    """Return the first window in which others took at most ``QUIET_CORES``, else the quietest within ``patience``."""
    windows: list[Window] = []
    end = time.monotonic() + patience
    while not windows or (windows[-1].others > QUIET_CORES and time.monotonic() < end):
        since, used = time.time(), sum(sum(worker.cpu_times()[:2]) for worker in workers)
        busy, enough = busy_seconds(), len(finished_steps(job_dir)) + 2 * BLOCK + 2
        time.sleep(seconds)
        wait_for_steps(job_dir, enough, workers)
        own = sum(sum(worker.cpu_times()[:2]) for worker in workers) - used
        until = time.time()
        others = max(0.0, busy_seconds() - busy - own)
        windows.append(Window(since, until, own / (until - since), others / (until - since)))
    return min(windows, key=lambda window: window.others)


def measure(job: Job, world: int, seconds: float, patience: float) -> tuple[Window, dict[str, object]]:
    """Run a job at a size; return the window and the measurement's columns."""
    with tempfile.TemporaryDirectory(prefix="measure-digits-") as folder:
        job_dir = Path(folder)
        with running(job, world, job_dir) as workers:
            wait_for_steps(job_dir, 5, workers)
            time.sleep(1.0)  # let caches and clocks settle: not measured
            window = quietest_window(workers, job_dir, seconds, patience)
            memory = sum(worker.memory_full_info().pss for worker in workers) / world
        times = [at for at in finished_steps(job_dir) if window.since <= at <= window.until]
    span = times[-1] - times[0]
    ends = times[::BLOCK]
    blocks = [job.global_batch * BLOCK / (end - start) for start, end in itertools.pairwise(ends)]
    return window, {
        "workers": world,
        "nodes": world,
        "batch_size": job.global_batch / world,
        "accumulation_steps": 1,
        "worker_cpu": 1,
        "worker_cpu_used": round(window.own / world, 4),
        "worker_memory_used": round(memory),
        "throughput": round(job.global_batch * (len(times) - 1) / span, 3),
        "throughput_sd": round(statistics.stdev(blocks) / math.sqrt(len(blocks)), 3),
        "observed_at": datetime.fromtimestamp(times[-1], UTC).isoformat(),
        "window_seconds": round(span, 3),
        "status": "ok",
    }


def template() -> str:
    """Return the template key of the example job, which runs the same script."""
    job = ElasticJob.from_manifest(yaml.safe_load(MANIFEST.read_text()))
    return template_key(job.spec.replica_specs["worker"].template.main())


def processor() -> str:
    """Return the processor's name."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="CSV file; rows are added if it exists")
    parser.add_argument("--quick", action="store_true", help="three jobs, 5 s each size")
    parser.add_argument("--seconds", type=float, default=12.0, help="of each measurement (default: %(default)g)")
    parser.add_argument(
        "--patience", type=float, default=60.0, help="seconds to wait for a quiet window (default: %(default)g)"
    )
    parser.add_argument(
        "--most-others",
        type=float,
        default=2 * QUIET_CORES,
        help="cores taken by others above which a measurement is left out (default: %(default)g)",
    )
    parser.add_argument("--repeat", type=int, default=2, help="of the whole round (default: %(default)s)")
    parser.add_argument(
        "--cluster", default="measured", help="name of the cluster in the rows (default: %(default)s)"
    )
    parser.add_argument("--workers", type=int, nargs="+", help="sizes (default: 1 to the cores + 1, at least 3)")
    args = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    sizes = args.workers or list(range(1, max(3, cores + 1) + 1))
    jobs, seconds = (QUICK, 5.0) if args.quick else (JOBS, args.seconds)
    fixed = {
        "template": template(),
        "strategy": "allreduce",
        "mode": "sync",
        "cluster": args.cluster,
        "accelerator": "",
        "node_type": f"{platform.machine()}-{cores}core",
        "cluster_cpu": cores,
        "origin": f"digits.py on {cores} cores of {processor()}, {datetime.now(UTC):%Y-%m-%d}",
    }
    is_new = not args.output.exists()
    with open(args.output, "a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if is_new:
            writer.writeheader()
        for job, world in [(job, world) for _ in range(args.repeat) for job in jobs for world in sizes]:
            name = f"{job.model}-b{job.global_batch}"
            window, figures = measure(job, world, seconds, args.patience)
            row = fixed | {"job": name, "model": job.model} | figures
            said = f"{name}: {world} workers, {row['throughput']} samples/s (sd {row['throughput_sd']})"
            if window.others > args.most_others:
                print(f"{said}, left out: others took {window.others:.2f} cores of the quietest window", flush=True)
                continue
            writer.writerow(row)
            file.flush()
            print(said, flush=True)


if __name__ == "__main__":
    main()
