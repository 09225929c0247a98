"""What bounds a job's size."""

from __future__ import annotations

from dataclasses import dataclass

MOST_WORKERS = 100_000
"""More than any job has; what a division by next to nothing is cut at."""


@dataclass(frozen=True)
class Resource:
    """What is to be had of a resource, and what one worker and one server take of it."""

    name: str
    available: float
    """Zero: not known."""
    worker: float
    ps: float
    words: str
    """What the bound is, in words."""


@dataclass(frozen=True)
class Limits:
    """What bounds a job's size. Zero: of capacities unknown, of quotas and ``changes_per_hour`` no limit."""

    min_workers: int = 1
    max_workers: int = 1
    node_unit: int = 1
    """Workers are a multiple of it."""
    free_cpu: float = 0.0
    """Cores that the cluster has left, the job's own included."""
    free_memory: int = 0
    """Bytes that the cluster has left, the job's own included."""
    largest_node_cpu: float = 0.0
    largest_node_memory: int = 0
    worker_cpu: float = 1.0
    """Cores that one worker is allotted."""
    worker_memory: int = 0
    """Bytes that one worker is allotted."""
    global_batch: int = 0
    """Samples a step, kept at every size; 0: each worker keeps its batch."""
    changes_per_hour: int = 12
    allowed_workers: tuple[int, ...] = ()
    """The only numbers of workers that the job can run with (tensor or pipeline parallelism); empty: any."""
    min_ps: int = 0
    max_ps: int = 0
    """Of parameter servers; 0: the fewest."""
    ps_cpu: float = 0.0
    ps_memory: int = 0
    worker_accelerators: float = 0.0
    free_accelerators: float = 0.0
    quota_cpu: float = 0.0
    """Cores that the job may have in all."""
    quota_memory: int = 0
    quota_accelerators: float = 0.0
    max_batch: int = 0
    """Samples a step up to which the batch may be changed; 0: it may not."""

    def resources(self) -> tuple[Resource, ...]:
        """Return what bounds the job as a whole."""
        cpu, memory = (self.worker_cpu, self.ps_cpu), (float(self.worker_memory), float(self.ps_memory))
        accelerators = (self.worker_accelerators, 0.0)
        each = f"at {self.worker_cpu:g} a worker"
        return (
            Resource("cores", self.free_cpu, *cpu, f"{self.free_cpu:g} cores {each}"),
            Resource("cores", self.quota_cpu, *cpu, f"a quota of {self.quota_cpu:g} cores {each}"),
            Resource("bytes", float(self.free_memory), *memory, "the memory that is free"),
            Resource("bytes", float(self.quota_memory), *memory, f"a quota of {self.quota_memory / 2**30:.3g} GiB"),
            Resource(
                "accelerators", self.free_accelerators, *accelerators, f"{self.free_accelerators:g} accelerators"
            ),
            Resource(
                "accelerators",
                self.quota_accelerators,
                *accelerators,
                f"a quota of {self.quota_accelerators:g} accelerators",
            ),
        )
