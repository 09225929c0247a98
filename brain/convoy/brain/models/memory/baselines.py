"""The rules that others size memory by, under the interface of ``MemoryModel``: none but ``TunedMargin`` learns.

They take ``usage`` as ``MemoryModel`` does and answer from a container's own readings alone; what was killed counts
as its limit. None meets an asked rate, except the tuned margin on containers like those that it was tuned on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import pandas as pd

from convoy.brain.models.memory import kept
from convoy.brain.models.memory.answers import answered, checked_node, checked_rate
from convoy.brain.models.memory.calibration import Calibration
from convoy.brain.models.memory.limits import MOST_EXAMPLES, RATIO_SCALE
from convoy.brain.models.memory.usage import Array, Container, containers_of, seconds_of
from convoy.brain.models.memory.windows import SLOTS, examples_of, slots_of
from convoy.brain.models.state import State
from convoy.core.api.errors import CorruptState

GIB = 2.0**30
MIB = 2.0**20
DAY = 86400.0


class MemoryRule(ABC):
    """A rule of thumb: ``fit`` changes nothing, ``recommend`` answers as ``MemoryModel.recommend`` does.

    A rule takes no notice of ``oom_rate`` and ``horizon``, except where it says so.
    """

    name = ""
    takes_rate = False
    """Whether the limit depends on ``oom_rate``."""

    def fit(self, usage: pd.DataFrame) -> Self:
        """Return the rule: there is nothing to learn. The frame is checked.

        Raises:
            InvalidInput: as ``MemoryModel.fit``.
        """
        containers_of(usage)
        return self

    def recommend(
        self,
        usage: pd.DataFrame,
        oom_rate: float = 0.01,
        horizon: str | float | pd.Timedelta = "1d",
        node_bytes: float | None = None,
    ) -> pd.DataFrame:
        """Return ``container``, ``limit_bytes``, ``reason``; NaN for containers that never used memory.

        Raises:
            InvalidInput: as ``MemoryModel.recommend``.
        """
        rate, node, seconds = checked_rate(oom_rate), checked_node(node_bytes), seconds_of(horizon)
        asked = containers_of(usage)
        limits = [self._limit(one, rate, seconds) if one.has_history else np.nan for one in asked]
        reasons = [f"Rule: {self.name}" if one.has_history else "NothingKnown: it never ran" for one in asked]
        return answered([one.name for one in asked], limits, reasons, node)

    def state(self) -> State:
        """Return what the rule is made of."""
        return State({"numbers": self._numbers()})

    @classmethod
    def restored(cls, state: State) -> Self:
        """Return the rule whose ``state`` it was.

        Raises:
            CorruptState: it isn't the state of such a rule.
        """
        try:
            return cls(**state.document["numbers"])
        except (KeyError, TypeError) as error:
            raise CorruptState(f"state of a memory rule: {type(error).__name__}: {error}; write it anew") from error

    def _numbers(self) -> dict[str, Any]:
        return {}

    @abstractmethod
    def _limit(self, container: Container, rate: float, horizon: float) -> float:
        """Return the logarithm of the limit in bytes."""


class AutopilotLike(MemoryRule):
    """The largest of the last ``window`` horizons, times a margin (Autopilot's peak rule; Rzadca et al., 2020)."""

    name = "largest of a window, with a margin (Autopilot-like)"

    def __init__(self, window: float = 7.0, margin: float = 1.1) -> None:
        self.window = window
        self.margin = margin

    def _numbers(self) -> dict[str, Any]:
        return {"window": self.window, "margin": self.margin}

    def _limit(self, container: Container, rate: float, horizon: float) -> float:
        recent = _recent(container, self.window * horizon)
        return float(recent.max() + np.log(self.margin))


class VpaRule(MemoryRule):
    """The 90th percentile of daily peaks whose weight halves every day, times 1.15, as the Vertical Pod Autoscaler's
    recommender has it by default. A kill counts as its limit and a fifth, or 100 MiB where that is more. Its
    histogram's buckets of 5 % aren't copied.
    """

    name = "p90 of a decaying histogram of peaks x 1.15 (VPA)"

    def _limit(self, container: Container, rate: float, horizon: float) -> float:
        bumped = np.maximum(np.log(1.2), np.log1p(100 * MIB / np.exp(np.maximum(container.used, 0.0))))
        used = container.used + np.where(container.killed, bumped, 0.0)
        days = np.floor((container.times[-1] - container.times) / DAY).astype(int)
        ages, place = np.unique(days, return_inverse=True)
        peaks = np.full(len(ages), -np.inf)
        np.maximum.at(peaks, place, used)
        weights = 0.5 ** (ages - ages.min()).astype(np.float64)
        order = np.argsort(peaks)
        share = np.cumsum(weights[order]) / weights.sum()
        return float(peaks[order][np.searchsorted(share, 0.9 - 1e-12)] + np.log(1.15))


class KrrRule(MemoryRule):
    """The largest ever, and 15 % more, as Kubernetes Resource Recommender's simple strategy has it."""

    name = "largest ever + 15 % (KRR)"

    def _limit(self, container: Container, rate: float, horizon: float) -> float:
        return float(container.used.max() + np.log(1.15))


class DlroverRule(MemoryRule):
    """DLRover's: the largest ever and a fifth, for workers at most 8 GiB; after a kill double, at most 8 GiB."""

    name = "largest ever x 1.2, doubled after a kill (DLRover)"

    def _limit(self, container: Container, rate: float, horizon: float) -> float:
        largest = float(np.exp(min(container.used.max(), 700.0)))
        capped = container.labels[1] == "worker"
        limit = largest + min(0.2 * largest, 8 * GIB if capped else np.inf)
        if container.killed.any():
            at = float(np.exp(min(container.used[container.killed].max(), 700.0)))
            limit = max(limit, at + min(at, 8 * GIB))
        return float(np.log(limit))


class TunedMargin(MemoryRule):
    """The largest of the last ``window`` horizons times one margin, tuned to the asked rate on the fit's containers.

    The margin is the best that a fixed one can be; ours has to beat it.
    """

    name = "largest of a window, with a margin tuned on other containers"
    takes_rate = True

    def __init__(self, window: float = 7.0) -> None:
        self.window = window
        self.containers_: list[Container] = []
        self._tuned: dict[float, Calibration] = {}

    def fit(self, usage: pd.DataFrame) -> Self:
        """Keep the containers whose next peaks the margin is tuned to.

        Raises:
            InvalidInput: as ``MemoryModel.fit``.
        """
        self.containers_ = [one for one in containers_of(usage) if one.has_history]
        self._tuned = {}
        return self

    def state(self) -> State:
        """Return the containers that the margin is tuned on."""
        said, tensors = kept.written(self.containers_)
        return State({"window": self.window, "containers": said}, tensors)

    @classmethod
    def restored(cls, state: State) -> Self:
        """Return the rule whose ``state`` it was.

        Raises:
            CorruptState: it isn't the state of such a rule.
        """
        try:
            rule = cls(float(state.document["window"]))
            rule.containers_ = kept.read(state.document["containers"], state.tensors)
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptState(f"state of a memory rule: {type(error).__name__}: {error}; write it anew") from error
        return rule

    def _limit(self, container: Container, rate: float, horizon: float) -> float:
        if horizon not in self._tuned:
            self._tuned[horizon] = self._tune(horizon)
        return float(_recent(container, self.window * horizon).max() + self._tuned[horizon].score(rate))

    def _tune(self, horizon: float) -> Calibration:
        slots = [slots_of(one, horizon) for one in self.containers_]
        examples = examples_of(slots, MOST_EXAMPLES, young=False)
        ratios = np.zeros(len(examples))
        for row, number in enumerate(examples.container.astype(int)):
            used = slots[number].used[: examples.origin[row]]
            recent = used[max(0, len(used) - round(self.window * SLOTS)) :]
            recent = recent[np.isfinite(recent)]
            ratios[row] = examples.needed[row] - (recent.max() if len(recent) else examples.largest[row])
        return Calibration.of(ratios, examples.container, examples.killed, RATIO_SCALE)


BASELINES: tuple[type[MemoryRule], ...] = (AutopilotLike, VpaRule, KrrRule, DlroverRule, TunedMargin)


def _recent(container: Container, seconds: float) -> Array:
    """Return the readings of the last ``seconds`` before the last one; of nothing used then, the largest ever."""
    recent = container.used[container.times > container.times[-1] - seconds]
    return recent if np.isfinite(recent).any() else container.used
