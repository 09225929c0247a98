"""Memory limits that meet a rate of out-of-memory kills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd

from convoy.brain.models.memory import kept
from convoy.brain.models.memory.answers import answered, checked_node, checked_rate
from convoy.brain.models.memory.limits import Heads
from convoy.brain.models.memory.siblings import Answer, Siblings, need_of
from convoy.brain.models.memory.usage import Container, containers_of, seconds_of, thinned
from convoy.brain.models.memory.windows import Past, past_of, slots_of
from convoy.brain.models.state import State
from convoy.core.api.errors import CorruptState

MOST_READINGS = 4096
"""Of one container that are kept."""
MOST_KEPT = 4_000_000
"""Readings of all containers that are kept."""
MOST_CONTAINERS = 2000
"""That are learned from; of more, as many spread evenly over their names."""
KEPT_HORIZONS = 8
CLOSE_LEVELS = 2
"""Others of the same rank or template have a say on a container with little history."""
WORDS = {
    "SameRank": "of the same template, role and rank",
    "SameTemplate": "of the same template and role",
    "SameRole": "of the same role",
    "AnyContainer": "of any kind",
}


class MemoryModel:
    """Limits under which containers exceed at an asked rate, learned from the peaks of past containers.

    Frames have one row a reading: ``container``, ``time`` (moments or seconds), ``used_bytes`` (the most in the row's
    time) and, where known, ``template``, ``role``, ``rank``, ``limit_bytes``, ``oom`` (killed at its limit: at least
    that was wanted, so the reading is censored).

    What is promised: over containers like those of the history, a limit is exceeded within the horizon in a
    share ``oom_rate`` of all horizons. It isn't promised for each container by itself, nor after
    a change that no past shows. Fewer than 1 / oom_rate - 1 containers can't promise the rate: the margin then leans
    on a prior, on the wide side, and the reason says ``FewContainers``.

    Args:
        horizons: spans learned by ``fit``; others are learned when first asked for, from the readings kept.
        seed: of folds and trees.
    """

    def __init__(self, horizons: Sequence[str] = ("1d",), seed: int = 0) -> None:
        self.horizons = tuple(horizons)
        self.seed = seed
        self.containers_: list[Container] = []
        self._heads: dict[float, Heads] = {}

    def fit(self, usage: pd.DataFrame) -> Self:
        """Learn from the use of past containers; an empty frame leaves the prior.

        Raises:
            InvalidInput: a column is missing or can't be read, or a horizon of the model's isn't a span.
        """
        horizons = [seconds_of(horizon) for horizon in self.horizons]
        found = [one for one in containers_of(usage) if one.has_history]
        if len(found) > MOST_CONTAINERS:
            found = [found[place] for place in np.linspace(0, len(found) - 1, MOST_CONTAINERS).astype(int)]
        most = min(MOST_READINGS, max(MOST_KEPT // max(len(found), 1), 1))
        self.containers_ = thinned(found, most)
        self._heads = {horizon: self._learned(horizon) for horizon in horizons}
        return self

    def recommend(
        self,
        usage: pd.DataFrame,
        oom_rate: float = 0.01,
        horizon: str | float | pd.Timedelta = "1d",
        node_bytes: float | None = None,
    ) -> pd.DataFrame:
        """Return a limit for each container of ``usage``, for the horizon after its last reading.

        Args:
            usage: what the containers used so far. A row without use names a container that hasn't run; it is
                answered from others of its rank, template or role, in ``usage`` and in the history.
            oom_rate: probability that the use exceeds the limit within the horizon.
            horizon: how long the limit is to hold.
            node_bytes: what a node has; no limit exceeds it.

        Returns:
            ``container``, ``limit_bytes``, ``reason``: one row a container, by name. The limit is NaN only where
            nothing is known (``NothingKnown``). Reasons begin with ``OwnHistory``, ``ShortHistory`` (less than one
            horizon), ``SameRank``, ``SameTemplate``, ``SameRole`` or ``AnyContainer``; ``FewContainers``, ``Killed``
            and ``CappedByNode`` may follow.

        Raises:
            InvalidInput: a column is missing or can't be read, or an argument can't be right.
        """
        rate, node, seconds = checked_rate(oom_rate), checked_node(node_bytes), seconds_of(horizon)
        asked = containers_of(usage)
        if not asked:
            return answered([], [], [], node)
        heads = self._of(seconds)
        siblings = self._siblings(asked)
        pasts = [past_of(slots, len(slots)) for slots in (slots_of(one, seconds) for one in asked)]
        own = _own_limits(heads, pasts, rate)
        limits, reasons = [], []
        for container, past, limit in zip(asked, pasts, own, strict=True):
            if past is None:
                other = siblings.answer(container.labels, rate)
                limits.append(np.nan if other is None else other.limit)
                reasons.append(
                    "NothingKnown: neither it nor others were ever seen" if other is None else _told(other)
                )
                continue
            reason = _told_of(past, heads, rate)
            other = siblings.answer(container.labels, rate, CLOSE_LEVELS) if past.age < 1.0 else None
            if other is not None and other.limit > limit:
                limit, reason = other.limit, f"ShortHistory: others need more; {_told(other)}"
            limits.append(limit)
            reasons.append(reason)
        return answered([one.name for one in asked], limits, reasons, node)

    def state(self) -> State:
        """Return what was learned, as JSON and tensors."""
        said, tensors = kept.written(self.containers_)
        document: dict[str, Any] = {
            "seed": self.seed,
            "horizons": list(self.horizons),
            "containers": said,
            "heads": [],
        }
        for number, (horizon, heads) in enumerate(self._heads.items()):
            learned, arrays = heads.written(f"heads.{number}")
            document["heads"].append({"seconds": horizon, **learned})
            tensors.update(arrays)
        return State(document, tensors)

    @classmethod
    def restored(cls, state: State) -> Self:
        """Return the model whose ``state`` it was.

        Raises:
            CorruptState: it isn't the state of such a model.
        """
        try:
            document, tensors = state.document, state.tensors
            model = cls(tuple(document["horizons"]), int(document["seed"]))
            model.containers_ = kept.read(document["containers"], tensors)
            for number, said in enumerate(document["heads"]):
                model._heads[float(said["seconds"])] = Heads.read(said, tensors, f"heads.{number}")
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise CorruptState(
                f"state of a memory model: {type(error).__name__}: {error}; fit the model anew"
            ) from error
        return model

    def _of(self, seconds: float) -> Heads:
        if seconds not in self._heads:
            while len(self._heads) >= KEPT_HORIZONS:
                del self._heads[next(iter(self._heads))]
            self._heads[seconds] = self._learned(seconds)
        return self._heads[seconds]

    def _learned(self, seconds: float) -> Heads:
        return Heads.learned([slots_of(one, seconds) for one in self.containers_], self.seed)

    def _siblings(self, asked: Sequence[Container]) -> Siblings:
        known = {one.name: one for one in self.containers_} | {one.name: one for one in asked if one.has_history}
        needs = [(one.labels, need_of(one)) for one in known.values()]
        return Siblings.of((labels, need) for labels, need in needs if need is not None)


def _own_limits(heads: Heads, pasts: Sequence[Past | None], rate: float) -> list[float]:
    found = [np.nan] * len(pasts)
    for head in (heads.grown, heads.young):
        rows = [row for row, past in enumerate(pasts) if past is not None and heads.of(past) is head]
        if rows:
            limits = head.limits([past for past in (pasts[row] for row in rows) if past is not None], rate)
            for row, limit in zip(rows, limits, strict=True):
                found[row] = float(limit)
    return found


def _told_of(past: Past, heads: Heads, rate: float) -> str:
    calibration = heads.of(past).calibration
    kind = "OwnHistory" if past.age >= 1.0 else "ShortHistory"
    said = f"{kind}: {past.age:.3g} horizons of its own, margin from {calibration.containers} containers"
    if past.killed:
        said += "; Killed: it wanted more than its limit"
    return said if calibration.promises(rate) else f"{said}; {_few(calibration.containers, rate)}"


def _told(other: Answer) -> str:
    said = f"{other.level}: no history of its own, from {other.others} containers {WORDS[other.level]}"
    return said if other.promised else f"{said}; FewContainers: too few to promise the rate, the margin is a guess"


def _few(containers: int, rate: float) -> str:
    return f"FewContainers: {containers} can't promise a rate of {rate:g}, the margin leans on a prior"
