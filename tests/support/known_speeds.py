"""A speed model that knows the truth, but for a scatter: plans are tested against it without a fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class KnownSpeeds:
    """Speeds by a function of a row, with a log-normal scatter, all rows' alike but for a part ``apart`` of it."""

    truth: Callable[[pd.Series], float]
    sd: float = 0.02
    apart: float = 1.0
    basis: str = "Interpolated"
    history_jobs: int = 8

    def predict(self, observed: pd.DataFrame, query: pd.DataFrame, level: float = 0.9) -> pd.DataFrame:
        mean = self._means(query)
        wide = np.exp(self.sd * {0.9: 1.645, 0.99: 2.576}[level])
        frame = pd.DataFrame({"mean": mean, "lower": mean / wide, "upper": mean * wide}, index=query.index)
        return frame.assign(latent_sd=self.sd, reason=np.where(np.isfinite(mean), self.basis, "NothingKnown"))

    def sample(self, observed: pd.DataFrame, query: pd.DataFrame, draws: int, seed: int) -> Array:
        generator = np.random.default_rng(seed)
        together = generator.standard_normal((draws, 1)) * np.sqrt(1 - self.apart)
        # each row's own scatter follows from what it is, so that another set of rows doesn't change it
        own = [np.random.default_rng([seed, *_key(row)]).standard_normal(draws) for _, row in query.iterrows()]
        scatter = together + np.sqrt(self.apart) * np.array(own).reshape(len(query), draws).T
        return np.asarray(self._means(query) * np.exp(self.sd * scatter))

    def _means(self, query: pd.DataFrame) -> Array:
        return np.array([self.truth(row) for _, row in query.iterrows()], dtype=np.float64)


def _key(row: pd.Series) -> list[int]:
    return [
        int(1000 * row.get(name, 0.0)) for name in ("workers", "ps", "worker_cpu", "ps_cpu") if row.get(name, 0) > 0
    ]


def served(row: pd.Series) -> float:
    """Samples/s of a synchronous job with parameter servers: servers of more cores are faster, up to four."""
    workers, servers, cores = row["workers"], row["ps"], row.get("ps_cpu", 2.0)
    exchange = 0.08 * workers / servers * 2.0 / min(cores, 4.0) + 0.01 * workers + 0.02 * servers
    return float(256.0 / (2.0 / workers + exchange))


def reduced(row: pd.Series) -> float:
    """Samples/s of an all-reduce job that goes on getting faster, by less and less."""
    return float(256.0 / (2.0 / row["workers"] + 0.02 * row["workers"] ** 0.5))
