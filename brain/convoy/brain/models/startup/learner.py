"""Sizes from labels and features: ridge regression of a target's logarithm on them (Hoerl and Kennard, 1970).

Labels are columns of zeros and ones, so that a template with few jobs is drawn toward what its image, its user and
its features say; numbers count by their logarithm, since sizes go by powers. A ``rich`` learner also has squares and
products of numbers, and slopes of each template's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import RidgeCV

from convoy.brain.models.startup.table import LABELS, Array, Jobs

PENALTIES = np.logspace(-1.5, 3, 10)
LEAST_SEEN = 2
"""Jobs that share a label, for it to have a column of its own."""
LEAST_JOBS = 3
MOST_VALUES = 100
"""Columns of one label: the commonest."""
MOST_NUMBERS = 6
"""Numbers that have products and slopes of their own: those known of most jobs."""
MOST_SLOPES = 20
LEAST_FOR_SLOPES = 5
REACH = 1.0
"""How far beyond the numbers seen (in their standard deviations) a number counts in full."""


@dataclass(frozen=True)
class _Number:
    """How a number becomes a column: its logarithm (or asinh, where some aren't positive), scaled and bounded."""

    name: str
    logarithm: bool
    mean: float
    scale: float
    least: float
    most: float

    @classmethod
    def of(cls, name: str, values: Array) -> _Number | None:
        """Return it, None if the values (those that are known) say nothing."""
        known = values[np.isfinite(values)]
        if len(known) < LEAST_SEEN:
            return None
        logarithm = bool((known > 0).all())
        moved = np.log(known) if logarithm else np.arcsinh(known)
        scale = float(moved.std())
        if scale < 1e-9:
            return None
        scaled = (moved - moved.mean()) / scale
        return cls(name, logarithm, float(moved.mean()), scale, float(scaled.min()), float(scaled.max()))

    def column(self, jobs: Jobs) -> Array:
        """Return the column (n,); NaN where not known."""
        values = jobs.numbers.get(self.name, np.full(len(jobs), np.nan))
        with np.errstate(invalid="ignore", divide="ignore"):
            moved = np.where(values > 0, np.log(values), np.nan) if self.logarithm else np.arcsinh(values)
        scaled = (moved - self.mean) / self.scale
        bounded: Array = np.clip(scaled, self.least - REACH, self.most + REACH)
        return bounded


@dataclass(frozen=True)
class Design:
    """Which columns there are, in their order."""

    numbers: tuple[_Number, ...]
    words: tuple[tuple[str, str], ...]
    """(label or feature, value) of each column of zeros and ones."""
    products: int
    """Of the first so many numbers, squares and products are columns."""
    slopes: tuple[str, ...]
    """Templates with slopes of their own on those numbers."""

    @classmethod
    def of(cls, jobs: Jobs, rich: bool) -> Design:
        """Return the design that a history allows."""
        order = sorted(jobs.numbers, key=lambda name: (-int(np.isfinite(jobs.numbers[name]).sum()), name))
        numbers = [number for name in order if (number := _Number.of(name, jobs.numbers[name])) is not None]
        words: list[tuple[str, str]] = []
        for name, values in sorted({**jobs.labels, **jobs.words}.items()):
            words += [(name, value) for value in _common(values, LEAST_SEEN, MOST_VALUES)]
        slopes = _common(jobs.labels[LABELS[0]], LEAST_FOR_SLOPES, MOST_SLOPES) if rich else []
        return cls(tuple(numbers), tuple(words), min(len(numbers), MOST_NUMBERS) if rich else 0, tuple(slopes))

    def matrix(self, jobs: Jobs) -> Array:
        """Return the columns (n, columns)."""
        numbers = [number.column(jobs) for number in self.numbers]
        columns = [np.isnan(column).astype(np.float64) for column in numbers]
        numbers = [np.where(np.isnan(column), 0.0, column) for column in numbers]
        texts = {**jobs.labels, **jobs.words}
        nothing = np.full(len(jobs), "", dtype=object)
        columns += numbers
        columns += [(texts.get(name, nothing) == value).astype(np.float64) for name, value in self.words]
        chosen = numbers[: self.products]
        columns += [first * second for first, second in combinations_with_replacement(chosen, 2)]
        for template in self.slopes:
            own = (jobs.labels[LABELS[0]] == template).astype(np.float64)
            columns += [own * column for column in chosen]
        return np.column_stack(columns) if columns else np.empty((len(jobs), 0))

    def document(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        numbers = [[each.name, each.logarithm, each.mean, each.scale, each.least, each.most] for each in self.numbers]
        return {
            "numbers": numbers,
            "words": [list(each) for each in self.words],
            "products": self.products,
            "slopes": list(self.slopes),
        }

    @classmethod
    def restored(cls, document: dict[str, Any]) -> Design:
        """Return the design of a document."""
        return cls(
            tuple(_Number(*each) for each in document["numbers"]),
            tuple((str(name), str(value)) for name, value in document["words"]),
            int(document["products"]),
            tuple(document["slopes"]),
        )


@dataclass(frozen=True)
class Ridge:
    """A fitted learner of one target."""

    design: Design
    weights: Array
    """Of the design's columns."""
    constant: float
    bounds: tuple[float, float]
    """The least and the most that was seen: no answer is far beyond."""

    @classmethod
    def fit(cls, jobs: Jobs, targets: dict[str, Array], rich: bool) -> dict[str, Ridge]:
        """Return the learners of targets, each known of all jobs; none where nothing tells the jobs apart.

        Each has the penalty under which jobs, left out one by one, were foretold best.
        """
        design = Design.of(jobs, rich)
        matrix = design.matrix(jobs)
        if not matrix.shape[1] or len(jobs) < LEAST_JOBS or not targets:
            return {}
        logs = np.column_stack([np.log(values) for values in targets.values()])
        fitted = RidgeCV(alphas=PENALTIES, alpha_per_target=True).fit(matrix, logs)
        weights, constants = np.atleast_2d(fitted.coef_), np.atleast_1d(fitted.intercept_)
        least, most = logs.min(axis=0).tolist(), logs.max(axis=0).tolist()
        return {
            name: cls(design, weights[place], float(constants[place]), (least[place], most[place]))
            for place, name in enumerate(targets)
        }

    def predict(self, jobs: Jobs) -> Array:
        """Return the target (n,), at most twice as far out as what was seen."""
        logs = self.design.matrix(jobs) @ self.weights + self.constant
        predicted: Array = np.exp(np.clip(logs, self.bounds[0] - np.log(2.0), self.bounds[1] + np.log(2.0)))
        return predicted


def _common(values: NDArray[np.object_], least: int, most: int) -> list[str]:
    """Return the values that at least so many jobs share, the commonest first, at most so many."""
    names, counts = np.unique(values[values != ""].astype(str), return_counts=True)
    order = np.lexsort((names, -counts))
    return [str(names[place]) for place in order if counts[place] >= least][:most]
