"""Simulated jobs of which it is known what limits them; written apart from the model's own physics.

Columns beside a history's: ``limit``, and ``computing``, the part of a step in which a worker computes.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

ALL_REDUCE = ("compute", "synchronization")
SERVED = ("compute", "servers")


def all_reduce_job(name: str, limit: str, generator: np.random.Generator, noise: float = 0.02) -> pd.DataFrame:
    """Return one job at 1 to 8 nodes of one worker, three batches: ``limit`` is most of a step at 8 workers."""
    compute, sync, fixed = _sizes(("compute", "synchronization", "overhead"), limit, generator)
    rows = []
    for workers in (1, 2, 4, 8):
        for batch in (16, 32, 64):
            exchange = 0.0 if workers == 1 else sync * (2 - 2 / workers)
            seconds = compute * batch / 32 + fixed + exchange
            speed = workers * batch / seconds * np.exp(noise * generator.standard_normal())
            rows.append((workers, workers, batch, speed, limit, 1 - exchange / seconds))
    frame = pd.DataFrame(rows, columns=["workers", "nodes", "batch_size", "throughput", "limit", "computing"])
    return frame.assign(job=name, strategy="allreduce", window_seconds=60.0)


def served_job(name: str, limit: str, generator: np.random.Generator, noise: float = 0.02) -> pd.DataFrame:
    """Return one synchronous job of batch 32 a worker at 1 to 4 servers and 1 to 8 workers.

    ``limit`` is most of a step at 8 workers and one server.
    """
    compute, traffic = _sizes(("compute", "servers"), limit, generator)
    rows = []
    for ps in (1, 2, 4):
        for workers in (1, 2, 4, 8):
            seconds = compute + traffic * workers / 8 / ps
            speed = 32 * workers / seconds * np.exp(noise * generator.standard_normal())
            rows.append((ps, workers, 32.0, speed, limit, compute / seconds))
    frame = pd.DataFrame(rows, columns=["ps", "workers", "batch_size", "throughput", "limit", "computing"])
    return frame.assign(job=name, strategy="ps", mode="sync", window_seconds=60.0)


def jobs(kinds: tuple[str, ...], count: int, seed: int, prefix: str = "past") -> pd.DataFrame:
    """Return ``count`` jobs of each of ``kinds``, all of ``ALL_REDUCE`` or all of ``SERVED``."""
    generator = np.random.default_rng(seed)
    make = served_job if "servers" in kinds else all_reduce_job
    return pd.concat(
        [make(f"{prefix}-{kind}-{at}", kind, generator) for kind in kinds for at in range(count)], ignore_index=True
    )


def _sizes(parts: tuple[str, ...], limit: str, generator: np.random.Generator) -> list[float]:
    """Return the seconds of each part: the limit's ten times those of the others, all of a random scale."""
    scale = 0.3 * np.exp(0.7 * generator.standard_normal())
    return [scale * (1.0 if part == limit else 0.1) * np.exp(0.3 * generator.standard_normal()) for part in parts]
