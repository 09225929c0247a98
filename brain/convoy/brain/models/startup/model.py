"""Resources for a job that never ran: what turned out right for jobs like it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.models.startup.choice import judged, learned
from convoy.brain.models.startup.learner import Design, Ridge
from convoy.brain.models.startup.medians import REASONS, Medians
from convoy.brain.models.startup.table import (
    ALLREDUCE,
    LABELS,
    OF_SERVERS,
    TARGETS,
    Array,
    Jobs,
    answered,
    jobs_of,
    latest_rows,
)
from convoy.brain.models.state import State
from convoy.core.api.errors import CorruptState

MOST_JOBS = 2000
"""Of a longer history the jobs that were completed last are read."""
KNOWN, NEW = "known", "new"
"""Whether a job's template was seen: learners are chosen for each apart."""


class StartupModel:
    """Workers, servers, CPU and memory for a job never seen, from its template, image, user, strategy and features.

    For each of the six a learner (``learner``) stands in only where it beat, on history jobs that neither had seen,
    the median of the job's template, or where that isn't known of its image, its user, its strategy, of all jobs
    (``choice``, ``medians``). No number is drawn at random, and the order of jobs doesn't matter.

    Frames have one row a job: ``job``, ``template``, ``image``, ``user``, ``strategy`` ("ps" or "allreduce"), each
    may be absent or empty. Any other column is a feature, a number or text, except ``completed_at``, ``state``,
    ``status``, ``reason``, columns that end in ``_used``, and times: they tell of what only a finished job knows.
    """

    def __init__(self) -> None:
        self.medians_ = Medians(jobs_of(pd.DataFrame(), targets=True))
        self.learners_: dict[tuple[str, str], Ridge] = {}

    def fit(self, jobs: pd.DataFrame) -> Self:
        """Learn from jobs that are over; an empty frame leaves nothing known.

        Args:
            jobs: also with ``workers``, ``ps``, ``worker_cpu``, ``ps_cpu`` (cores), ``worker_memory``, ``ps_memory``
                (bytes) that turned out right, NaN or 0 where that isn't known or there is no such thing. Of several
                rows of one job the last one counts (by ``completed_at`` where given).

        Raises:
            InvalidInput: one of these isn't a number, is negative or infinite.
        """
        rows = latest_rows(jobs)
        if len(rows) > MOST_JOBS and "completed_at" in rows.columns:
            rows = rows.sort_values("completed_at", kind="stable", na_position="first")
        history = jobs_of(rows.iloc[-MOST_JOBS:], targets=True)
        self.medians_ = Medians(history)
        self.learners_ = {}
        templates = history.labels["template"]
        alone = np.array([f"{name}\n{row}" for row, name in enumerate(history.names)], dtype=object)
        for case, groups in ((KNOWN, history.names), (NEW, np.where(templates == "", alone, templates))):
            for target, learner in judged(history, groups).items():
                for each in learned(history, [target], learner).values():
                    self.learners_[case, target] = each
        return self

    @classmethod
    def of_medians(cls, jobs: pd.DataFrame) -> Self:
        """Return a model that knows the medians of past jobs alone: done at once, where ``fit`` takes seconds.

        Args:
            jobs: as ``fit``'s.

        Raises:
            InvalidInput: as ``fit``.
        """
        model = cls()
        model.medians_ = Medians(jobs_of(latest_rows(jobs).iloc[-MOST_JOBS:], targets=True))
        return model

    def recommend(self, jobs: pd.DataFrame) -> pd.DataFrame:
        """Return what each job should start with.

        Returns:
            A frame with the index of ``jobs`` and columns ``workers``, ``ps`` (whole numbers), ``worker_cpu``,
            ``worker_memory``, ``ps_cpu``, ``ps_memory`` (cores, bytes; NaN where no history tells; of all-reduce's
            servers 0, ``ps`` too) and ``reason``: ``Learned`` (at least one of them is a learner's;
            ``sources`` says which), else the closest scope that told one: ``TemplateMedian``, ``ImageMedian``,
            ``UserMedian``, ``StrategyMedian``, ``OverallMedian``; ``NothingKnown``, with NaN in all numbers that
            aren't 0 by the strategy.
        """
        asked = jobs_of(jobs, targets=False)
        numbers, sources = self._answers(asked)
        frame = pd.DataFrame({name: numbers[name] for name in TARGETS}, index=jobs.index)
        frame["reason"] = pd.Series(_reasons(sources, len(asked)), index=jobs.index, dtype=object)
        return frame

    def sources(self, jobs: pd.DataFrame) -> pd.DataFrame:
        """Return where each of the six numbers of each job comes from, as ``recommend``'s reasons say.

        Empty where nothing is known, and for a 0 that follows from the strategy.
        """
        _, sources = self._answers(jobs_of(jobs, targets=False))
        return pd.DataFrame({name: pd.Series(sources[name], dtype=object) for name in TARGETS}).set_axis(jobs.index)

    def _answers(self, asked: Jobs) -> tuple[dict[str, Array], dict[str, NDArray[np.object_]]]:
        history = self.medians_.history
        strategy = self.medians_.strategy_of(asked)
        numbers, scopes = self.medians_.recommend(asked, strategy)
        sources = {name: np.array([REASONS.get(each, "") for each in scopes[name]], object) for name in TARGETS}
        seen = np.isin(asked.labels["template"].astype(str), list(set(history.labels["template"]) - {""}))
        for (case, name), learner in self.learners_.items():
            rows = np.isfinite(numbers[name]) & (seen if case == KNOWN else ~seen)
            rows &= (strategy != ALLREDUCE) if name in OF_SERVERS else True
            if rows.any():
                numbers[name][rows] = learner.predict(asked.take(rows))
                sources[name][rows] = "Learned"
        return {name: answered(name, numbers[name]) for name in TARGETS}, sources

    def state(self) -> State:
        """Return what was learned."""
        history = self.medians_.history
        document: dict[str, Any] = {
            "kind": type(self).__name__,
            "names": history.names.tolist(),
            "labels": {name: values.tolist() for name, values in history.labels.items()},
            "learners": [
                {"case": case, "target": target, "design": ridge.design.document(), "constant": ridge.constant}
                for (case, target), ridge in self.learners_.items()
            ],
        }
        tensors: dict[str, NDArray[np.generic]] = {f"targets.{name}": history.targets[name] for name in TARGETS}
        for number, ridge in enumerate(self.learners_.values()):
            tensors[f"learner.{number}.weights"] = ridge.weights
            tensors[f"learner.{number}.bounds"] = np.array(ridge.bounds)
        return State(document, tensors)

    @classmethod
    def restored(cls, state: State) -> Self:
        """Return the model that ``state`` came from.

        Raises:
            CorruptState: it isn't the state of such a model.
        """
        model = cls()
        try:
            document = state.document
            if document["kind"] != cls.__name__:
                raise ValueError(f"its kind is {document['kind']!r}, not {cls.__name__!r}")
            labels = {name: _texts(document["labels"][name]) for name in LABELS}
            targets = {name: state.tensors[f"targets.{name}"].astype(np.float64) for name in TARGETS}
            sizes = {len(values) for values in (*labels.values(), *targets.values(), document["names"])}
            if len(sizes) != 1:
                raise ValueError(f"columns of {sorted(sizes)} jobs")
            model.medians_ = Medians(Jobs(_texts(document["names"]), labels, {}, {}, targets))
            for number, described in enumerate(document["learners"]):
                lower, upper = state.tensors[f"learner.{number}.bounds"].astype(np.float64)
                model.learners_[described["case"], described["target"]] = Ridge(
                    Design.restored(described["design"]),
                    state.tensors[f"learner.{number}.weights"].astype(np.float64),
                    float(described["constant"]),
                    (float(lower), float(upper)),
                )
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptState(f"this is no state of a start-up model ({error}): fit it again") from error
        return model


def _texts(values: Iterable[Any]) -> NDArray[np.object_]:
    return np.array([str(each) for each in values], dtype=object)


def _reasons(sources: dict[str, NDArray[np.object_]], size: int) -> list[str]:
    """Return one reason a job, from those of its numbers; a 0 that follows from the strategy has none."""
    order = ["Learned", *REASONS.values()]
    reasons = []
    for row in range(size):
        told = {str(sources[name][row]) for name in TARGETS}
        reasons.append(next((reason for reason in order if reason in told), "NothingKnown"))
    return reasons
