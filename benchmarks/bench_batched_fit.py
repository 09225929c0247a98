"""How fast thousands of jobs are fitted together, beside each job's own fit, in the same run.

    python benchmarks/bench_batched_fit.py                        # 10,000 jobs of 8 observations, one core
    python benchmarks/bench_batched_fit.py --jobs 2000 --learn    # and a model that learns from them
    python benchmarks/bench_batched_fit.py --device cuda

Jobs are simulated, all-reduce, each seen at random configurations with 3 % noise. Printed: seconds for reading the
jobs' frame, for setting up the observations' covariances, and for the fits together (torch, its import not counted),
in brackets those of the processor, since a machine may be busy with other things; the same for each job's own fit, on
a sample; how far the two objectives are apart there; the process's peak memory. The goal is 10,000 jobs in 10 s on
one core and below 2 GiB, objectives within 1e-4.
"""

from __future__ import annotations

import argparse
import os
import resource
import time

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")  # one core; before numpy is imported

import numpy as np
import pandas as pd
import torch

from convoy.brain.models import ThroughputModel
from convoy.brain.models.throughput.batched import find_modes
from convoy.brain.models.throughput.history import jobs_of
from convoy.brain.models.throughput.misfit import Misfit, Seen
from convoy.brain.models.throughput.mode import Scope, find_mode
from convoy.brain.models.throughput.physics import ALL_REDUCE, Array
from convoy.brain.models.throughput.prior import default_scope

TYPICAL_BATCH = 32.0


def simulated(jobs: int, observations: int, seed: int) -> pd.DataFrame:
    """Return measurements of jobs with compute, rings within and between nodes, and overlap of their own."""
    generator = np.random.default_rng(seed)
    sample, overhead, ring, link, power = (
        typical * np.exp(spread * generator.standard_normal((jobs, 1)))
        for typical, spread in ((0.004, 0.7), (0.03, 0.8), (0.02, 0.8), (2.5, 0.4), (1.6, 0.2))
    )
    workers = generator.integers(1, 33, (jobs, observations)).astype(np.float64)
    nodes = np.ceil(workers / 4)
    batch = generator.choice([8.0, 16.0, 32.0, 64.0], (jobs, observations))
    compute = overhead + sample * batch
    exchange = np.where(workers > 1, ring * (1 + 0.1 * (workers - 2)) * np.where(nodes > 1, link, 1.0), 0.0)
    step = (compute**power + exchange**power) ** (1 / power)
    speed = workers * batch / step * np.exp(0.03 * generator.standard_normal(step.shape))
    columns = {"workers": workers, "nodes": nodes, "batch_size": batch, "throughput": speed}
    rows = pd.DataFrame({column: values.reshape(-1) for column, values in columns.items()})
    return rows.assign(job=np.repeat([f"job-{number}" for number in range(jobs)], observations), window_seconds=60.0)


def objective(seen: Seen, scope: Scope, covariance: Array, theta: Array) -> float:
    """Return what both fits make small."""
    residual, away = seen.values - seen.physics(theta[None])[0], theta - scope.mean
    fit = residual @ np.linalg.solve(covariance, residual)
    return float(0.5 * fit + 0.5 * away @ np.linalg.solve(scope.covariance, away))


def _clocks() -> Array:
    return np.array([time.perf_counter(), time.process_time()])


def _said(seconds: Array) -> str:
    return f"{seconds[0]:.2f} s ({seconds[1]:.2f})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--observations", type=int, default=8, help="measurements of one job (default: %(default)s)")
    parser.add_argument("--sample", type=int, default=1000, help="jobs fitted by themselves, too")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help='"cpu" or "cuda"')
    parser.add_argument("--learn", action="store_true", help="let a model learn from the jobs, too")
    args = parser.parse_args()
    torch.set_num_threads(1)
    frame = simulated(args.jobs, args.observations, args.seed)
    scope = default_scope(ALL_REDUCE)
    find_modes([], scope, [], device=args.device)

    clocks = [_clocks()]
    observed = [job.observations.relative(TYPICAL_BATCH) for job in jobs_of(frame, 48)]
    clocks.append(_clocks())
    jobs = [Seen.of(one, Misfit(), ALL_REDUCE) for one in observed]
    covariances = [seen.covariance(1.0) for seen in jobs]
    clocks.append(_clocks())
    modes = find_modes(jobs, scope, covariances, device=args.device)
    clocks.append(_clocks())
    read, set_up, fitted = np.diff(clocks, axis=0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20

    sample = np.linspace(0, len(jobs) - 1, min(args.sample, len(jobs))).round().astype(int)
    before = _clocks()
    alone = [find_mode(jobs[index], scope, covariances[index]) for index in sample]
    each = (_clocks() - before) / len(sample)
    apart = [
        objective(jobs[index], scope, covariances[index], modes[index].theta)
        - objective(jobs[index], scope, covariances[index], single.theta)
        for index, single in zip(sample, alone, strict=True)
    ]
    print(f"{len(jobs)} jobs of {args.observations} observations, seed {args.seed}, {args.device}")
    print(f"frame read: {_said(read)}; covariances: {_said(set_up)}")
    print(f"fitted together: {_said(fitted)}, {len(jobs) / fitted[0]:.0f} jobs/s")
    print(f"in all: {_said(clocks[-1] - clocks[0])}")
    print(f"each by itself: {_said(each * len(jobs))}, {1 / each[0]:.0f} jobs/s, by {len(sample)} of them")
    print(f"objective less that of the job's own fit: {min(apart):.1e} to {max(apart):.1e}")
    print(f"peak memory: {peak:.2f} GiB")
    if args.learn:
        before = _clocks()
        ThroughputModel().fit(frame)
        print(f"a model learned from all of them: {_said(_clocks() - before)}")


if __name__ == "__main__":
    main()
