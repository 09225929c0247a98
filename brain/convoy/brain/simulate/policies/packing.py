"""Where sizes go that are powers of two within a node, or whole nodes: everything fits, and few jobs are moved."""

from __future__ import annotations

from collections.abc import Mapping

from convoy.brain.simulate.cluster import Cluster, Node
from convoy.brain.simulate.placement import Placement, free, placed, size


def packed(
    sizes: Mapping[str, int], nodes: tuple[Node, ...], previous: Mapping[str, Placement]
) -> dict[str, Placement]:
    """Return a placement for each size, no job on more nodes than it needs.

    Jobs whose size is unchanged stay where they are as long as all others can be placed; else the smallest of them
    are moved, one after the other.

    Args:
        sizes: accelerators by job, in all no more than the nodes have; a job larger than a node takes whole ones.
        nodes: of one kind, all with as many accelerators.
        previous: placements until now, on any nodes.
    """
    mine = {node.index for node in nodes}
    kept = {
        name: previous[name]
        for name, wanted in sizes.items()
        if wanted and size(previous.get(name, ())) == wanted and all(node in mine for node, _ in previous[name])
    }
    while True:
        found = _placed(sizes, Cluster(nodes), kept)
        if found is not None or not kept:
            return found or {}
        del kept[min(kept, key=lambda name: (sizes[name], name))]


def _placed(sizes: Mapping[str, int], cluster: Cluster, kept: Mapping[str, Placement]) -> dict[str, Placement] | None:
    """Return all placements with those kept; None: some job would be torn over more nodes than it needs."""
    answer = dict(kept)
    left = free(cluster, kept.values())
    each = max(node.accelerators for node in cluster.nodes)
    for name in sorted(sizes, key=lambda one: (-sizes[one], one)):
        wanted = sizes[name]
        if name in answer or not wanted:
            continue
        taken: dict[int, int] = {}
        while wanted:
            part = min(wanted, each)
            fitting = [node for node, count in left.items() if count >= part]
            if not fitting:
                return None
            node = min(fitting, key=lambda one: (left[one], one))
            taken[node], wanted = part, wanted - part
            left[node] -= part
        answer[name] = placed(taken)
    return answer
