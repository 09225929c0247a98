"""A span of time out of Prometheus into the store, in chunks that bound what is asked for and held at once.

The chunks go from early to late, and what is stored is whole up to its last moment. So whoever was interrupted begins
again, at the beginning or where the store ends, and nothing is stored twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sqlalchemy.engine import Engine

from convoy.brain.ingest.prometheus.client import Prometheus, TooMuch
from convoy.brain.ingest.prometheus.findings import Finding, changes, judge
from convoy.brain.ingest.prometheus.grid import ChunkSize, Span
from convoy.brain.ingest.prometheus.load_store import store
from convoy.brain.ingest.prometheus.queries import Queries
from convoy.brain.ingest.prometheus.round import Round
from convoy.brain.ingest.prometheus.subjects import Pod

MOST_STRANGERS = 100_000


@dataclass(slots=True)
class Tally:
    """What came of collecting.

    Attributes:
        moments: of the grid that were asked for.
        nodes, pods: rows of machines and pods that were stored.
        nodes_before, pods_before: rows of them that were there already, and stay as they are.
        strangers: pods of no job that the store knows; they are left out. No more are counted than MOST_STRANGERS.
        outside: pods of known jobs with samples of before their time or after it; those are left out. No more either.
        dropped: samples that weren't taken, by measure and reason.
    """

    moments: int = 0
    nodes: int = 0
    pods: int = 0
    nodes_before: int = 0
    pods_before: int = 0
    strangers: frozenset[Pod] = frozenset()
    outside: frozenset[Pod] = frozenset()
    dropped: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Take in what came of something else."""
        self.moments += other.moments
        self.nodes += other.nodes
        self.pods += other.pods
        self.nodes_before += other.nodes_before
        self.pods_before += other.pods_before
        self.dropped += other.dropped
        if len(self.strangers) < MOST_STRANGERS:
            self.strangers |= other.strangers
        if len(self.outside) < MOST_STRANGERS:
            self.outside |= other.outside

    def sentences(self) -> list[str]:
        """Return what to say of it: what is stored, and what isn't."""
        nodes = f"{_counted(self.nodes, 'row')} of machines stored, {self.nodes_before} there already"
        rows = f"{nodes}; {_counted(self.pods, 'row')} of pods stored, {self.pods_before} there already"
        said = [f"{_counted(self.moments, 'moment')}: {rows}"]
        if self.strangers:
            belong, arent = ("belongs", "isn't") if len(self.strangers) == 1 else ("belong", "aren't")
            said.append(
                f"{_counted(len(self.strangers), 'pod')} {belong} to no job that the store knows, and {arent} stored "
                f"({_one(self.strangers)}, for one)"
            )
        if self.outside:
            have = "has" if len(self.outside) == 1 else "have"
            said.append(
                f"{_counted(len(self.outside), 'pod')} of known jobs {have} samples of before the first sign or "
                f"after the end that the store knows of, and those aren't stored ({_one(self.outside)}, for one)"
            )
        dropped = sorted(self.dropped.items())
        return said + [f"{_counted(n, 'sample')} of {measure} dropped: {why}" for (measure, why), n in dropped]


class Collector:
    """Asks and stores. What keeps a measure from being collected is told when it comes and when it goes."""

    def __init__(
        self,
        prometheus: Prometheus,
        engine: Engine,
        queries: Queries,
        cluster: str,
        on_finding: Callable[[Finding, bool], None],
        queries_file: str = "queries.toml",
    ) -> None:
        """Make a collector.

        Args:
            prometheus: that is asked.
            engine: of a migrated database.
            queries: that it is asked.
            cluster: the name under which machines are stored.
            on_finding: is given a finding when it comes (True) and when it goes (False).
            queries_file: that the queries come from, for the message where one isn't PromQL.
        """
        self._prometheus = prometheus
        self._engine = engine
        self._queries = queries
        self._cluster = cluster
        self._on_finding = on_finding
        self._findings: dict[str, Finding] = {}
        self._refusing = queries_file  # at the first contact; later it is a finding, and the rest goes on
        self._size = ChunkSize()

    def collect(self, span: Span, tally: Tally) -> Iterator[int]:
        """Collect a span; yield after each chunk that is stored its last moment.

        Args:
            span: of the grid.
            tally: to which what came of it is added.

        Raises:
            Unavailable: Prometheus or the database is away; what was yielded is stored.
            Unusable: one of them refuses us.
            InvalidSetting: a query isn't PromQL, at the first contact.
        """
        while len(span):
            chunk, rest = span.split(self._size.steps)
            asked = Round(self._prometheus, self._queries, chunk, refuse_malformed_of=self._refusing)
            try:
                asked.ask()
            except TooMuch:
                self._size = self._size.halved(len(chunk))
                continue
            self._refusing = ""
            self._tell(asked)
            self._size = self._size.after(asked.longest)
            stored = store(self._engine, self._cluster, asked.loads, span.step)
            tally.add(
                Tally(
                    len(chunk),
                    stored.nodes,
                    stored.pods,
                    stored.nodes_before,
                    stored.pods_before,
                    stored.strangers,
                    stored.outside,
                    asked.loads.dropped,
                ),
            )
            yield chunk.last
            span = rest

    def _tell(self, asked: Round) -> None:
        now = judge(asked.seen(), self._queries.scrape_interval)
        came, went = changes(self._findings, now)
        self._findings = now
        for finding in went:
            self._on_finding(finding, False)
        for finding in came:
            self._on_finding(finding, True)


def _one(pods: frozenset[Pod]) -> str:
    first = min(pods)
    return f"{first.namespace}/{first.name}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
