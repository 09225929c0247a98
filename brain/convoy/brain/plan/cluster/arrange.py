"""From what was chosen to what fits onto nodes: what has no room takes another size, and what is left is used. Pure.

Limits hold all along. Only where a job that may not be stopped finds no room for any of its sizes does this fail;
then there is no plan, and everything stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from convoy.brain.plan.cluster.capacity import Capacity
from convoy.brain.plan.cluster.choices import Choices
from convoy.brain.plan.cluster.jobs import Array, ClusterJob, Ints
from convoy.brain.plan.cluster.limits import Limits
from convoy.brain.plan.cluster.nodes import Held, Nodes, settled, told
from convoy.brain.plan.cluster.values import Values

ROOM = 1e-9
EXCHANGES = 400
"""Tries to make room for one job by moving another."""
UPGRADES = 3000
"""Tries to give a job more of what is left."""


class Arrangement:
    """Jobs on nodes within the limits. Mutable."""

    def __init__(
        self, c: Choices, jobs: Sequence[ClusterJob], capacity: Capacity, limits: Limits, values: Values
    ) -> None:
        self.choices, self.limits, self.values = c, limits, values
        self._jobs, self._capacity = jobs, capacity
        self._told = told(c, jobs, capacity)  # of others nothing is known that could move
        self.nodes = Nodes(c, capacity)
        self.used = np.zeros(len(limits.of))

    def worth(self, held: Held) -> float:
        """Return the value of what a job holds: less where it keeps its size, but not its place."""
        c, row = self.choices, held.row
        moved = c.present[row] and not held.stays and self._told[c.job[row]] and c.size[row] >= 0
        return float((self.values.moved if moved else self.values.net)[row])

    @property
    def value(self) -> float:
        """Return the value of all that is held."""
        return sum(self.worth(held) for held in self.nodes.held.values())

    @property
    def rows(self) -> Ints:
        """Return what each job holds, (jobs,)."""
        return np.array([self.nodes.held[job].row for job in range(len(self._jobs))], dtype=np.int64)

    def set(self, chosen: Ints) -> bool:
        """Hold what was chosen, as far as it fits; return False where a job that may not be stopped fits nowhere."""
        self.nodes, homeless = settled(self.choices, self._jobs, self._capacity, chosen)
        held = np.array([one.row for one in self.nodes.held.values()], dtype=np.int64)
        self.used = self.limits.used(held)
        homeless.sort(key=lambda row: -self.values.net[row])
        tries = EXCHANGES
        lost: list[int] = []
        for row in homeless:
            if self._place(int(self.choices.job[row])):
                lost.append(row)
            elif not self._clear_for(int(self.choices.job[row])):
                return False
        for row in lost:
            tries = self._exchange(row, tries)
        self.use_what_is_left()
        return True

    def use_what_is_left(self) -> None:
        """Give jobs larger sizes, or other ones worth more, where nothing else has to move."""
        c, value = self.choices, self.values.net
        now = np.array([self.worth(self.nodes.held[job]) for job in range(len(self._jobs))])
        gain = value - now[c.job]
        rows = np.flatnonzero(gain > 1e-9 * max(float(np.abs(now).max(initial=0.0)), 1e-12))
        if not len(rows):
            return
        holding = self.rows[c.job[rows]]
        change = self.limits.demand[rows] - self.limits.demand[holding]
        fits = (
            np.asarray((change.toarray() <= self.limits.most - self.used + ROOM).all(axis=1))
            if len(self.limits.of)
            else np.ones(len(rows), dtype=np.bool_)
        )
        taken = np.maximum(np.asarray(change.sum(axis=1)).ravel(), 1e-9)
        rows, ratio = rows[fits], (gain[rows] / taken)[fits]
        for row in rows[np.argsort(-ratio, kind="stable")][:UPGRADES].tolist():
            self._swap(row)

    def _swap(self, row: int) -> bool:
        """Give a job another size if that is worth more and fits."""
        job = int(self.choices.job[row])
        old = self.nodes.held[job]
        if self.values.net[row] <= self.worth(old) + 1e-12 or not self._within(row, old.row):
            return False
        self.nodes.lift(job)
        if self._put(row):
            self._count(row, old.row)
            return True
        self.nodes.back(old)
        return False

    def _place(self, job: int) -> bool:
        """Place a job that holds nothing, at its best size for which there is room."""
        c = self.choices
        rows = np.arange(c.first[job], c.first[job + 1])
        for row in rows[np.argsort(-self.values.net[rows], kind="stable")].tolist():
            if self._within(row) and self._put(row):
                self._count(row)
                return True
        return False

    def _put(self, row: int) -> bool:
        """Place a choice, where it was if it is what the job has and its nodes are free."""
        one = self._jobs[self.choices.job[row]]
        if self.choices.present[row] and self.choices.size[row] >= 0 and self.nodes.stay(row, one.nodes):
            return True
        return self.nodes.put(row)

    def _exchange(self, row: int, tries: int) -> int:
        """Give a job what was chosen for it by moving one other job, if both together gain; return tries left."""
        c = self.choices
        job, pool = int(c.job[row]), c.pool[row]
        mine = self.nodes.held[job]
        if mine.row == row:
            return tries
        others = [one for at, one in self.nodes.held.items() if at != job and c.pool[one.row] == pool]
        others.sort(key=self._cost_of_moving)
        for other in others:
            gain = self.values.net[row] - self.worth(self.nodes.held[job])
            if tries <= 0 or gain <= self._cost_of_moving(other):
                break
            tries -= 1
            if self._traded(row, mine, other):
                break
        return tries

    def _cost_of_moving(self, held: Held) -> float:
        return self.worth(held) - float(self.values.moved[held.row])

    def _traded(self, row: int, mine: Held, other: Held) -> bool:
        job, theirs = int(self.choices.job[row]), int(self.choices.job[other.row])
        before, used = self.worth(mine) + self.worth(other), self.used.copy()
        self._drop(job)
        self._drop(theirs)
        if self._within(row) and self._put(row):
            self._count(row)
            if self._place(theirs):
                if self.worth(self.nodes.held[job]) + self.worth(self.nodes.held[theirs]) > before + 1e-12:
                    return True
                self._drop(theirs)
            self._drop(job)
        for held in (mine, other):
            self.nodes.back(held)
        self.used = used
        return False

    def _clear_for(self, job: int) -> bool:
        """Make room for a job that must run, from what is worth least; return whether all such jobs still do."""
        c = self.choices
        mine = set(c.pool[c.first[job] : c.first[job + 1]].tolist())
        victims = sorted(
            (at for at, one in self.nodes.held.items() if c.pool[one.row] in mine and c.groups[one.row].any()),
            key=lambda at: self.worth(self.nodes.held[at]),
        )
        lifted: list[int] = []
        for victim in victims:
            self._drop(victim)
            lifted.append(victim)
            if self._place(job):
                return all(self._place(one) for one in reversed(lifted))
        return False

    def _drop(self, job: int) -> None:
        self.used = self.used - self._taken(self.nodes.lift(job).row)

    def _within(self, row: int, instead_of: int | None = None) -> bool:
        after: Array = self.used + self._taken(row)
        if instead_of is not None:
            after = after - self._taken(instead_of)
        return bool(np.all(after <= self.limits.most + ROOM))

    def _count(self, row: int, instead_of: int | None = None) -> None:
        self.used = self.used + self._taken(row)
        if instead_of is not None:
            self.used = self.used - self._taken(instead_of)

    def _taken(self, row: int) -> Array:
        demand, taken = self.limits.demand, np.zeros(len(self.limits.of))
        start, end = demand.indptr[row : row + 2]
        taken[demand.indices[start:end]] = demand.data[start:end]
        return taken
