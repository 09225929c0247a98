"""The nodes of a simulated cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Node:
    """One machine.

    Attributes:
        index: its number in the whole cluster; it stays the same when others fail.
        kind: its node type; the accelerator's name in the table of speeds.
        accelerators: that it has.
    """

    index: int
    kind: str
    accelerators: int


@dataclass(frozen=True)
class Cluster:
    """Nodes, those of one kind next to each other; a job's accelerators are all of one kind."""

    nodes: tuple[Node, ...]

    @classmethod
    def of(cls, rows: Iterable[tuple[str, int, int]]) -> Cluster:
        """Return the cluster of (kind, nodes, accelerators of each) rows."""
        nodes: list[Node] = []
        for kind, count, accelerators in rows:
            nodes += [Node(len(nodes) + i, kind, accelerators) for i in range(count)]
        return cls(tuple(nodes))

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Node types, in the order of their first node."""
        return tuple(dict.fromkeys(node.kind for node in self.nodes))

    @cached_property
    def by_kind(self) -> dict[str, tuple[Node, ...]]:
        """Nodes of each type."""
        return {kind: tuple(node for node in self.nodes if node.kind == kind) for kind in self.kinds}

    @cached_property
    def by_index(self) -> dict[int, Node]:
        """Nodes by their number."""
        return {node.index: node for node in self.nodes}

    @cached_property
    def accelerators(self) -> int:
        """Of all nodes."""
        return sum(node.accelerators for node in self.nodes)

    def capacity(self, kind: str) -> int:
        """Return the accelerators of a kind."""
        return sum(node.accelerators for node in self.by_kind.get(kind, ()))

    def per_node(self, kind: str) -> int:
        """Return the most accelerators that a node of a kind has."""
        return max((node.accelerators for node in self.by_kind.get(kind, ())), default=0)

    def without(self, down: Sequence[int] | set[int] | frozenset[int]) -> Cluster:
        """Return the cluster without some nodes; the others keep their numbers."""
        gone = frozenset(down)
        return Cluster(tuple(node for node in self.nodes if node.index not in gone)) if gone else self
