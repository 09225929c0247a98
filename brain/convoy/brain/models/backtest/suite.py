"""Who takes part in a back-test, and all of its protocols in one run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from convoy.brain.models import LoadModel, ThroughputModel
from convoy.brain.models.backtest.data import DataSet
from convoy.brain.models.backtest.load import load_backtest
from convoy.brain.models.backtest.policies import dlrover_rules, doubling, expected_improvement, greedy, stay
from convoy.brain.models.backtest.running import backtest
from convoy.brain.models.backtest.splits import FEWER_SEEDS, Protocol
from convoy.brain.models.backtest.tuning import Policy, Tuner, tuning_backtest
from convoy.brain.models.baselines import (
    BASELINES,
    DLRoverRM,
    GaussianProcess,
    MatrixFactorization,
    NearestLoad,
    NearestNeighbour,
    Optimus,
    Pollux,
)

OURS = "convoy"
"""The name of Convoy's own models in results."""

PREDICTIONS = (Protocol.INTERPOLATE, Protocol.EXTRAPOLATE, Protocol.COLD)
SPEED_PROTOCOLS = (*PREDICTIONS, Protocol.TUNE, Protocol.LOAD)

PROBES = 3
"""Configurations that methods which learn nothing from history try before they can be fitted."""


@dataclass(frozen=True)
class Contestants:
    """Methods by name."""

    speed: Mapping[str, Callable[[], Any]]
    tuning: Mapping[str, Tuner]
    load: Mapping[str, Callable[[], Any]]

    @property
    def names(self) -> list[str]:
        """All names, each once."""
        return list(dict.fromkeys([*self.speed, *self.tuning, *self.load]))

    def only(self, names: Collection[str]) -> Contestants:
        """Return those of these names."""
        return Contestants(
            {name: make for name, make in self.speed.items() if name in names},
            {name: tuner for name, tuner in self.tuning.items() if name in names},
            {name: make for name, make in self.load.items() if name in names},
        )


def contestants(policy: Policy | None = None) -> Contestants:
    """Return our own models and all baselines.

    Args:
        policy: chooses what a job tries next, with our model.
    """
    own = {} if policy is None else {OURS: Tuner(ThroughputModel, policy)}
    return Contestants(
        speed={OURS: ThroughputModel, **BASELINES},
        tuning={
            **own,
            "convoy, greedy": Tuner(ThroughputModel, greedy()),
            "matrix factorization": Tuner(MatrixFactorization, greedy()),
            "optimus": Tuner(Optimus, greedy(PROBES)),
            "dlrover-rm": Tuner(DLRoverRM, greedy(PROBES)),
            "pollux": Tuner(Pollux, greedy()),
            "gaussian process": Tuner(GaussianProcess, expected_improvement),
            "dlrover's rules": Tuner(NearestNeighbour, dlrover_rules),
            "doubling": Tuner(NearestNeighbour, doubling),
            "no change": Tuner(NearestNeighbour, stay),
        },
        load={OURS: LoadModel, "nearest neighbour": NearestLoad},
    )


def run(
    sets: Sequence[DataSet],
    who: Contestants,
    protocols: Collection[Protocol],
    seeds: int,
    *,
    elsewhere: Sequence[DataSet] = (),
    progress: Callable[[str, str], None] = lambda data, job: None,
) -> pd.DataFrame:
    """Return all results, one row a (method, data set, protocol, k, job, seed).

    Args:
        sets: data sets.
        who: the methods.
        protocols: of ``SPEED_PROTOCOLS``.
        seeds: draws at k <= 2; above, and in P4, a third of them.
        elsewhere: data sets whose rows join the histories of all that come from elsewhere.
        progress: is told each job that is done with a protocol.

    Raises:
        BacktestFailed: a method failed.
        InvalidInput: a data set lacks a column.
    """
    parts = []
    for data in sets:
        others = _others(data, elsewhere)

        def tell(job: str, name: str = data.name) -> None:
            progress(name, job)

        predictions = tuple(protocol for protocol in PREDICTIONS if protocol in protocols)
        if predictions and who.speed:
            parts.append(backtest(data, who.speed, predictions, seeds, others, tell))
        if Protocol.TUNE in protocols and data.tunes and who.tuning:
            parts.append(tuning_backtest(data, who.tuning, -(-seeds // FEWER_SEEDS), others, tell))
        if Protocol.LOAD in protocols and who.load:
            parts.append(load_backtest(data, who.load, seeds, others, tell))
    found = [part for part in parts if len(part)]
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def _others(data: DataSet, sets: Sequence[DataSet]) -> pd.DataFrame | None:
    """Return the rows of the sets from elsewhere, each source once: as the set of its name groups them.

    A set that is made of another's rows may let a job's history know its model; another set's histories mustn't.
    """
    frames = [one.frame for one in sets if one.origin != data.origin and one.name == one.origin]
    return pd.concat(frames, ignore_index=True) if frames else None
