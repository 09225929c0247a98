"""What similar jobs had: the template's median, else the image's, the user's, the strategy's, everything's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convoy.brain.models.startup.table import ALLREDUCE, LABELS, OF_SERVERS, SERVERS, TARGETS, Array, Jobs, only

REASONS = {
    "template": "TemplateMedian",
    "image": "ImageMedian",
    "user": "UserMedian",
    "strategy": "StrategyMedian",
    "everything": "OverallMedian",
}


@dataclass(frozen=True)
class Medians:
    """Medians over the jobs of a history."""

    history: Jobs

    def strategy_of(self, jobs: Jobs) -> NDArray[np.object_]:
        """Return each job's strategy: its own, else the commonest of its template, image, user; "" if none knows."""
        answer = jobs.labels["strategy"].copy()
        known = self.history.labels["strategy"]
        for row in np.flatnonzero(answer == ""):
            for scope in LABELS[:3]:
                label = jobs.labels[scope][row]
                found = known[(self.history.labels[scope] == label) & (known != "")] if label else known[:0]
                if len(found):
                    names, counts = np.unique(found.astype(str), return_counts=True)
                    answer[row] = str(names[np.argmax(counts)])
                    break
        return answer

    def recommend(
        self, jobs: Jobs, strategy: NDArray[np.object_]
    ) -> tuple[dict[str, Array], dict[str, NDArray[np.object_]]]:
        """Return each target's median over the first scope that knows it, NaN if none does; and that scope.

        Of all-reduce's servers there are 0, by no scope. Only jobs of the asked strategy count, where one is asked.
        """
        numbers = {name: np.full(len(jobs), np.nan) for name in TARGETS}
        scopes = {name: np.full(len(jobs), "", dtype=object) for name in TARGETS}
        known: dict[tuple[str, str, str, str], float] = {}
        allowed = only(TARGETS, self.history.labels["strategy"])
        for row in range(len(jobs)):
            for name in TARGETS:
                if name in OF_SERVERS and strategy[row] == ALLREDUCE:
                    numbers[name][row] = 0.0
                    continue
                for scope, label in self._labels(jobs, row, str(strategy[row])):
                    key = (name, scope, label, str(strategy[row]))
                    if key not in known:
                        known[key] = self._median(name, scope, label, str(strategy[row]), allowed[name])
                    if np.isfinite(known[key]):
                        numbers[name][row], scopes[name][row] = known[key], scope
                        break
        return numbers, scopes

    @staticmethod
    def _labels(jobs: Jobs, row: int, strategy: str) -> list[tuple[str, str]]:
        """Return the scopes that a job is in, the closest first, with its label in each."""
        own = [(scope, str(jobs.labels[scope][row])) for scope in LABELS[:3]]
        given = [(scope, label) for scope, label in [*own, ("strategy", strategy)] if label]
        return [*given, ("everything", "")]

    def _median(self, name: str, scope: str, label: str, strategy: str, allowed: NDArray[np.bool_]) -> float:
        history = self.history
        rows = allowed & np.isfinite(history.targets[name])
        if scope in LABELS:
            rows &= history.labels[scope] == label
        if strategy in (ALLREDUCE, SERVERS):
            rows &= history.labels["strategy"] == strategy
        values = history.targets[name][rows]
        return float(np.exp(np.median(np.log(values)))) if len(values) else np.nan
