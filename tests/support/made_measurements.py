"""Made-up measurements in the layout of the public data sets: small, their truth known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

MODELS = {"ResNet-50": (1.0, 0.3), "vgg-16": (2.0, 0.9), "wlm": (0.5, 0.2)}
"""Seconds of compute for all samples of a step, and of traffic through one server by one worker."""
GLOBAL_BATCH = 64


def dl2_rows(seed: int = 0) -> pd.DataFrame:
    """Return rows as dl2_ps has them: 1 to 7 servers and workers, one failed run."""
    generator = np.random.default_rng(seed)
    rows = []
    for model, (compute, traffic) in MODELS.items():
        for ps in range(1, 8):
            for workers in range(1, 8):
                seconds = compute / workers + traffic * workers / ps + 0.02 * workers + 0.1
                speed = GLOBAL_BATCH / seconds * np.exp(0.02 * generator.standard_normal())
                load = min(2.0, 0.4 + traffic * workers / ps / seconds)
                rows.append((model, "dist_sync", GLOBAL_BATCH, ps, workers, speed, load, load, compute / seconds))
    names = ["model", "mode", "global_batch", "ps", "workers", "samples_per_s", "ps_cpu_mean", "ps_cpu_max"]
    frame = pd.DataFrame(rows, columns=[*names, "worker_cpu_mean"])
    frame.loc[0, "samples_per_s"] = 0.0
    return frame


def cmdare_rows() -> pd.DataFrame:
    """Return rows as cmdare_ps has them."""
    rows = [
        (model, gpu, ps, workers, workers / (step + 0.02 * workers / ps))
        for model, step in (("res15", 0.1), ("res32", 0.2))
        for gpu in ("K80", "P100")
        for ps in (1, 2)
        for workers in range(1, 9)
    ]
    return pd.DataFrame(rows, columns=["model", "gpu", "ps", "workers", "steps_per_s_median"])


def sia_rows() -> pd.DataFrame:
    """Return rows as sia_allreduce has them: every run twice, and one GPU family that isn't scored."""
    rows = []
    for model, per_sample in (("imagenet", 0.01), ("bert", 0.03), ("yolov3", 0.02)):
        for gpu, speed in (("aws", 1.0), ("rtx", 2.0), ("quad", 2.0)):
            for workers in (1, 2, 4, 8, 16):
                for batch in (4, 8, 16, 32):
                    nodes = -(-workers // 4)
                    compute = (0.02 + per_sample * batch) / speed
                    sync = 0.0 if workers == 1 else (0.05 + 0.003 * workers) * (1.0 if nodes == 1 else 2.0)
                    for wobble in (0.999, 1.001):
                        rows.append((model, gpu, nodes, workers, batch, (compute + sync) * wobble, sync * wobble))
    names = ["model", "gpu", "num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"]
    return pd.DataFrame(rows, columns=names)


def c3o_rows() -> pd.DataFrame:
    """Return rows of one algorithm as c3o has them: each run three times."""
    rows = [
        (workers, machine, slots, 1000, size, round(size / workers + 5 * workers + 20 + again, 3))
        for machine, slots in (("m4", 16), ("c4", 8))
        for size in (500, 1000, 4000)
        for workers in (2, 4, 6, 8)
        for again in (0.0, 1.0, 4.0)
    ]
    names = ["instance_count", "machine_type", "slots", "memory", "data_size_MB", "gross_runtime"]
    return pd.DataFrame(rows, columns=names)


def write_measurements(folder: Path, *sets: str) -> Path:
    """Write some of the data sets under ``folder``, all where none is named, and return it."""
    made = {
        "dl2_ps/config_speed.csv": dl2_rows(),
        "cmdare_ps/speed_cluster_size.csv": cmdare_rows(),
        "sia_allreduce/sia_throughput.csv": sia_rows(),
        "c3o/grep.csv": c3o_rows(),
        "c3o/sort.csv": c3o_rows(),
    }
    for name, frame in made.items():
        if not sets or name.partition("/")[0] in sets:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            frame.to_csv(path, index=False)
    return folder
