"""What was measured at the nearest configuration: for speed, and for the CPU and memory that nodes use."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from convoy.brain.models.baselines.base import Baseline, Fitted
from convoy.brain.models.baselines.rows import FOREIGN, Array, Rows


class NearestNeighbour(Baseline):
    """The speed at the job's nearest measured configuration, nearest in logarithms of its sizes.

    Without a row of its own: the speed at the nearest configuration of the history's jobs of the same strategy.
    """

    least = 0

    def _covers(self, rows: Rows) -> NDArray[np.bool_]:
        return np.asarray(rows.strategy != FOREIGN)

    def _fit_job(self, name: str, own: Rows, asked: Rows) -> Fitted:
        if len(own):
            return Fitted(own.log_speed[nearest(own.features, asked.features)], np.zeros(0))
        history = self.history_
        alike = history.strategy == asked.strategy[0]
        if name in history.names:
            alike &= history.job != history.names.index(name)
        others = history.take(alike)
        if not len(others):
            return Fitted(np.full(len(asked), np.nan), np.zeros(0), reason="NothingKnown")
        found = others.log_speed[nearest(others.features, asked.features)]
        return Fitted(found, others.log_speed - float(np.mean(others.log_speed)))


def nearest(known: Array, asked: Array) -> NDArray[np.intp]:
    """Return for each row of ``asked`` (n, d) the place of the nearest of ``known`` (m, d); the first of equals."""
    return np.asarray(np.argmin(cdist(asked, known), axis=1), dtype=np.intp)
