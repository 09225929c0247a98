"""Limits from a container's own past: what is learned of a horizon, and how far above the past a limit has to lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from convoy.brain.models.memory.calibration import Calibration
from convoy.brain.models.memory.tail import Tail
from convoy.brain.models.memory.usage import Array
from convoy.brain.models.memory.windows import KILL_EXCESS, Examples, Past, Slots, examples_of

FOLDS = 10
"""Parts of the containers, by turns judged by what the others teach: many, so that what judges a part has learned
from nearly as many containers as what answers. (From fewer it is further off, and margins come out too wide.)"""
MOST_EXAMPLES = 60
"""Of one container."""
TAIL_SCALE, RATIO_SCALE = 2.0, 0.25
"""Of the prior: in units of the tail's own scale; as a logarithm of (next / largest so far)."""
GUARD = 0.005
"""A window counts as exceeded from this far below the limit (a logarithm): where many containers' use is all but
constant, a limit within the rounding of what they use would be exceeded by all of them or by none."""
MOST_GROWTH = float(np.log(64.0))
"""A limit is never more than this above the most used."""


@dataclass(frozen=True)
class Head:
    """Where the next use lies beside the past (``tail``; None: at the largest so far), and how sure that is."""

    tail: Tail | None
    calibration: Calibration

    @classmethod
    def learned(cls, examples: Examples, seed: int, plain: bool) -> Self:
        """Learn from past horizons, the scores of each container from a tail that it didn't teach.

        Args:
            examples: of all containers.
            seed: of the folds and the trees.
            plain: no tail, but the ratio to the largest so far alone.
        """
        tail = None if plain else Tail.fitted(examples, seed)
        if tail is None:
            scores = examples.needed + GUARD - examples.largest
            return cls(None, Calibration.of(scores, examples.container, examples.killed, RATIO_SCALE))
        scores, known = np.full(len(examples), np.nan), np.zeros(len(examples), dtype=np.bool_)
        for inside in _folds(examples.container, seed):
            others = Tail.fitted(examples.take(~inside), seed)
            if others is not None:
                location, scale = others.at(examples.features[inside])
                scores[inside] = (examples.needed + GUARD - examples.anchor)[inside] - location
                scores[inside] /= scale
                known |= inside
        if not known.any():
            return cls.learned(examples, seed, plain=True)
        return cls(tail, Calibration.of(scores[known], examples.container[known], examples.killed[known], TAIL_SCALE))

    def limits(self, pasts: Sequence[Past], rate: float) -> Array:
        """Return logarithms of the limits that are exceeded at ``rate`` (n,)."""
        largest = np.array([past.largest for past in pasts])
        if self.tail is None:
            location, scale = largest, np.ones(len(pasts))
        else:
            location, scale = self.tail.at(np.array([past.features for past in pasts]))
            location = location + np.array([past.anchor for past in pasts])
        found = location + scale * self.calibration.score(rate)
        for row, past in enumerate(pasts):
            if past.killed:
                # it is known to want more than its limit: the rate is that among containers that do
                share = self.calibration.rate(float((past.largest - location[row]) / scale[row]))
                wanted = location[row] + scale[row] * self.calibration.score(rate * share)
                found[row] = max(wanted, past.largest + KILL_EXCESS)
        return np.asarray(np.minimum(found, largest + MOST_GROWTH))


@dataclass(frozen=True)
class Heads:
    """What was learned of one horizon: of containers older than it, and of younger ones."""

    grown: Head
    young: Head

    @classmethod
    def learned(cls, slots: Sequence[Slots], seed: int) -> Self:
        """Learn from the containers of a history."""
        grown = Head.learned(examples_of(slots, MOST_EXAMPLES, young=False), seed, plain=False)
        return cls(grown, Head.learned(examples_of(slots, MOST_EXAMPLES, young=True), seed, plain=True))

    def of(self, past: Past) -> Head:
        """Return the head that answers for a past."""
        return self.grown if past.age >= 1.0 else self.young

    def written(self, prefix: str) -> tuple[dict[str, Any], dict[str, NDArray[np.generic]]]:
        """Return it as JSON and tensors whose names begin with ``prefix``."""
        document: dict[str, Any] = {}
        tensors: dict[str, NDArray[np.generic]] = {}
        for name, head in (("grown", self.grown), ("young", self.young)):
            calibration, at = head.calibration, f"{prefix}.{name}"
            document[name] = {
                "containers": calibration.containers,
                "prior_scale": calibration.prior_scale,
                "tail": head.tail is not None,
            }
            tensors[f"{at}.scores"] = calibration.scores
            tensors[f"{at}.killed"] = calibration.killed.astype(np.uint8)
            tensors.update({} if head.tail is None else head.tail.tensors(at))
        return document, tensors

    @classmethod
    def read(cls, document: dict[str, Any], tensors: dict[str, NDArray[np.generic]], prefix: str) -> Self:
        """Return what ``written`` gave."""
        heads = []
        for name in ("grown", "young"):
            said, at = document[name], f"{prefix}.{name}"
            calibration = Calibration(
                np.asarray(tensors[f"{at}.scores"], dtype=np.float64),
                np.asarray(tensors[f"{at}.killed"]).astype(np.bool_),
                int(said["containers"]),
                float(said["prior_scale"]),
            )
            heads.append(Head(Tail.restored(tensors, at) if said["tail"] else None, calibration))
        return cls(*heads)


def _folds(container: Array, seed: int) -> list[NDArray[np.bool_]]:
    """Return for each fold which rows are in it; the rows of one container are in one."""
    names = np.unique(container)
    shuffled = np.random.default_rng(seed).permutation(names)
    return [np.isin(container, part) for part in np.array_split(shuffled, FOLDS) if len(part)]
