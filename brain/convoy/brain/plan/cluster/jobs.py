"""What is asked about a cluster: its jobs, and the sizes that each of them may take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from convoy.brain.plan.hold import Hold

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
_NONE: Array = np.zeros(0)
_NONE_OF_INTS: Ints = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Sizes:
    """What one job may be: a place a size, all (n,). The same number of workers in two pools is two sizes.

    What makes a size worth more or less than another stands in ``goodput`` alone: expected useful samples/s, at the
    initial batch's worth of a sample where the batch grows with the size. NaN: not known. A size that can't be told
    from nothing (zero, negative, NaN) is never moved to.

    Numbers left out (an array of length zero) are zero, ``together`` one, prices unknown, ``speed`` the goodput.
    """

    pool: tuple[str, ...]
    workers: Ints
    goodput: Array
    accelerators: Array
    """Of one worker."""
    cpu: Array
    """Of one worker, cores."""
    memory: Array
    """Of one worker, bytes."""
    together: Ints = field(default_factory=lambda: _NONE_OF_INTS)
    """Workers that share a node, since that is what the speed was predicted for: 8 workers, 4 together, need two
    nodes with room for four each."""
    ps: Ints = field(default_factory=lambda: _NONE_OF_INTS)
    ps_cpu: Array = field(default_factory=lambda: _NONE)
    ps_memory: Array = field(default_factory=lambda: _NONE)
    price_per_hour: Array = field(default_factory=lambda: _NONE)
    """Of the whole job at that size; NaN: not known."""
    speed: Array = field(default_factory=lambda: _NONE)
    """Samples/s that would be measured there, whatever a sample is worth: what is told, not what is chosen by."""
    batch: Ints = field(default_factory=lambda: _NONE_OF_INTS)
    """Samples of a step that the goodput is of; 0: as it is."""

    def __len__(self) -> int:
        return len(self.workers)


@dataclass(frozen=True)
class ClusterJob:
    """A job that runs or waits.

    ``current`` is the place in ``sizes`` of what it has now, None where it waits; a running job's present size must
    be among its sizes, even where it would not be chosen today.
    """

    name: str
    sizes: Sizes
    user: str = ""
    namespace: str = ""
    current: int | None = None
    nodes: tuple[int, ...] = ()
    """Where it runs: of each of its workers' groups (``together``), then of each server, the number of the node
    within the pool. Empty: not known."""
    priority: int = 0
    """Each step up counts ``Policy.priority_base`` times."""
    weight: float = 1.0
    """Its part of what there is, beside other jobs' 1."""
    restart_seconds: float = 30.0
    """At no speed, for a change of size."""
    horizon_seconds: float = 3600.0
    """Over which a restart must be paid back."""
    hold: Hold | None = None
    """What has it keep what it has: pinned by its user, frozen, or changed too often lately."""
    refused: Mapping[int, str] = field(default_factory=dict)
    """By the place in ``sizes``, those that a person refused lately, with who and why. What it has isn't given up."""
    preemptible: bool = False
    """May be sent back to the queue. Others always keep at least their smallest size."""
    requested: int | None = None
    """The place in ``sizes`` of what its user asked for: what it starts at where no speed is known."""
    fair_goodput: float = math.nan
    """What its fair share of the cluster would give it; NaN: worked out from its sizes."""


@dataclass(frozen=True)
class Policy:
    """What is preferred."""

    fairness: float = 0.5
    """How much less the next bit of speed is worth to who has more: 0 the sum of relative speeds, 1 proportional
    fairness (Nash), above it towards the least served."""
    user_fairness: float = 1.0
    """1: a user counts the same however many jobs it has; 0: each job does."""
    priority_base: float = 10.0
    hysteresis: float = 0.02
    """Relative gain of goodput that isn't worth a move, restart already counted."""
    seconds: float = 2.0
    """Most that the exact solver may take."""
