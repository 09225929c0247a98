"""What a plan may know beside speeds: what pods use, what they need not to be killed, what jobs began with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import pandas as pd


class LoadModel(Protocol):
    """What a plan asks of a model of load."""

    def predict(self, observed: pd.DataFrame, query: pd.DataFrame, level: float = 0.9) -> pd.DataFrame:
        """Predict ``{worker,ps}_{cpu,memory}_{mean,lower,upper,reason}`` for each row of ``query``."""
        ...


class MemoryModel(Protocol):
    """What a plan asks of a model of memory."""

    def recommend(
        self, usage: pd.DataFrame, oom_rate: float = 0.01, horizon: str = "1d", node_bytes: float | None = None
    ) -> pd.DataFrame:
        """Return ``container``, ``limit_bytes``, ``reason``, one row a container."""
        ...


class StartupModel(Protocol):
    """What a plan asks of a model of jobs' starts."""

    def recommend(self, jobs: pd.DataFrame) -> pd.DataFrame:
        """Return ``workers``, ``ps``, ``{worker,ps}_{cpu,memory}``, ``reason``, one row a job."""
        ...


@dataclass(frozen=True)
class Needs:
    """Models and readings; what is None, or empty, isn't known, and nothing is said of what follows from it."""

    load: LoadModel | None = None
    memory: MemoryModel | None = None
    startup: StartupModel | None = None
    usage: pd.DataFrame = field(default_factory=pd.DataFrame)
    """The job's pods' memory: rows of ``container``, ``role``, ``time``, ``used_bytes``, ``limit_bytes``, ``oom``."""
    described: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row: the job, as ``startup`` reads it."""
    oom_rate: float = 0.01
    memory_horizon: str = "1d"
    """Within which a pod may be killed at that rate."""
