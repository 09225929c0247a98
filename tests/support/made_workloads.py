"""Made-up workloads whose true speeds and gains are formulas, as objects and as the files of the command."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from convoy.brain.simulate.application import Application
from convoy.brain.simulate.cluster import Cluster
from convoy.brain.simulate.speeds import Speeds
from convoy.brain.simulate.truth import Truth
from convoy.brain.simulate.workload import Submission

BATCHES = (16.0, 32.0, 64.0, 128.0, 256.0)
LOCALS = (4.0, 8.0, 16.0, 32.0)
NOISE = 4.0
"""Variance of the gradient over its squared norm, at the initial batch."""
FASTER = {"aws": 1.0, "azure": 4.0}
"""Speed of computing by kind."""


def seconds(nodes: int, replicas: int, local: float, kind: str = "aws") -> tuple[float, float]:
    """Return the true seconds of a step, and of its synchronization."""
    compute = (0.02 + 0.01 * local) / FASTER[kind]
    sync = 0.0 if replicas == 1 else 0.01 + 0.002 * replicas + 0.02 * (nodes > 1)
    return compute + sync, sync


def speed_rows(model: str, kind: str = "aws", nodes: int = 4, each: int = 4) -> pd.DataFrame:
    """Return a table of speeds with each shape that is as even as can be."""
    rows = []
    for count, replicas in product(range(1, nodes + 1), range(1, nodes * each + 1)):
        if not count <= replicas <= count * each:
            continue
        shape = [replicas // count + (i < replicas % count) for i in range(count)]
        for local in LOCALS:
            step, sync = seconds(count, replicas, local, kind)
            rows.append((model, kind, "placements", "".join(map(str, shape)), count, replicas, local, step, sync))
    names = ["model", "gpu", "file", "placement", "num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"]
    return pd.DataFrame(rows, columns=names)


def efficiency_rows(application: str, epochs: int = 3, steps: float = 200.0) -> pd.DataFrame:
    """Return a table of statistical efficiency: each epoch is worth ``steps`` steps of the smallest batch."""
    rows = []
    for batch, epoch in product(BATCHES, range(epochs)):
        progress = steps * (epoch + 1)
        gain = (NOISE + 1) / (NOISE / (batch / BATCHES[0]) + 1)
        rows.append((application, batch, progress, progress / gain, 0.5, 1.0, NOISE))
    names = ["application", "global_batch", "progress", "iteration", "metric", "grad_sqr", "grad_var"]
    return pd.DataFrame(rows, columns=names)


def application(name: str = "resnet", epochs: int = 3, steps: float = 200.0) -> Application:
    """Return the application of ``efficiency_rows``."""
    rows = efficiency_rows(name, epochs, steps)
    shape = (len(BATCHES), epochs)
    tables = {column: rows[column].to_numpy().reshape(shape) for column in ("grad_sqr", "grad_var", "iteration")}
    ends = steps * np.arange(1.0, epochs + 1)
    return Application(name, np.array(BATCHES), ends, tables["grad_sqr"], tables["grad_var"], tables["iteration"])


def speeds(kind: str = "aws", nodes: int = 4, each: int = 4) -> Speeds:
    """Return the table of ``speed_rows``."""
    rows = speed_rows("resnet", kind, nodes, each)
    shapes = [tuple(int(digit) for digit in one) for one in rows["placement"]]
    numbers = rows[["num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"]].to_numpy().tolist()
    return Speeds(
        [(shape, int(n), int(r), b, s, y) for shape, (n, r, b, s, y) in zip(shapes, numbers, strict=True)], 256.0
    )


def truth(kinds: Sequence[str] = ("aws",), *, noise: bool = False, seed: int = 0, steps: float = 200.0) -> Truth:
    """Return what is true of jobs of ``resnet``."""
    return Truth(
        {"resnet": application(steps=steps)},
        {("resnet", kind): speeds(kind) for kind in kinds},
        noise=noise,
        seed=seed,
    )


def jobs(count: int = 6, apart: float = 45.0, replicas: int = 4, batch: float = 64.0) -> list[Submission]:
    """Return jobs of ``resnet``, of two users in turn."""
    return [Submission(f"job-{i}", 10.0 + apart * i, "resnet", replicas, batch, "ab"[i % 2]) for i in range(count)]


def cluster(*rows: tuple[str, int, int]) -> Cluster:
    """Return a cluster; four nodes of four without rows."""
    return Cluster.of(rows or [("aws", 4, 4)])


def write(folder: Path, asked: Sequence[Submission], nodes: str = "aws,4,4") -> dict[str, Path]:
    """Write the command's files; return their paths by option."""
    paths = {name: folder / f"{name}.csv" for name in ("jobs", "throughput", "efficiency", "cluster")}
    rows = [(j.job, j.submitted, j.application, j.replicas, j.global_batch, j.user) for j in asked]
    names = ["job", "submitted", "application", "replicas", "global_batch", "user"]
    pd.DataFrame(rows, columns=names).to_csv(paths["jobs"], index=False)
    speed_rows("resnet").to_csv(paths["throughput"], index=False)
    efficiency_rows("resnet").to_csv(paths["efficiency"], index=False)
    paths["cluster"].write_text(f"node_type,nodes,accelerators_per_node\n{nodes}\n")
    return paths
