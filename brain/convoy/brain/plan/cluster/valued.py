"""What the sizes of one job are worth: goodput where the job reports the noise of its gradients, else throughput.

A sample of a larger batch is worth less than one of the initial batch. So where the batch grows with the job's size,
or may be raised, speed alone would ask for too much (``models.efficiency``). A job that reports nothing of its
gradients is valued by speed, at the batch that it has, and that is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from convoy.brain.plan.answer import JobRequest
from convoy.brain.plan.batch import batches
from convoy.brain.plan.cluster.jobs import Array, Ints
from convoy.brain.plan.options import SpeedModel, completed, query
from convoy.brain.plan.sizes import Size

UNKNOWN = ("NotReported", "BatchUnknown", "OnlyNoise")
"""Reasons of ``EfficiencyModel`` for which a sample's worth isn't known."""


@dataclass(frozen=True)
class Currency:
    """What a job's sizes are compared by.

    Attributes:
        name: ``goodput`` | ``throughput`` | ``nothing``.
        reason: why it isn't goodput: one of ``UNKNOWN``, ``NoEfficiencyModel``, ``EfficiencyFailed``;
            or why it is nothing: ``ModelFailed``, ``NoSizes``; "".
    """

    name: str
    reason: str = ""

    def __str__(self) -> str:
        """Return it as it is shown."""
        return f"{self.name} ({self.reason})" if self.reason else self.name


@dataclass(frozen=True)
class Valued:
    """Sizes (n,) with what they are worth."""

    sizes: tuple[Size, ...]
    goodput: Array
    """Samples/s of the initial batch; NaN: not known."""
    speed: Array
    """Samples/s that would be measured."""
    currency: Currency

    @property
    def batch(self) -> Ints:
        """Return the samples of a step of each; 0: as it is."""
        return np.array([size.batch for size in self.sizes], dtype=np.int64)


def valued(
    model: SpeedModel, observed: pd.DataFrame, request: JobRequest, sizes: Sequence[Size], here: Size | None
) -> Valued:
    """Return the sizes, each with the batch at which it is worth most, where the job's batch may be raised.

    Args:
        model: of speeds, or of goodput (``GoodputModel``).
        observed: the job's measurements.
        request: the job.
        sizes: that it may have, ``here`` among them.
        here: what it has; it stays among the sizes as it is, one more of it where a larger batch is worth more.
    """
    plain = _asked(model, observed, request, sizes)
    larger = batches(request) if plain.currency.name == "goodput" else []
    if not larger:
        return plain
    rows = [
        plain,
        *(_asked(model, observed, request, [replace(one, batch=batch) for one in sizes]) for batch in larger),
    ]
    best = np.argmax(np.nan_to_num(np.array([row.goodput for row in rows]), nan=-np.inf), axis=0)
    chosen: list[tuple[int, int]] = []
    for place, (size, row) in enumerate(zip(sizes, best.tolist(), strict=True)):
        chosen += [(0, place), (row, place)] if size == here and row else [(row, place)]
    return Valued(
        tuple(rows[row].sizes[place] for row, place in chosen),
        np.array([rows[row].goodput[place] for row, place in chosen]),
        np.array([rows[row].speed[place] for row, place in chosen]),
        plain.currency,
    )


def _asked(model: SpeedModel, observed: pd.DataFrame, request: JobRequest, sizes: Sequence[Size]) -> Valued:
    found = model.predict(completed(observed, request), query(observed, request, sizes))
    goodput = found["mean"].to_numpy(dtype=np.float64)
    if "efficiency" not in found.columns:
        return Valued(tuple(sizes), goodput, goodput, Currency("throughput", "NoEfficiencyModel"))
    unknown = [reason for reason in found["efficiency_reason"] if reason in UNKNOWN]
    currency = Currency("throughput", str(unknown[0])) if unknown else Currency("goodput")
    speed = goodput / found["efficiency"].to_numpy(dtype=np.float64)
    return Valued(tuple(sizes), goodput, speed, currency)
