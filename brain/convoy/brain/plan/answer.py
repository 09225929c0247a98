"""What is asked about a job, and what is answered."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

from convoy.brain.plan.guards import Limits


class Stage(StrEnum):
    """Whether anything ran yet."""

    START = "START"
    RUNNING = "RUNNING"


class Decision(StrEnum):
    """What is recommended."""

    UNDEFINED = "UNDEFINED"
    KEEP = "KEEP"
    CHANGE = "CHANGE"
    EXPLORE = "EXPLORE"


@dataclass(frozen=True)
class JobRequest:
    """What is asked: the job, its labels, where it stands and what bounds it."""

    job: str
    current_workers: int
    limits: Limits
    stage: Stage = Stage.RUNNING
    horizon_seconds: float = 3600.0
    restart_seconds: float = 0.0
    """Measured for this job; 0: not known."""
    trial_seconds: float = 60.0
    """How long a trial is assumed to last where its worth is weighed."""
    changes_last_hour: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    """``template``, ``model``, ``cluster``, ``accelerator``, ``node_type``."""
    strategy: str = "allreduce"
    processes_per_worker: int = 1
    batch_size: float = 0.0
    """Per process and micro-step, where no global batch is fixed; 0: as last observed."""
    accumulation_steps: int = 1
    objective: str = "throughput"
    seed: int = 0


@dataclass(frozen=True)
class Option:
    """One size that was weighed; numbers are NaN where undefined."""

    workers: int
    predicted: float
    lower90: float
    upper90: float
    lower99: float
    upper99: float
    latent_sd: float
    price_per_hour: float
    price_per_million_samples: float
    basis: str
    """The model's reason: Observed, Interpolated, Extrapolated, HistoryOnly, NoHistory..."""
    gain: float = math.nan
    """Expected relative gain in speed over the present size, restart not counted."""
    paid_back: float = math.nan
    """Probability that the restart is paid back within the horizon."""
    verdict: str = ""


@dataclass(frozen=True)
class JobRecommendation:
    """The answer. ``target_workers`` is the present size unless the decision is CHANGE or EXPLORE."""

    decision: Decision
    reason: str
    message: str
    target_workers: int
    predicted: float = math.nan
    lower90: float = math.nan
    upper90: float = math.nan
    lower99: float = math.nan
    upper99: float = math.nan
    price_per_hour: float = math.nan
    currency: str = "USD"
    options: tuple[Option, ...] = ()
    observations: int = 0
    history_jobs: int = 0
