"""Where a job's accelerators are: how many on which nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from convoy.brain.simulate.cluster import Cluster

Placement = tuple[tuple[int, int], ...]
"""(node's number, accelerators there), ordered by node, none of them zero. Empty: the job has nothing."""


def placed(counts: Mapping[int, int]) -> Placement:
    """Return the placement of accelerators by node; nodes with none are left out."""
    return tuple(sorted((node, int(count)) for node, count in counts.items() if count > 0))


def size(placement: Placement) -> int:
    """Return the accelerators of a placement."""
    return sum(count for _, count in placement)


def shape(placement: Placement) -> tuple[int, ...]:
    """Return accelerators a node without the nodes' names, smallest first: what speed depends on."""
    return tuple(sorted(count for _, count in placement))


def kind_of(placement: Placement, cluster: Cluster) -> str:
    """Return the node type that a placement is on, which isn't empty.

    Raises:
        KeyError: its first node isn't in the cluster.
    """
    return cluster.by_index[placement[0][0]].kind


def free(cluster: Cluster, placements: Iterable[Placement]) -> dict[int, int]:
    """Return what some placements leave free, by node."""
    left = {node.index: node.accelerators for node in cluster.nodes}
    for placement in placements:
        for node, count in placement:
            left[node] = left.get(node, 0) - count
    return left


def spread(left: dict[int, int], wanted: int) -> Placement:
    """Take accelerators from the nodes that have most of them free; ties go to the lower number.

    Args:
        left: free accelerators by node; what is taken is subtracted.
        wanted: no more than there are in all.
    """
    return _taken(left, wanted, lambda _: _emptiest(left))


def pack(left: dict[int, int], wanted: int) -> Placement:
    """Take accelerators so that few nodes are used and few fragments stay: the fullest node that takes what is left
    of the job, else a whole node's worth from the emptiest.

    Args:
        left: free accelerators by node; what is taken is subtracted.
        wanted: no more than there are in all.
    """

    def next_node(more: int) -> int:
        fitting = [node for node, count in left.items() if count >= more]
        return min(fitting, key=lambda node: (left[node], node)) if fitting else _emptiest(left)

    return _taken(left, wanted, next_node)


def _emptiest(left: Mapping[int, int]) -> int:
    return max(left, key=lambda node: (left[node], -node))


def _taken(left: dict[int, int], wanted: int, next_node: Callable[[int], int]) -> Placement:
    """Take accelerators from one node after another; ``next_node`` is told how many more are wanted."""
    taken: dict[int, int] = {}
    while wanted > 0:
        node = next_node(wanted)
        count = min(left[node], wanted)
        if count <= 0:
            raise ValueError(f"{wanted} accelerators more wanted than are free")
        taken[node] = taken.get(node, 0) + count
        left[node] -= count
        wanted -= count
    return placed(taken)
