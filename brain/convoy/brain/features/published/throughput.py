"""Public measurements of speed at several configurations a job, as frames of ``ThroughputModel``'s columns.

Each frame also has ``group``: what must be left out of a history together, because it knows the answer. That is the
model that is trained, under whatever name a data set gives it. Units: seconds, cores, samples/s, except where a
reader says otherwise.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from convoy.brain.features.published.table import read_table
from convoy.brain.models.backtest.data import DataSet
from convoy.brain.models.throughput.frame import canonical_model

DL2_CORES = 2.0
"""CPU that each server and each worker of dl2_ps was allotted."""

UNSCORED_GPUS = ("quad",)
"""Of sia_allreduce: one node with at most four GPUs, too few configurations to choose among."""

C3O_FOLDS = 5
C3O_NOT_THE_JOB = ("instance_count", "slots", "memory", "gross_runtime")


def read_dl2_ps(folder: Path) -> pd.DataFrame:
    """Read synchronous parameter-server jobs with a fixed global batch: one job a model.

    CPU used is a mean over servers and over workers; ``ps_cpu_used_max`` is the busiest server's. Runs that measured
    no speed stand as failed.
    """
    raw = read_table(
        folder / "config_speed.csv",
        labels=("model",),
        numbers=("global_batch", "ps", "workers", "samples_per_s", "ps_cpu_mean", "ps_cpu_max", "worker_cpu_mean"),
    )
    ran = raw["samples_per_s"] > 0
    return pd.DataFrame(
        {
            "job": raw["model"].astype(str),
            "group": raw["model"].map(canonical_model),
            "model": raw["model"].map(canonical_model),
            "strategy": "ps",
            "mode": "sync",
            "workers": raw["workers"].astype(float),
            "ps": raw["ps"].astype(float),
            "batch_size": raw["global_batch"] / raw["workers"],
            "worker_cpu": DL2_CORES,
            "ps_cpu": DL2_CORES,
            "worker_cpu_used": raw["worker_cpu_mean"].where(ran),
            "ps_cpu_used": raw["ps_cpu_mean"].where(ran),
            "ps_cpu_used_max": raw["ps_cpu_max"].where(ran),
            "throughput": raw["samples_per_s"].astype(float),
            "status": np.where(ran, "ok", "failed"),
        }
    )


def read_cmdare_ps(folder: Path) -> pd.DataFrame:
    """Read asynchronous parameter-server jobs: one job a (model, GPU); ``throughput`` is in steps/s.

    A step is one worker's minibatch, whose size the data set doesn't say.
    """
    raw = read_table(
        folder / "speed_cluster_size.csv",
        labels=("model", "gpu"),
        numbers=("ps", "workers", "steps_per_s_median"),
    )
    return pd.DataFrame(
        {
            "job": raw["model"].astype(str) + "-" + raw["gpu"].astype(str),
            "group": raw["model"].map(canonical_model),
            "model": raw["model"].map(canonical_model),
            "accelerator": raw["gpu"].astype(str),
            "strategy": "ps",
            "mode": "async",
            "workers": raw["workers"].astype(float),
            "ps": raw["ps"].astype(float),
            "throughput": raw["steps_per_s_median"].astype(float),
            "status": "ok",
        }
    )


def read_sia_allreduce(folder: Path) -> pd.DataFrame:
    """Read all-reduce jobs: one job a (model, GPU), medians over runs of equal configuration."""
    raw = read_table(
        folder / "sia_throughput.csv",
        labels=("model", "gpu"),
        numbers=("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"),
    )
    raw = raw[~raw["gpu"].isin(UNSCORED_GPUS)]
    speeds = raw.assign(
        throughput=raw["num_replicas"] * raw["local_bsz"] / raw["step_time"],
        compute_seconds=raw["step_time"] - raw["sync_time"],
    )
    keys = ["model", "gpu", "num_nodes", "num_replicas", "local_bsz"]
    table = speeds.groupby(keys, as_index=False, dropna=False)[["throughput", "compute_seconds"]].median()
    return pd.DataFrame(
        {
            "job": table["model"] + "-" + table["gpu"],
            "group": table["model"].map(canonical_model),
            "model": table["model"].map(canonical_model),
            "accelerator": table["gpu"].astype(str),
            "strategy": "allreduce",
            "mode": "sync",
            "workers": table["num_replicas"].astype(float),
            "nodes": table["num_nodes"].astype(float),
            "batch_size": table["local_bsz"].astype(float),
            "throughput": table["throughput"],
            "compute_seconds": table["compute_seconds"],
            "status": "ok",
        }
    )


def read_c3o(folder: Path) -> pd.DataFrame:
    """Read Spark jobs: one job a machine type and input; ``throughput`` is runs/s, the median over repetitions.

    ``group`` is one of five parts that the jobs are dealt to, so that a job's history holds others of its algorithm;
    ``algorithm_group`` is the algorithm itself, for a history without. No batch: a run's work is fixed.
    """
    files = sorted(folder.glob("*.csv"))
    return pd.concat([_c3o_algorithm(file) for file in files], ignore_index=True)


def _c3o_algorithm(file: Path) -> pd.DataFrame:
    raw = read_table(file, labels=("machine_type",), numbers=("instance_count", "gross_runtime"))
    inputs = [str(name) for name in raw.columns if name not in C3O_NOT_THE_JOB]
    table = raw.groupby([*inputs, "instance_count"], as_index=False, dropna=False)["gross_runtime"].median()
    parts = [file.stem, *(table[name].astype(str).fillna("unknown") for name in inputs)]
    job = parts[1].str.cat(parts[2:], sep="/").radd(f"{file.stem}/")
    return pd.DataFrame(
        {
            "job": job,
            "group": [f"c3o part {zlib.crc32(name.encode()) % C3O_FOLDS}" for name in job],
            "algorithm_group": f"c3o {file.stem}",
            "model": file.stem,
            "node_type": table["machine_type"].astype(str),
            "workers": table["instance_count"].astype(float),
            "throughput": 1.0 / table["gross_runtime"],
            "status": "ok",
        }
    )


READERS: Mapping[str, Callable[[Path], pd.DataFrame]] = {
    "dl2_ps": read_dl2_ps,
    "cmdare_ps": read_cmdare_ps,
    "sia_allreduce": read_sia_allreduce,
    "c3o": read_c3o,
}
"""By the name of a data set's folder."""


