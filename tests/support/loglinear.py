"""A small throughput model for tests of what is around one: how speed grows with workers and batch, in logarithms."""

from __future__ import annotations

from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.models.state import State
from convoy.brain.models.throughput.explain import Explanation, nothing

Array = NDArray[np.float64]


class LogLinear:
    """Learns one slope a size from a history, and a job's level from what it showed; without history, slopes of 0."""

    def __init__(self) -> None:
        self.slopes: Array = np.zeros(2)
        self.spread = 1.0
        self.history_jobs = 0

    def fit(self, history: pd.DataFrame) -> Self:
        """Learn from rows of ``job``, ``workers``, ``batch_size``, ``throughput``."""
        if len(history):
            sizes, speeds = _sizes(history), np.log(history["throughput"].to_numpy(dtype=np.float64))
            for places in history.reset_index(drop=True).groupby("job").indices.values():
                sizes[places] -= sizes[places].mean(axis=0)
                speeds[places] -= speeds[places].mean()
            self.slopes = np.linalg.lstsq(sizes, speeds, rcond=None)[0]
            self.spread = float(np.std(speeds - sizes @ self.slopes))
            self.history_jobs = int(history["job"].nunique())
        return self

    def predict(self, observed: pd.DataFrame, query: pd.DataFrame, level: float = 0.9) -> pd.DataFrame:
        """Predict speeds; the interval is two and a half spreads wide on each side."""
        away = 0.0
        if len(observed):
            seen = np.log(observed["throughput"].to_numpy(dtype=np.float64))
            away = float(np.mean(seen - _sizes(observed) @ self.slopes))
        mean = away + _sizes(query) @ self.slopes
        numbers = {"mean": mean, "lower": mean - 2.5 * self.spread, "upper": mean + 2.5 * self.spread}
        found = pd.DataFrame({name: np.exp(values) for name, values in numbers.items()}, index=query.index)
        return found.assign(latent_sd=self.spread, reason="Observed" if len(observed) else "HistoryOnly")

    def sample(self, observed: pd.DataFrame, query: pd.DataFrame, draws: int, seed: int) -> Array:
        """Return draws of the speeds that lie a spread apart, the same for all sizes in each draw."""
        mean = self.predict(observed, query)["mean"].to_numpy(dtype=np.float64)
        noise = np.random.default_rng(seed).normal(0.0, self.spread, (draws, 1))
        return np.asarray(mean * np.exp(noise))

    def explain(self, observed: pd.DataFrame, query: pd.DataFrame, *, chosen: int) -> Explanation:
        """Explain nothing."""
        del observed, query, chosen
        return nothing("NotExplained")

    def state(self) -> State:
        """Return what was learned."""
        return State({"spread": self.spread, "jobs": self.history_jobs}, {"slopes": self.slopes})

    @classmethod
    def restored(cls, state: State) -> Self:
        """Return the model of that state."""
        model = cls()
        model.slopes = state.tensors["slopes"].astype(np.float64)
        model.spread, model.history_jobs = state.document["spread"], state.document["jobs"]
        return model


def _sizes(frame: pd.DataFrame) -> Array:
    return np.asarray(np.log(frame[["workers", "batch_size"]].to_numpy(dtype=np.float64)))
