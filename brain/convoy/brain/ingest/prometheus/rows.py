"""Samples to rows: what was measured of whom, and when. What can't be stored is counted. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias, TypedDict

from convoy.brain.ingest.prometheus.queries import COLUMNS, NodeQuery, PodQuery
from convoy.brain.ingest.prometheus.subjects import Labels, NodeNames, Pod, node_label, pod_of

Row: TypeAlias = dict[str, Any]
_WHOLE = frozenset({"memory_bytes", "accelerator_memory"})
_MOST = 1e15

NOT_A_NUMBER = "NaN"
INFINITE = "infinite"
NEGATIVE = "negative"
TOO_LARGE = "above 1e15"
UNNAMED = "without a usable name"
DOUBLED = "of a second series of the same machine or pod"


class Series(TypedDict):
    """One of a range query's answer: its labels, and (moment, number as text) pairs."""

    metric: Labels
    values: Sequence[tuple[float, str]]


@dataclass(slots=True)
class Loads:
    """What was measured in a span: by machine or pod, and moment.

    Attributes:
        nodes, pods: the measures, by column.
        dropped: samples that weren't taken, by measure and reason.
    """

    nodes: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)
    pods: dict[tuple[Pod, int], dict[str, float]] = field(default_factory=dict)
    dropped: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add_nodes(self, column: str, query: NodeQuery, answer: Iterable[Series], names: NodeNames) -> None:
        """Take in the answer to a query about machines."""
        measure = f"node.{column}"
        for series in answer:
            label = node_label(series["metric"], query)
            if label is None:
                self.dropped[measure, UNNAMED] += len(series["values"])
                continue
            for moment, value in self._usable(measure, series):
                key = (names.of(label, moment, cut_port=query.cut_port), moment)
                self._put(measure, self.nodes.setdefault(key, {}), column, value)

    def add_pods(self, column: str, query: PodQuery, answer: Iterable[Series]) -> None:
        """Take in the answer to a query about pods."""
        measure = f"pod.{column}"
        for series in answer:
            pod = pod_of(series["metric"], query)
            if pod is None:
                if not query.optional:  # an accelerator that no pod uses is none's
                    self.dropped[measure, UNNAMED] += len(series["values"])
                continue
            for moment, value in self._usable(measure, series):
                self._put(measure, self.pods.setdefault((pod, moment), {}), column, value)

    def _usable(self, measure: str, series: Series) -> Iterator[tuple[int, float]]:
        for moment, text in series["values"]:
            value = float(text)
            fault = _fault(value)
            if fault is None:
                yield round(moment), value
            else:
                self.dropped[measure, fault] += 1

    def _put(self, measure: str, at: dict[str, float], column: str, value: float) -> None:
        if column in at:  # one machine scraped by two jobs, say: the sum would be too much
            self.dropped[measure, DOUBLED] += 1
            value = max(value, at[column])
        at[column] = value


def names_of(answer: Iterable[Series], address: str, name: str) -> NodeNames:
    """Return what machines are called, from series with a label for the address and one for the name."""
    names = NodeNames()
    for series in answer:
        labels = series["metric"]
        if labels.get(address) and labels.get(name):
            for moment, _ in series["values"]:
                names.learn(labels[address], round(moment), labels[name])
    return names


def measures(known: Mapping[str, float]) -> Row:
    """Return the columns of a row for what is known; the others are None."""
    return {column: _stored(column, known.get(column)) for column in COLUMNS}


def ended_at(moment: int) -> datetime:
    """Return a moment of the grid as a row has it."""
    return datetime.fromtimestamp(moment, UTC)


def _stored(column: str, value: float | None) -> float | int | None:
    return round(value) if value is not None and column in _WHOLE else value


def _fault(value: float) -> str | None:
    if math.isnan(value):
        return NOT_A_NUMBER
    if math.isinf(value):
        return INFINITE
    if value < 0:
        return NEGATIVE
    return TOO_LARGE if value > _MOST else None
