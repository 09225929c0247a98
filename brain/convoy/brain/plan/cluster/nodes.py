"""What was chosen, put onto nodes: best fit, largest first; what runs on stays where it is. Pure.

A job's part of a node is indivisible: the workers that must share it, or one server. Within one pool they are placed
each on the node on which the fewest more of them would fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from convoy.brain.plan.cluster.capacity import Capacity
from convoy.brain.plan.cluster.choices import Bools, Choices, node_of
from convoy.brain.plan.cluster.jobs import Array, ClusterJob, Ints

TINY = 1e-9


@dataclass(frozen=True)
class Held:
    """What a job holds: of each role, the nodes of its parts."""

    row: int
    nodes: tuple[Ints, Ints]
    stays: bool = False
    """It is where it was: nothing restarts."""


class Nodes:
    """What is free on each node of each pool, and who holds what. Mutable."""

    def __init__(self, c: Choices, capacity: Capacity) -> None:
        self.choices = c
        self.held: dict[int, Held] = {}
        room = node_of(capacity)
        self.free = [np.tile(room[place], (max(pool.nodes, 0), 1)) for place, pool in enumerate(capacity.pools)]
        self._slack = TINY * np.where(np.isfinite(room), np.maximum(room, 1.0), 1.0)

    def stay(self, row: int, nodes: Sequence[int]) -> bool:
        """Hold what a job has where it has it; return whether that is told and fits."""
        c = self.choices
        pool, counts = int(c.pool[row]), c.groups[row]
        at = np.asarray(nodes, dtype=np.int64)
        if pool < 0 or len(at) != counts.sum() or np.any((at < 0) | (at >= len(self.free[pool]))):
            return False
        split = (at[: counts[0]], at[counts[0] :])
        touched = np.unique(at)
        taken = np.zeros((len(touched), 3))
        for role, mine in enumerate(split):
            np.add.at(taken, np.searchsorted(touched, mine), c.share[row, role])
        if np.any(self.free[pool][touched] - taken < -self._slack[pool]):
            return False
        self.free[pool][touched] -= taken
        self.held[int(c.job[row])] = Held(row, split, True)
        return True

    def put(self, row: int) -> bool:
        """Place a choice; return whether it fits. What takes nothing fits everywhere."""
        c = self.choices
        pool, job = int(c.pool[row]), int(c.job[row])
        none = np.zeros(0, dtype=np.int64)
        if pool < 0 or not c.groups[row].any():
            self.held[job] = Held(row, (none, none), pool < 0 and c.size[row] >= 0)
            return True
        placed: list[Ints] = []
        for role in (0, 1):
            found = self._places(pool, c.share[row, role], int(c.groups[row, role]))
            if found is None:
                self._give(pool, row, placed, -1.0)
                return False
            placed.append(found)
            self._give(pool, row, [none] * role + [found], 1.0)
        self.held[job] = Held(row, (placed[0], placed[1]))
        return True

    def lift(self, job: int) -> Held:
        """Take a job off its nodes, and return what it held."""
        held = self.held.pop(job)
        if self.choices.pool[held.row] >= 0:
            self._give(int(self.choices.pool[held.row]), held.row, list(held.nodes), -1.0)
        return held

    def back(self, held: Held) -> None:
        """Put what was lifted where it was."""
        if self.choices.pool[held.row] >= 0:
            self._give(int(self.choices.pool[held.row]), held.row, list(held.nodes), 1.0)
        self.held[int(self.choices.job[held.row])] = held

    def _give(self, pool: int, row: int, placed: list[Ints], sign: float) -> None:
        for role, nodes in enumerate(placed):
            if len(nodes):
                np.subtract.at(self.free[pool], nodes, sign * self.choices.share[row, role])

    def _places(self, pool: int, share: Array, count: int) -> Ints | None:
        """Return a node for each of ``count`` parts, the fullest nodes first; None where they don't fit."""
        if count == 0:
            return np.zeros(0, dtype=np.int64)
        free, needed = self.free[pool], np.flatnonzero(share > 0)
        if not len(free):
            return None
        if not len(needed):
            return np.zeros(count, dtype=np.int64)
        each = np.full(len(free), float(count))
        for column in needed:
            np.minimum(each, (free[:, column] + self._slack[pool, column]) / share[column], out=each)
        fits = np.floor(each).astype(np.int64)
        if fits.sum() < count:
            return None
        chosen: list[Ints] = []
        for copies in np.unique(fits[fits > 0]).tolist():
            nodes = np.flatnonzero(fits == copies)[: -(-count // copies)]
            chosen.append(np.repeat(nodes, copies)[:count])
            count -= len(chosen[-1])
            if count == 0:
                break
        return np.concatenate(chosen)


def told(c: Choices, jobs: Sequence[ClusterJob], capacity: Capacity) -> Bools:
    """Return of which jobs it is known where they run, on nodes that can hold them, (jobs,)."""
    known = np.zeros(len(jobs), dtype=np.bool_)
    alone = Nodes(c, capacity)
    for row in np.flatnonzero(c.present & (c.pool >= 0)).tolist():
        job = int(c.job[row])
        if alone.stay(row, jobs[job].nodes):
            known[job] = True
            alone.lift(job)
    return known


def by_bulk(c: Choices, rows: Ints, capacity: Capacity) -> Ints:
    """Return rows in the order in which they are placed: the largest part of a node first, then the most parts."""
    room = np.vstack([node_of(capacity), np.ones((1, 3))])[c.pool[rows]][:, None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where((c.share[rows] > 0) & np.isfinite(room), c.share[rows] / room, 0.0)
    bulk = parts.max(axis=(1, 2), initial=0.0)
    return np.asarray(rows[np.lexsort((-c.groups[rows].sum(axis=1), -np.round(bulk, 6)))])


def settled(c: Choices, jobs: Sequence[ClusterJob], capacity: Capacity, chosen: Ints) -> tuple[Nodes, list[int]]:
    """Return what was chosen on nodes, and the rows for which there was no room, in the order of placing."""
    nodes = Nodes(c, capacity)
    rows = []
    for row in chosen.tolist():
        one = jobs[c.job[row]]
        if not (c.present[row] and c.size[row] >= 0 and len(one.nodes) and nodes.stay(row, one.nodes)):
            rows.append(row)
    order = by_bulk(c, np.array(rows, dtype=np.int64), capacity)
    return nodes, [row for row in order.tolist() if not nodes.put(row)]
