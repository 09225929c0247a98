"""All queries over one span: what was measured, and what kept a measure from being so."""

from __future__ import annotations

from convoy.brain.ingest.prometheus.client import Prometheus, QueryMalformed, QueryRefused, TooMuch
from convoy.brain.ingest.prometheus.findings import Seen
from convoy.brain.ingest.prometheus.grid import Span
from convoy.brain.ingest.prometheus.queries import NodeQuery, PodQuery, Queries, Query
from convoy.brain.ingest.prometheus.rows import UNNAMED, Loads, Series, names_of
from convoy.brain.ingest.prometheus.subjects import NodeNames
from convoy.core.api.errors import InvalidSetting

NODE_NAMES = "node_names"


class Round:
    """The queries of one span.

    Attributes:
        loads: what was measured.
        longest: how many series the longest answer had.
    """

    def __init__(
        self, prometheus: Prometheus, queries: Queries, span: Span, *, refuse_malformed_of: str = ""
    ) -> None:
        """Make a round.

        Args:
            prometheus: that is asked.
            queries: that it is asked.
            span: that is asked for.
            refuse_malformed_of: the file that is named where a query isn't PromQL; empty: that measure is left out.
        """
        self.loads = Loads()
        self.longest = 0
        self._prometheus = prometheus
        self._queries = queries
        self._span = span
        self._file = refuse_malformed_of
        self._empty: dict[str, Query] = {}
        self._refused: dict[str, str] = {}
        self._unnamed: dict[str, str] = {}

    def ask(self) -> None:
        """Ask each query. A measure that can't be had is left out, the others aren't.

        Raises:
            TooMuch: ask for a shorter span. (One of a single moment never is.)
            Unavailable: Prometheus is away.
            Unusable: it refuses us.
            InvalidSetting: a query isn't PromQL, and the round was to refuse that.
        """
        names = self._node_names()
        for measure, query in self._queries.measures():
            answer = self._answer(measure, query)
            column = measure.partition(".")[2]
            if isinstance(query, NodeQuery):
                self.loads.add_nodes(column, query, answer, names)
            else:
                self.loads.add_pods(column, query, answer)
            samples = sum(len(series["values"]) for series in answer)
            if samples and self.loads.dropped[measure, UNNAMED] == samples:
                self._unnamed[measure] = _labels(query)

    def seen(self) -> Seen:
        """Return what to judge by; where queries gave nothing Prometheus is asked for their metrics.

        Raises:
            Unavailable, Unusable: as for ``ask``.
        """
        needed = {metric for query in self._empty.values() for metric in query.metrics}
        present = self._present(needed, self._span.last)
        settled = self._present(present, self._span.last - 2 * self._window)
        return Seen(self._empty, frozenset(present), frozenset(settled), self._refused, self._unnamed)

    @property
    def _window(self) -> int:
        return self._queries.window(self._span.step)

    def _present(self, metrics: set[str], moment: int) -> set[str]:
        return self._prometheus.present(metrics, moment, self._window) if metrics else set()

    def _node_names(self) -> NodeNames:
        query = self._queries.node_names
        return names_of(self._answer(NODE_NAMES, query), query.address, query.name) if query else NodeNames()

    def _answer(self, measure: str, query: Query) -> list[Series]:
        try:
            answer = self._prometheus.range(self._queries.promql(query, self._span.step), self._span)
        except TooMuch as error:
            if len(self._span) > 1:
                raise
            self._refused[measure] = str(error)
            return []
        except QueryRefused as error:
            if self._file and isinstance(error, QueryMalformed):
                raise InvalidSetting(
                    f"queries file {self._file}: {measure}.query isn't PromQL ({error}); correct it there"
                ) from None
            self._refused[measure] = str(error)
            return []
        if not answer:
            self._empty[measure] = query
        self.longest = max(self.longest, len(answer))
        return answer


def _labels(query: NodeQuery | PodQuery) -> str:
    if isinstance(query, NodeQuery):
        return " or ".join(query.node)
    return f"{' or '.join(query.namespace)}, and {' or '.join(query.pod)}"
