"""Goodput: how fast a job gets on, speed times what a sample is worth; for jobs whose batch may change."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.models.efficiency.model import EfficiencyModel
from convoy.brain.models.efficiency.readings import Array

NUMBERS = ("mean", "lower", "upper", "latent_sd")


class SpeedModel(Protocol):
    """What goodput asks of a throughput model."""

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


class GoodputModel:
    """Speed and efficiency with the interface of a throughput model: plans ask it instead of one.

    Its unit is samples/s of the initial batch: what a job of that batch would need to get on as fast. Jobs that
    report no gradient statistics have their throughput instead, all rows of a job alike, so that its rows can be
    compared; ``efficiency_reason`` says why. A plan must not change the batch of such a job, for throughput alone
    always asks for more.
    """

    def __init__(self, speed: SpeedModel, efficiency: EfficiencyModel) -> None:
        self.speed = speed
        self.efficiency = efficiency

    @property
    def history_jobs(self) -> int:
        """Jobs whose evidence formed the prior of speeds."""
        return self.speed.history_jobs

    def predict(self, observed: pd.DataFrame, query: pd.DataFrame, level: float = 0.9) -> pd.DataFrame:
        """Predict goodput.

        Args:
            observed, query, level: as ``ThroughputModel.predict``'s and ``EfficiencyModel.predict``'s.

        Returns:
            A frame with the query's index, the columns of ``ThroughputModel.predict`` (samples/s of the initial
            batch; ``reason`` is the speed's), ``efficiency`` (its mean; 1 where it isn't known) and
            ``efficiency_reason``. The interval adds the squares of both intervals' halves, in logarithms.

        Raises:
            InvalidInput: ``level`` isn't within (0, 1).
        """
        worth = self.efficiency.predict(observed, query, level)
        speed = self.speed.predict(observed, query, level)
        numbers = np.array(worth[list(NUMBERS)], dtype=np.float64)
        unknown = ~self._known(numbers, query)
        numbers[unknown] = (1.0, 1.0, 1.0, 0.0)
        speeds = speed[list(NUMBERS)].to_numpy(dtype=np.float64)
        middle = np.log(speeds[:, 0]) + np.log(numbers[:, 0])
        below, above = (
            np.hypot(np.log(speeds[:, 0] / speeds[:, end]), np.log(numbers[:, 0] / numbers[:, end])) for end in (1, 2)
        )
        frame = pd.DataFrame(np.exp([middle, middle - below, middle + above]).T, query.index, list(NUMBERS[:3]))
        return frame.assign(
            latent_sd=np.hypot(speeds[:, 3], numbers[:, 3]),
            reason=speed["reason"],
            efficiency=numbers[:, 0],
            efficiency_reason=worth["reason"],
        )

    def sample(self, observed: pd.DataFrame, query: pd.DataFrame, draws: int, seed: int) -> Array:
        """Return joint draws (draws, rows of ``query``) of latent goodput; NaN where speed is undefined."""
        worth = self.efficiency.sample(observed, query, draws, seed + 1)
        worth[:, ~self._known(worth.T, query)] = 1.0
        return self.speed.sample(observed, query, draws, seed) * worth

    def _known(self, numbers: Array, query: pd.DataFrame) -> NDArray[np.bool_]:
        """Return of which rows (n, ...) efficiency counts: those of jobs all of whose rows have one."""
        defined = ~np.isnan(numbers).any(axis=1)
        if "job" not in query.columns:
            return np.full(len(query), bool(defined.all()))
        names = query["job"].astype(object).where(query["job"].notna(), "").to_numpy(dtype=object)
        return pd.Series(defined).groupby(names).transform("all").to_numpy(dtype=bool)
