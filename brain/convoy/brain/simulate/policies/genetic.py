"""Pollux's search: a genetic algorithm over how many accelerators of each node a job has (Qiao et al., OSDI 2021).

A state is (jobs, nodes) counts. Children cross two parents at one point in the list of jobs; then, at random, jobs
fall back to what they have now, lose accelerators, or grow into what is free; then they are repaired: at most one job
that spans nodes on each node, no more than a job's limit, no more than a node has. Earlier jobs in the list win.
The fittest of parents and children survive, equal ones once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
States = NDArray[np.int16]
Flags = NDArray[np.bool_]

RESET, SHRINK, DROP = 0.1, 0.1, 0.1
"""Chances that a job falls back to what it has; that it shrinks; that it then loses what it has on a node."""
FAIRNESS = -1.0
"""Exponent of the power mean of speedups."""
FLOOR = 1e-3
"""Speedup of a job that has nothing."""


@dataclass(frozen=True)
class Problem:
    """What is searched for.

    Attributes:
        base: (jobs, nodes) what jobs have now.
        speedups: (jobs, nodes + 1, most + 1) speedup by number of nodes and of accelerators.
        keep: (jobs,) what a speedup is worth where the job's row isn't ``base``'s.
        most: (jobs,) accelerators of each job.
        room: (nodes,) accelerators of each node.
        kinds: (nodes,) number of each node's kind; a job stays on one.
    """

    base: States
    speedups: Array
    keep: Array
    most: NDArray[np.int16]
    room: NDArray[np.int16]
    kinds: NDArray[np.int16]

    def fitness(self, states: States) -> Array:
        """Return the power mean of the jobs' speedups, restarts counted, for (p, jobs, nodes) states."""
        nodes = np.count_nonzero(states, axis=2)
        replicas = states.sum(axis=2, dtype=np.int16)
        speedup = self.speedups[np.arange(states.shape[1]), nodes, replicas]
        moved = (states != self.base).any(axis=2)
        speedup = np.where(moved, speedup * self.keep, speedup) + FLOOR
        return np.asarray(np.mean(speedup**FAIRNESS, axis=1) ** (1.0 / FAIRNESS))


@dataclass(frozen=True, slots=True)
class Effort:
    """How long it searches.

    Attributes:
        population: states that survive, and children of each generation.
        generations: at most.
        patience: generations without a better state, after which it ends.
    """

    population: int = 100
    generations: int = 100
    patience: int = 15


def search(problem: Problem, first: States, effort: Effort, rng: np.random.Generator) -> tuple[States, Array]:
    """Return the last population (p, jobs, nodes), fittest first, and its fitness.

    Args:
        problem: what is searched for.
        first: (n, jobs, nodes) states to begin with, such as the survivors of an earlier search.
        effort: how long.
        rng: of all that is random.
    """
    states = repaired(problem, np.concatenate([first, problem.base[None]]), rng)
    states, fitness = _survivors(states, problem.fitness(states), effort.population)
    best, since = fitness[0], 0
    for _ in range(effort.generations):
        children = repaired(problem, _mutated(problem, _crossed(states, effort.population, rng), rng), rng)
        together = np.concatenate([states, children])
        states, fitness = _survivors(together, np.append(fitness, problem.fitness(children)), effort.population)
        since = 0 if fitness[0] > best * (1.0 + 1e-9) else since + 1
        best = fitness[0]
        if since >= effort.patience:
            break
    return states, fitness


def _survivors(states: States, fitness: Array, most: int) -> tuple[States, Array]:
    order = np.argsort(-fitness, kind="stable")
    states, fitness = states[order], fitness[order]
    _, first = np.unique(states.reshape(len(states), -1).view(_raw(states)), return_index=True)
    kept = np.sort(first)[:most]
    return states[kept], fitness[kept]


def _raw(states: States) -> np.dtype[np.void]:
    """Return a type that compares a whole state at once."""
    return np.dtype((np.void, states.dtype.itemsize * states.shape[1] * states.shape[2]))


def _crossed(states: States, wanted: int, rng: np.random.Generator) -> States:
    """Return children of pairs, each parent the fitter of two."""
    jobs = states.shape[1]
    parents = rng.integers(len(states), size=(2, 2, (wanted + 1) // 2)).min(axis=0)  # ordered by fitness
    one, other = states[parents[0]], states[parents[1]]
    head = (np.arange(jobs) < rng.integers(jobs, size=(len(one), 1)))[:, :, None]
    return np.concatenate([np.where(head, one, other), np.where(head, other, one)])[:wanted]


def _mutated(problem: Problem, states: States, rng: np.random.Generator) -> States:
    count, jobs, nodes = states.shape
    states = np.where((rng.random((count, jobs)) < RESET)[:, :, None], problem.base, states)
    rows = np.nonzero(rng.random((count, jobs)) < SHRINK)
    states[rows] *= rng.random((len(rows[0]), nodes)) >= DROP
    free = (problem.room - states.sum(axis=1, dtype=np.int16)) > 0
    held = (states > 0) & free[:, None, :]
    chance = free / jobs
    other = free / np.maximum(held.sum(axis=1), 1)
    both = (chance + other - chance * other).astype(np.float32)
    likely = np.where(held, both[:, None, :], chance[:, None, :].astype(np.float32))
    which = np.nonzero(rng.random(states.shape, dtype=np.float32) < likely)
    states[which] = rng.integers(states[which], problem.room[which[2]] + 1)
    return states


def repaired(problem: Problem, states: States, rng: np.random.Generator) -> States:
    """Return states made possible."""
    states = _one_kind(problem, states)
    spans = np.count_nonzero(states, axis=2) > 1
    spanning = (states > 0) & spans[:, :, None]
    states = np.where(spanning & (np.cumsum(spanning, axis=1, dtype=np.int16) > 1), np.int16(0), states)
    over = np.nonzero(states.sum(axis=2, dtype=np.int16) > problem.most)
    if len(over[0]):
        states[over] = _at_most(states[over], problem.most[over[1]], rng)
    return _differences(np.minimum(np.cumsum(states, axis=1, dtype=np.int16), problem.room), 1)


def _one_kind(problem: Problem, states: States) -> States:
    """Keep each job on the kind of which it has most."""
    kinds = int(problem.kinds.max()) + 1
    if kinds == 1:
        return states.copy()
    totals = np.stack([states[:, :, problem.kinds == kind].sum(axis=2) for kind in range(kinds)])
    return np.where(problem.kinds == totals.argmax(axis=0)[:, :, None], states, np.int16(0))


def _at_most(rows: States, most: NDArray[np.int16], rng: np.random.Generator) -> States:
    """Return rows (n, nodes) cut to their limits, from nodes in random order."""
    order = np.argsort(rng.random(rows.shape), axis=1)
    shuffled = np.take_along_axis(rows, order, axis=1)
    cut = _differences(np.minimum(np.cumsum(shuffled, axis=1, dtype=np.int16), most[:, None]), 1)
    return np.take_along_axis(cut, np.argsort(order, axis=1), axis=1)


def _differences(sums: States, axis: int) -> States:
    return np.diff(sums, axis=axis, prepend=np.int16(0))
