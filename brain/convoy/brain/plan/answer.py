"""What is asked about a job, and what is answered."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

from convoy.brain.plan.limits import Limits
from convoy.brain.plan.sizes import Size


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


class Objective(StrEnum):
    """What a plan is for."""

    THROUGHPUT = "throughput"
    """The most samples a second."""
    COST = "cost"
    """The most samples for the money."""
    DEADLINE = "deadline"
    """The cheapest size that finishes in time."""


ADJUSTABLE = ("workers", "ps", "resources", "batch", "loaders")
"""What whoever asks can change: numbers of pods, their cores and memory, samples of a step, processes that load data.
All else is advice."""


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
    """``template``, ``model``, ``cluster``, ``accelerator``, ``node_type``, ``mode``."""
    strategy: str = "allreduce"
    processes_per_worker: int = 1
    batch_size: float = 0.0
    """Per process and micro-step, where no global batch is fixed; 0: as last observed."""
    accumulation_steps: int = 1
    objective: str = Objective.THROUGHPUT
    seed: int = 0
    current_ps: int = 0
    deadline_seconds: float = math.nan
    """Until the job is to be finished; NaN: it has no deadline."""
    remaining_samples: float = math.nan
    """Left to train; NaN: not known."""
    pinned: bool = False
    """A person wants the job left as it is."""
    frozen_seconds: float = 0.0
    """What is left of a time in which nothing may be changed; 0: none now."""
    adjustable: tuple[str, ...] = ("workers", "ps")
    """What of ``ADJUSTABLE`` can be carried out; the rest is advice."""

    @property
    def served(self) -> bool:
        """Whether the job has parameter servers."""
        return self.strategy == "ps"

    @property
    def current(self) -> Size:
        """What the job has; no workers before the start."""
        return Size(self.current_workers, self.current_ps if self.served else 0)


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
    """Expected relative gain, by the objective, over the present size, restart not counted."""
    paid_back: float = math.nan
    """Probability that the restart is paid back within the horizon."""
    verdict: str = ""
    ps: int = 0
    worker_cpu: float = 0.0
    """Cores each, where other than now."""
    ps_cpu: float = 0.0
    batch: int = 0
    """Samples a step, where other than now."""
    in_time: float = math.nan
    """Probability that the job finishes before its deadline, restart counted; NaN: not the objective."""
    goodput: float = math.nan
    """What ``predicted`` is worth in samples/s of the job's initial batch; NaN: chosen by speed."""

    @property
    def size(self) -> Size:
        """What the job would have."""
        return Size(self.workers, self.ps, self.worker_cpu, self.ps_cpu, self.batch)

    @property
    def amount(self) -> tuple[float, float]:
        """What it takes, to prefer the least: its price where known, then its nodes and cores."""
        price = 0.0 if math.isnan(self.price_per_hour) else self.price_per_hour
        return price, self.workers + self.ps + 1e-3 * (self.worker_cpu + self.ps_cpu)


@dataclass(frozen=True)
class RoleAdvice:
    """Cores and memory of one role's pods, as they are and as they should be. Zero and NaN: not known."""

    role: str
    replicas_before: int
    replicas: int
    cpu_before: float
    cpu: float
    cpu_used: float
    """At the new size, upper end of the 90 % interval."""
    memory_before: int
    memory: int
    memory_used: float
    reason: str
    """``AsItIs``, or reasons joined by ``+``: ``HotServer``, ``ServersOverloaded``, ``WorkersShortOfCores``,
    ``IdleCpu``, ``OutOfMemory``, ``OutOfMemoryAtNode``, ``LowMemory``, ``IdleMemory``, ``StartFromHistory``."""
    message: str
    decided: bool = False
    """Whether cores and memory are part of the decision, not advice."""

    @property
    def differs(self) -> bool:
        """Whether cores or memory aren't as they are now."""
        return self.cpu != self.cpu_before or self.memory != self.memory_before


@dataclass(frozen=True)
class Loaders:
    """Processes that load each worker's data, as they are and as they should be. NaN: not known."""

    before: int
    workers: int
    wait: float
    """Seconds that a step waits for its data now."""
    step: float
    """Seconds of a step now."""
    expected: float
    """Seconds of a step with as many as there should be."""
    reason: str
    """``WaitsForData``, ``MoreDidNotHelp``: a change, or none; none: ``NoWait``, ``CoresInUse``, ``MemoryInUse``,
    ``NotMeasuredYet``."""
    message: str
    decided: bool = False
    """Whether it is to be carried out, which takes no restart; else as it is, or advice."""


@dataclass(frozen=True)
class JobRecommendation:
    """The answer. The target is the present size unless the decision is CHANGE or EXPLORE."""

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
    target_ps: int = 0
    target_batch: int = 0
    """Samples a step; 0: as it is."""
    objective: str = Objective.THROUGHPUT
    roles: tuple[RoleAdvice, ...] = ()
    loaders: Loaders | None = None
    """Beside the decision, which is of sizes. None: nothing tells, or the script doesn't let Convoy say."""
    notes: tuple[str, ...] = ()
    """What else a person should know: what can't be carried out, what isn't known."""
    goodput: float = math.nan
    """What ``predicted`` is worth in samples/s of the job's initial batch; NaN: chosen by speed."""

    @property
    def moves(self) -> bool:
        """Whether anything is to change."""
        return self.decision in (Decision.CHANGE, Decision.EXPLORE)
