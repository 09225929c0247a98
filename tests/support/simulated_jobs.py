"""Simulated all-reduce jobs whose truth is known; written apart from the model's own physics."""

from __future__ import annotations

import numpy as np
import pandas as pd


def simulated_history(
    jobs: int, seed: int, noise: float = 0.03, prefix: str = "job", per_node: int = 4, alike: float = 1.0
) -> pd.DataFrame:
    """Return jobs drawn from one population, each measured at 1 to 8 workers, four batches.

    There are ``per_node`` workers on a node; ``alike`` below 1 draws the jobs closer together.
    """
    generator = np.random.default_rng(seed)
    frames = []
    for number in range(jobs):
        sample = 0.004 * np.exp(0.7 * alike * generator.standard_normal())
        overhead = sample * 32 * 0.2 * np.exp(0.5 * alike * generator.standard_normal())
        local = sample * 32 * 0.15 * np.exp(0.6 * alike * generator.standard_normal())
        step = local * 0.1 * np.exp(0.4 * alike * generator.standard_normal())
        power = 1.0 + 0.6 * np.exp(0.5 * alike * generator.standard_normal())
        rows = []
        for workers in range(1, 9):
            nodes = -(-workers // per_node)
            for batch in (8, 16, 32, 64):
                compute = overhead + sample * batch
                sync = 0.0 if workers == 1 else (local + step * (workers - 2)) * (1.0 if nodes == 1 else 2.5)
                seconds = (compute**power + sync**power) ** (1 / power)
                error = np.exp(noise * generator.standard_normal())
                rows.append((workers, nodes, batch, workers * batch / seconds * error))
        frame = pd.DataFrame(rows, columns=["workers", "nodes", "batch_size", "throughput"])
        frames.append(frame.assign(job=f"{prefix}-{number}", strategy="allreduce", window_seconds=60.0))
    return pd.concat(frames, ignore_index=True)
