"""What is asked of the speed model for one job, and the sizes that it answers for, as options."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.plan.answer import JobRequest, Option
from convoy.brain.plan.prices import Prices

Array = NDArray[np.float64]


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


def query(own: pd.DataFrame, request: JobRequest, sizes: list[int]) -> pd.DataFrame:
    """Return one question to the speed model a size."""
    processes = np.array(sizes, dtype=float) * request.processes_per_worker
    accumulation = max(1, request.accumulation_steps)
    if request.limits.global_batch > 0:
        batch = request.limits.global_batch / (processes * accumulation)
    else:
        known = own["batch_size"].dropna() if "batch_size" in own.columns else pd.Series(dtype=float)
        last = float(known.iloc[-1]) if len(known) else 1.0
        batch = np.full(len(sizes), request.batch_size if request.batch_size > 0 else last)
    frame = pd.DataFrame(
        {
            "workers": processes,
            "nodes": np.array(sizes, dtype=float),
            "batch_size": batch,
            "accumulation_steps": float(accumulation),
        }
    )
    return frame.assign(job=request.job, strategy=request.strategy, **surroundings(request))


def surroundings(request: JobRequest) -> dict[str, str | float]:
    """Return what all rows of a job share."""
    limits = request.limits
    cpu = limits.worker_cpu / request.processes_per_worker if limits.worker_cpu > 0 else 1.0
    shared: dict[str, str | float] = {"worker_cpu": cpu, **request.labels}
    if limits.free_cpu > 0:
        shared["cluster_cpu"] = max(limits.free_cpu, cpu)
    return shared


def completed(own: pd.DataFrame, request: JobRequest) -> pd.DataFrame:
    """Return the observations with what the request knows better: the surroundings and labels that rows left out."""
    filled = own.copy()
    for name, value in {"job": request.job, "strategy": request.strategy, **surroundings(request)}.items():
        filled[name] = filled[name].where(filled[name].notna(), value) if name in filled.columns else value
    return filled


def weighed(
    model: SpeedModel, own: pd.DataFrame, request: JobRequest, sizes: list[int], prices: Prices
) -> list[Option]:
    """Return the sizes with their predicted speeds and their prices."""
    asked = query(own, request, sizes)
    observed = completed(own, request)
    wide = model.predict(observed, asked, level=0.99)
    usual = model.predict(observed, asked, level=0.9)
    options = []
    for place, size in enumerate(sizes):
        row, outer = usual.iloc[place], wide.iloc[place]
        per_hour = prices.per_hour(size, request.limits.worker_cpu, request.limits.worker_memory)
        options.append(
            Option(
                workers=size,
                predicted=float(row["mean"]),
                lower90=float(row["lower"]),
                upper90=float(row["upper"]),
                lower99=float(outer["lower"]),
                upper99=float(outer["upper"]),
                latent_sd=float(row["latent_sd"]),
                price_per_hour=per_hour,
                price_per_million_samples=prices.per_million_samples(per_hour, float(row["mean"])),
                basis=str(row["reason"]),
            )
        )
    return options
