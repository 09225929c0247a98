"""Past jobs as the simulator's files: each is a program of its own, at the batch that it had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from convoy.brain.models import ThroughputModel
from convoy.brain.simulate.past_jobs import Past, PastJob

ROOM = 2
"""Sizes are given up to so many times the largest at which a job ran."""
MEASURED, PREDICTED = "measured", "predicted"


@dataclass(frozen=True)
class Replay:
    """The files of ``convoy brain simulate`` as frames; ``speeds`` says in ``file`` what was measured."""

    jobs: pd.DataFrame
    speeds: pd.DataFrame
    efficiency: pd.DataFrame
    nodes: pd.DataFrame
    left_out: Mapping[str, str]


def replay(past: Past) -> Replay:
    """Return what the store knows of jobs that succeeded, to be simulated.

    A job's work is the samples that it trained, at the batch of its first attempt: what another batch would have been
    worth isn't known, so a job keeps it. Where it didn't run, its speed is the models' mean, from its own
    measurements and the history of all jobs.
    """
    model = ThroughputModel().fit(past.observations)
    names = _names(past.jobs)
    first = past.jobs[0].submitted if past.jobs else None
    jobs, efficiency, speeds, left_out = [], [], [], dict(past.left_out)
    for job in past.jobs:
        table = _speeds(job, names[job.uid], past.observations, model, _each(job.kind, past))
        if table is None:
            left_out[names[job.uid]] = "no steady window of it was measured"
            continue
        assert first is not None
        asked, name = job.attempts[0], names[job.uid]
        steps = sum(one.samples for one in job.attempts) / asked.global_batch
        submitted = (job.submitted - first).total_seconds()
        jobs.append((name, submitted, name, asked.workers, asked.global_batch, job.user))
        efficiency.append((name, asked.global_batch, steps, steps, 1.0, 0.0))
        speeds.append(table)
    machines = [(kind, count, each) for (kind, each), count in past.machines.items()]
    return Replay(
        pd.DataFrame(jobs, columns=["job", "submitted", "application", "replicas", "global_batch", "user"]),
        pd.concat(speeds, ignore_index=True) if speeds else pd.DataFrame(),
        pd.DataFrame(
            efficiency, columns=["application", "global_batch", "progress", "iteration", "grad_sqr", "grad_var"]
        ),
        pd.DataFrame(machines, columns=["node_type", "nodes", "accelerators_per_node"]),
        left_out,
    )


def _names(jobs: tuple[PastJob, ...]) -> dict[str, str]:
    """Return a name of each job, by uid: its own, or with the uid where several have it."""
    count: dict[str, int] = {}
    for job in jobs:
        count[job.name] = count.get(job.name, 0) + 1
    return {job.uid: job.name if count[job.name] == 1 else f"{job.name}/{job.uid}" for job in jobs}


def _each(kind: str, past: Past) -> int:
    """Return the accelerators of a machine of a kind; where none is known, the most processes that one node ran."""
    there = [each for (one, each) in past.machines if one == kind]
    ran = [-(-one.workers // one.nodes) for job in past.jobs if job.kind == kind for one in job.attempts]
    return max(there or ran)


def _speeds(
    job: PastJob, name: str, observations: pd.DataFrame, model: ThroughputModel, each: int
) -> pd.DataFrame | None:
    own = observations[observations["job"].eq(job.uid) & (observations["throughput"] > 0)]
    own = own[own["batch_size"].notna() & own["workers"].notna()]
    if not len(own):
        return None
    workers, nodes = own["workers"].to_numpy(float), own["nodes"].fillna(1.0).to_numpy(float)
    local, compute = own["batch_size"].to_numpy(float), own["compute_seconds"].to_numpy(float)
    step = workers * local / own["throughput"].to_numpy(float)
    sync = np.clip(np.where(np.isfinite(compute), step - compute, 0.0), 0.0, step)
    measured = _table(name, job.kind, MEASURED, np.stack([nodes, workers, local, step, sync]))
    sizes = np.arange(1.0, max(ROOM * workers.max(), each) + 1)
    sizes = sizes[~np.isin(sizes, workers)]
    if not len(sizes):
        return measured
    batch = job.attempts[0].global_batch
    asked = {"workers": sizes, "nodes": np.ceil(sizes / each), "batch_size": np.ceil(batch / sizes)}
    labels = {label: own[label].iloc[0] for label in ("job", "model", "strategy", "mode", "accelerator", "node_type")}
    query = pd.DataFrame(asked).assign(accumulation_steps=1.0, **labels)
    speed = model.predict(own, query)["mean"].to_numpy(float)
    known = np.isfinite(speed) & (speed > 0)
    if not known.any():
        return measured
    rows = np.stack(
        [asked["nodes"], sizes, asked["batch_size"], sizes * asked["batch_size"] / speed, np.zeros(len(sizes))]
    )
    return pd.concat([measured, _table(name, job.kind, PREDICTED, rows[:, known])], ignore_index=True)


def _table(name: str, kind: str, file: str, rows: np.ndarray) -> pd.DataFrame:
    columns = ["num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"]
    return pd.DataFrame(dict(zip(columns, rows, strict=True))).assign(model=name, gpu=kind, file=file)
