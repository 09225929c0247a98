"""Protocols P1 to P3: which rows of a job are seen, which are predicted."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd
from numpy.typing import NDArray

FEW = 2
"""Rows seen up to which a case depends so much on which they are that more seeds are drawn."""
FEWER_SEEDS = 3
"""Above ``FEW``, seeds are divided by it."""


class Protocol(StrEnum):
    """What is asked of a model."""

    INTERPOLATE = "P1"
    """k random rows are seen, all others predicted."""
    EXTRAPOLATE = "P2"
    """k random rows of the small configurations are seen, the big ones predicted."""
    COLD = "P3"
    """No row is seen: history alone. (With 1 and 2 rows it is P1.)"""
    TUNE = "P4"
    """Rounds, each of which deploys a configuration and measures it."""
    LOAD = "load"
    """P1's cases: the CPU that workers and servers use."""
    MEMORY = "memory"
    """Limits of memory, day by day."""
    DEMAND = "demand"
    """Forecasts of a cluster's demand, from rolling origins."""
    STARTUP = "startup"
    """Resources that jobs begin with."""


@dataclass(frozen=True)
class Case:
    """One question: places in a job's rows."""

    protocol: Protocol
    k: int
    seed: int
    seen: NDArray[np.intp]
    asked: NDArray[np.intp]


def cases(protocol: Protocol, job: str, rows: pd.DataFrame, sizes: tuple[int, ...], seeds: int) -> Iterator[Case]:
    """Yield a job's cases: for each k of ``sizes`` as many draws as ``seeds`` gives it.

    A draw depends on seed, k and the job's name alone. Where a job has too few rows for a k, there is none.

    Args:
        protocol: P1, P2 or P3.
        job: its name.
        rows: its usable rows.
        sizes: numbers of rows seen; P3 has 0 alone.
        seeds: draws at k <= 2; a third of them, rounded up, above.
    """
    everything = np.arange(len(rows))
    if protocol is Protocol.COLD:
        if len(rows) >= 2:
            yield Case(protocol, 0, 0, everything[:0], everything)
        return
    small, big = (everything, None) if protocol is Protocol.INTERPOLATE else small_and_big(rows)
    for k in sizes:
        if k < 1 or k > len(small) or (len(small) == k if big is None else not len(big)):
            continue
        for seed in range(draws(k, seeds)):
            generator = np.random.default_rng([seed, k, zlib.crc32(f"{protocol} {job}".encode())])
            order = generator.permutation(small)
            yield Case(protocol, k, seed, order[:k], np.sort(order[k:]) if big is None else big)


def draws(k: int, seeds: int) -> int:
    """Return how many draws are made of k rows."""
    return seeds if k <= FEW else -(-seeds // FEWER_SEEDS)


PS_SMALL = 5.0
ASYNC_SMALL_WORKERS = 4.0
SMALL_WORKERS, BIG_WORKERS = 4.0, 8.0


def small_and_big(rows: pd.DataFrame) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the places of small and of big configurations.

    Synchronous parameter servers: at most five servers and five workers; all others. Asynchronous: at most four
    workers; all others. Otherwise: at most four workers; eight or more.
    """
    workers = rows["workers"].to_numpy(dtype=np.float64)
    if "strategy" in rows.columns and (rows["strategy"] == "ps").all():
        if "mode" in rows.columns and (rows["mode"] == "async").all():
            small = workers <= ASYNC_SMALL_WORKERS
        else:
            small = (workers <= PS_SMALL) & (rows["ps"].to_numpy(dtype=np.float64) <= PS_SMALL)
        return np.flatnonzero(small), np.flatnonzero(~small)
    return np.flatnonzero(workers <= SMALL_WORKERS), np.flatnonzero(workers >= BIG_WORKERS)
