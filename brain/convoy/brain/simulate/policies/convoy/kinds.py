"""How fast one kind of accelerator is beside another, from what the history measured on both."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

UNKNOWN = (0.0, 0.7)
"""Logarithm of the ratio and its spread where no program was measured on both: as likely half as double."""
LEAST = 0.2
"""Spread from program to program that is counted with, whatever a few of them say."""
STEP = 0.5
"""Of the logarithm (base 2) of batches within which they count as the same."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Speed on one kind over speed on another: logarithm, and its standard deviation from program to program."""

    log: float
    spread: float


class Ratios:
    """Ratios between the kinds of a history, which holds no row of the program that they are for."""

    def __init__(self, history: pd.DataFrame) -> None:
        self._logs = _logs(history)
        self._known: dict[tuple[str, str], Ratio] = {}

    def of(self, kind: str, other: str) -> Ratio:
        """Return how fast ``kind`` is beside ``other``: of each program at like sizes, then over the programs."""
        if (kind, other) not in self._known:
            self._known[kind, other] = self._found(kind, other)
        return self._known[kind, other]

    def _found(self, kind: str, other: str) -> Ratio:
        if kind not in self._logs.columns or other not in self._logs.columns:
            return Ratio(*UNKNOWN)
        apart = (self._logs[kind] - self._logs[other]).dropna()
        each = apart.groupby(level=0).mean().to_numpy(dtype=np.float64)
        if not len(each):
            return Ratio(*UNKNOWN)
        spread = float(each.std(ddof=1)) if len(each) > 1 else UNKNOWN[1]
        return Ratio(
            float(each.mean()), math.hypot(spread, spread / math.sqrt(len(each))) if spread > LEAST else LEAST
        )


def _logs(history: pd.DataFrame) -> pd.DataFrame:
    """Return logarithms of speeds, one row a (program, workers, nodes, batch), one column a kind."""
    needed = ("model", "accelerator", "workers", "throughput")
    if any(name not in history.columns for name in needed):
        return pd.DataFrame()
    batch = history["batch_size"] if "batch_size" in history.columns else pd.Series(1.0, index=history.index)
    nodes = history["nodes"] if "nodes" in history.columns else pd.Series(1.0, index=history.index)
    found = history.assign(
        step=(np.log2(batch.where(batch > 0)) / STEP).round(),
        nodes=nodes,
        log=np.log(history["throughput"].clip(1e-12)),
    )
    served = found["ps"].fillna(0.0) > 0 if "ps" in found.columns else pd.Series(False, index=found.index)
    found = found[~served & (found["throughput"] > 0)]
    return found.pivot_table(index=["model", "workers", "nodes", "step"], columns="accelerator", values="log")