@dataclass(frozen=True)
class Published:
    """What a folder of data sets holds."""

    frames: dict[str, pd.DataFrame]
    """By data set."""
    absent: tuple[str, ...]
    """Data sets that aren't there."""


def read_published(folder: Path) -> Published:
    """Read each data set that has its folder in ``folder``.

    Raises:
        InvalidInput: a data set is there and can't be used.
    """
    present = [name for name in READERS if any((folder / name).glob("*.csv"))]
    frames = {name: READERS[name](folder / name) for name in present}
    return Published(frames, tuple(name for name in READERS if name not in frames))


MATRIX, POLLUX, ERNEST = "matrix factorization", "pollux", "ernest"
"""Methods by their names in ``convoy.brain.models.baselines.BASELINES``."""

C3O_DRAWS = 5
"""It has six sizes a job, and many jobs."""


def data_sets(published: Published) -> list[DataSet]:
    """Return what is there as sets to back-test on.

    Two stand there twice: sia_allreduce also with a history of the job's model on other GPUs (``sia_known``), c3o
    also without a history of the job's algorithm (``c3o_foreign``).
    """
    best = {"dl2_ps": MATRIX, "cmdare_ps": MATRIX, "sia_allreduce": POLLUX}
    sets = [DataSet(name, frame, published=best[name]) for name, frame in published.frames.items() if name in best]
    if "sia_allreduce" in published.frames:
        frame = published.frames["sia_allreduce"]
        known = frame.assign(group=frame["job"])
        sets.append(DataSet("sia_known", known, source="sia_allreduce", published=POLLUX, tunes=False))
    if "c3o" in published.frames:
        frame = published.frames["c3o"]
        foreign = frame.assign(group=frame["algorithm_group"])
        for name, rows in (("c3o", frame), ("c3o_foreign", foreign)):
            rows = rows.drop(columns="algorithm_group")
            sets.append(DataSet(name, rows, source="c3o", published=ERNEST, most_seeds=C3O_DRAWS, tunes=False))
    return sets
