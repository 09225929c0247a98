"""What is asked of the speed model for one job, and the sizes that it answers for, as options."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.plan.answer import JobRequest, Option
from convoy.brain.plan.limits import Limits
from convoy.brain.plan.prices import Prices
from convoy.brain.plan.sizes import Size

Array = NDArray[np.float64]

LABELS = ("template", "model", "cluster", "accelerator", "node_type", "mode")


class SpeedModel(Protocol):
    """What a plan asks of a throughput model."""

    @property
    def history_jobs(self) -> int:
        """Jobs whose evidence formed the prior."""
        ...

    def predict(self, observed: pd.DataFrame, query: pd.DataFrame, level: float = 0.9) -> pd.DataFrame:
        """Predict mean, lower, upper, latent_sd and reason for each row of ``query``."""
        ...

    def sample(self, observed: pd.DataFrame, query: pd.DataFrame, draws: int, seed: int) -> Array:
        """Return joint draws (draws, rows) of the latent speeds."""
        ...


def query(own: pd.DataFrame, request: JobRequest, sizes: Sequence[Size]) -> pd.DataFrame:
    """Return one question to the speed model a size."""
    pods = np.array([size.workers for size in sizes], dtype=float)
    processes = pods * request.processes_per_worker
    accumulation = max(1, request.accumulation_steps)
    untold = request.served and len(own) > 0 and not len(_told(own, "nodes"))
    batches = [_batch(own, request, size) for size in sizes]
    frame = pd.DataFrame(
        {
            "workers": processes,
            "nodes": np.nan if untold else pods,
            "batch_size": np.array(batches, dtype=float),
            "accumulation_steps": float(accumulation),
        }
    )
    shared = surroundings(request, own)
    frame = frame.assign(job=request.job, strategy=request.strategy, **shared)
    each = request.processes_per_worker
    frame["worker_cpu"] = [size.worker_cpu / each if size.worker_cpu else shared["worker_cpu"] for size in sizes]
    if request.served:
        frame["ps"] = np.array([size.ps for size in sizes], dtype=float)
        allotted = [size.ps_cpu or request.limits.ps_cpu for size in sizes]
        frame["ps_cpu"] = [cores if cores > 0 else np.nan for cores in allotted]
    return frame


def _batch(own: pd.DataFrame, request: JobRequest, size: Size) -> float:
    """Return samples per process and micro-step; NaN where a job of parameter servers doesn't say."""
    steps = max(1, request.accumulation_steps) * size.workers * request.processes_per_worker
    everyone = size.batch or (0 if request.labels.get("mode") == "async" else request.limits.global_batch)
    if everyone > 0:
        return everyone / steps
    known = _told(own, "batch_size")
    unknown = math.nan if request.served else 1.0
    return request.batch_size if request.batch_size > 0 else float(known.iloc[-1]) if len(known) else unknown


def _told(own: pd.DataFrame, name: str) -> pd.Series:
    return own[name].dropna() if name in own.columns else pd.Series(dtype=float)


def surroundings(request: JobRequest, own: pd.DataFrame) -> dict[str, str | float]:
    """Return what all rows of a job share: what the request says, else what its last measurement says."""
    limits = request.limits
    cpu = limits.worker_cpu / request.processes_per_worker if limits.worker_cpu > 0 else 1.0
    shared: dict[str, str | float] = {"worker_cpu": cpu}
    for name in LABELS:
        told = [label for label in _told(own, name) if label != ""]
        if label := request.labels.get(name) or (str(told[-1]) if told else ""):
            shared[name] = label
    if limits.free_cpu > 0:
        shared["cluster_cpu"] = max(limits.free_cpu, cpu)
    if request.served and limits.ps_cpu > 0:
        shared["ps_cpu"] = limits.ps_cpu
    if limits.worker_accelerators > 0:
        shared["accelerators_per_worker"] = limits.worker_accelerators / request.processes_per_worker
    return shared


def completed(own: pd.DataFrame, request: JobRequest) -> pd.DataFrame:
    """Return the observations with what the request knows better: the surroundings and labels that rows left out."""
    filled = own.copy()
    for name, value in {"job": request.job, "strategy": request.strategy, **surroundings(request, own)}.items():
        filled[name] = filled[name].where(filled[name].notna(), value) if name in filled.columns else value
    return filled


def weighed(
    model: SpeedModel, own: pd.DataFrame, request: JobRequest, sizes: Sequence[Size], prices: Prices
) -> list[Option]:
    """Return the sizes with their predicted speeds and their prices."""
    asked = query(own, request, sizes)
    observed = completed(own, request)
    wide = model.predict(observed, asked, level=0.99)
    usual = model.predict(observed, asked, level=0.9)
    return [
        _option(size, request.limits, usual.iloc[place], wide.iloc[place], prices) for place, size in enumerate(sizes)
    ]


def _option(size: Size, limits: Limits, usual: pd.Series, wide: pd.Series, prices: Prices) -> Option:
    per_hour = price_of(size, limits, prices)
    return Option(
        workers=size.workers,
        ps=size.ps,
        worker_cpu=size.worker_cpu,
        ps_cpu=size.ps_cpu,
        batch=size.batch,
        predicted=float(usual["mean"]),
        lower90=float(usual["lower"]),
        upper90=float(usual["upper"]),
        lower99=float(wide["lower"]),
        upper99=float(wide["upper"]),
        latent_sd=float(usual["latent_sd"]),
        price_per_hour=per_hour,
        price_per_million_samples=prices.per_million_samples(per_hour, float(usual["mean"])),
        basis=str(usual["reason"]),
    )


def price_of(size: Size, limits: Limits, prices: Prices) -> float:
    """Return what a size costs an hour; NaN where the price of nothing that it takes is known."""
    worker = prices.per_hour(
        size.workers, size.worker_cpu or limits.worker_cpu, limits.worker_memory, limits.worker_accelerators
    )
    server = prices.per_hour(size.ps, size.ps_cpu or limits.ps_cpu, limits.ps_memory) if size.ps else math.nan
    return server if math.isnan(worker) else worker if math.isnan(server) else worker + server
