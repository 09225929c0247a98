"""Step times that are sums of known terms with unknown, non-negative coefficients: Optimus, DLRover-RM, Ernest.

Coefficients are fitted by non-negative least squares of relative errors, so that fast and slow configurations count
alike. Throughput is samples a step over the step's seconds.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from convoy.brain.models.baselines.base import Baseline, Fitted
from convoy.brain.models.baselines.rows import FOREIGN, PS, Array, Rows

LEAST_SHARE = 1e-3
"""A step takes no less than this share of the shortest seen: where the terms that count got no coefficient."""


class StepTime(Baseline):
    """Fits ``seconds = terms @ coefficients`` to one job's rows; a history isn't used."""

    least = 2
    learns = False

    @abstractmethod
    def _terms(self, rows: Rows) -> Array:
        """Return the terms (n, m) of a step's seconds."""

    def _samples(self, rows: Rows) -> Array:
        """Return the samples that pass in that time."""
        return rows.samples

    def coefficients(self, own: Rows) -> Array:
        """Return the fitted coefficients (m,) in seconds per unit of each term."""
        seconds = self._samples(own) / np.exp(own.log_speed)
        # columns of one size: the solver's tolerance is absolute
        relative = self._terms(own) / seconds[:, None]
        sizes = np.maximum(np.linalg.norm(relative, axis=0), 1e-300)
        found, _ = nnls(relative / sizes, np.ones(len(own)), maxiter=100 * relative.shape[1])
        return np.asarray(found / sizes)

    def _fit_job(self, name: str, own: Rows, asked: Rows) -> Fitted:
        found = self.coefficients(own)
        least = LEAST_SHARE * float(np.min(self._samples(own) / np.exp(own.log_speed)))

        def log_speed(rows: Rows) -> Array:
            seconds = np.maximum(self._terms(rows) @ found, least)
            return np.asarray(np.log(self._samples(rows) / seconds))

        return Fitted(log_speed(asked), own.log_speed - log_speed(own), int(np.count_nonzero(found)))


class Optimus(StepTime):
    """Optimus's speed of parameter-server jobs (Peng et al., EuroSys 2018).

    Synchronous, with w workers, p servers and B samples a step of all: T = a B/w + b w/p + c w + d p + e, and
    speed = B/T.
    Asynchronous, with m samples a worker's step: T = a + b w/p + c w + d p, speed = w m/T.
    """

    def _covers(self, rows: Rows) -> NDArray[np.bool_]:
        return np.asarray(rows.strategy == PS)

    def _terms(self, rows: Rows) -> Array:
        w, p = rows.workers, rows.ps
        sync = rows.asynchronous == 0
        share = np.where(sync, rows.samples / w, 0.0)
        return np.column_stack([share, w / p, w, p, np.ones(len(rows))])

    def _samples(self, rows: Rows) -> Array:
        return np.where((rows.asynchronous == 1) & ~np.isfinite(rows.batch), rows.workers, rows.samples)


class DLRoverRM(StepTime):
    """The resource-performance model of DLRover-RM (Wang et al., VLDB 2024), at fixed CPU and bandwidth.

    T = a m + b w/p + c m/p + d, with m samples a worker's step; throughput = w m / T. The paper's form as others
    recall it: its gradient, update, synchronization and embedding terms, constants merged.
    """

    def _covers(self, rows: Rows) -> NDArray[np.bool_]:
        return np.asarray(rows.strategy == PS)

    def _terms(self, rows: Rows) -> Array:
        batch = np.where(np.isfinite(rows.batch), rows.batch * rows.accumulation, 1.0)
        return np.column_stack([batch, rows.workers / rows.ps, batch / rows.ps, np.ones(len(rows))])

    def _samples(self, rows: Rows) -> Array:
        return np.where(np.isfinite(rows.batch), rows.samples, rows.workers)


class Ernest(StepTime):
    """Ernest's running time over machines (Venkataraman et al., NSDI 2016): T = a + b B/w + c log w + d w.

    B is what is done in T: the samples of a step; where no batch is known, a unit of work that is the same at all
    sizes (a run: throughput is then 1/T).
    """

    def _covers(self, rows: Rows) -> NDArray[np.bool_]:
        return np.asarray(rows.strategy != FOREIGN)

    def _terms(self, rows: Rows) -> Array:
        w = rows.workers
        return np.column_stack([np.ones(len(rows)), rows.samples / w, np.log(w), w])
