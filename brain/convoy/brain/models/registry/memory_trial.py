"""The back-test by which a memory model is promoted: the last day of containers that it wasn't fitted to.

As with demand, a kind of model is tested, fitted anew without the containers that are asked about. A limit is a
quantile, and is judged as one: by the pinball loss of its logarithm. A byte too many costs its share, one too few as
much more as the asked rate is small, so that neither waste nor kills can be hidden behind the other.
"""

from __future__ import annotations

import hashlib
from typing import Protocol, Self

import numpy as np
import pandas as pd

from convoy.brain.models.registry.backtest import BackTest, JobScore
from convoy.brain.models.registry.facts import frame_digest

PROTOCOL = "the last day of each container from what it used before, its own rows aside unseen, five folds, rate 5 %"
RATE = 0.05
LEVEL = 1.0 - RATE
HORIZON = pd.Timedelta(days=1)
FOLDS = 5
MOST_CONTAINERS = 500
UNKNOWN = 1.0
"""The loss of a container for which no limit is recommended."""


class Limits(Protocol):
    """What recommends limits of memory."""

    def fit(self, usage: pd.DataFrame) -> Self:
        """Learn from containers."""
        ...

    def recommend(self, usage: pd.DataFrame, oom_rate: float = 0.01, horizon: pd.Timedelta = HORIZON) -> pd.DataFrame:
        """Return ``container``, ``limit_bytes`` for each container of ``usage``."""
        ...


def memory_trial(kind: type[Limits], usage: pd.DataFrame, of: str) -> BackTest:
    """Return the back-test of a kind of memory model.

    Args:
        kind: of model.
        usage: as ``MemoryModel.fit`` takes it, with times.
        of: whose the back-test is.
    """
    rows = _tested(usage)
    fold = rows["container"].map(lambda name: _hash(str(name)) % FOLDS)
    scores: list[JobScore] = []
    for number in range(FOLDS):
        asked = rows[fold == number]
        if len(asked):
            others = usage[~usage["container"].isin(asked["container"].unique())]
            scores += _scores(kind().fit(others), asked)
    return BackTest(of, PROTOCOL, LEVEL, frame_digest(rows), tuple(scores))


def _tested(usage: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the containers that are asked about, with ``origin``, the moment from which on they are."""
    rows = usage[usage["used_bytes"] > 0]
    origin = rows.groupby("container")["time"].transform("max") - HORIZON
    before = rows["container"].isin(rows.loc[rows["time"] <= origin, "container"].unique())
    known = rows[before].assign(origin=origin[before])
    names = sorted(known["container"].unique(), key=lambda name: _hash(str(name)))[:MOST_CONTAINERS]
    return known[known["container"].isin(names)].reset_index(drop=True)


def _scores(model: Limits, asked: pd.DataFrame) -> list[JobScore]:
    shown = asked[asked["time"] <= asked["origin"]].drop(columns="origin")
    answer = model.recommend(shown, oom_rate=RATE, horizon=HORIZON)
    limits = answer.set_index("container")["limit_bytes"]
    scores = []
    for name, came in asked[asked["time"] > asked["origin"]].groupby("container", sort=True):
        limit = float(limits.get(name, np.nan))
        needed = float(came["used_bytes"].max())
        killed = came["oom"].fillna(False).astype(bool).to_numpy() & (came["used_bytes"].to_numpy() >= limit)
        inside = limit >= needed and not killed.any()
        scores.append(JobScore(str(name), 1, _loss(limit, needed), int(inside)))
    return scores


def _loss(limit: float, needed: float) -> float:
    """Return the pinball loss of a limit in logarithms, in units of what is too much; of none ``UNKNOWN``."""
    if not np.isfinite(limit) or limit <= 0:
        return UNKNOWN
    above = float(np.log(limit / needed))
    return above if above >= 0 else -above * LEVEL / RATE


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
