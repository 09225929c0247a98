"""Published ways to predict speed, under ``ThroughputModel``'s interface: what our own model is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from convoy.brain.models.baselines.base import Baseline
from convoy.brain.models.baselines.gaussian_process import GaussianProcess
from convoy.brain.models.baselines.matrix_factorization import MatrixFactorization
from convoy.brain.models.baselines.nearest_load import NearestLoad
from convoy.brain.models.baselines.nearest_neighbour import NearestNeighbour
from convoy.brain.models.baselines.pollux import Pollux
from convoy.brain.models.baselines.step_time import DLRoverRM, Ernest, Optimus

__all__ = [
    "BASELINES",
    "Baseline",
    "DLRoverRM",
    "Ernest",
    "GaussianProcess",
    "MatrixFactorization",
    "NearestLoad",
    "NearestNeighbour",
    "Optimus",
    "Pollux",
]

BASELINES: Mapping[str, Callable[[], Baseline]] = {
    "matrix factorization": MatrixFactorization,
    "optimus": Optimus,
    "dlrover-rm": DLRoverRM,
    "pollux": Pollux,
    "ernest": Ernest,
    "gaussian process": GaussianProcess,
    "nearest neighbour": NearestNeighbour,
}
"""By the name that reports show."""
