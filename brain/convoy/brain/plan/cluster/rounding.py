"""Whole choices within the limits: from prices by repair and filling, better by exact solution of a core. Pure.

At good prices most jobs' best choice is beyond doubt; what the limits leave to decide are a few jobs whose choices
come near each other. Those are the core (Balas and Zemel 1980, "An algorithm for large zero-one knapsack problems").
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize, sparse

from convoy.brain.plan.cluster.choices import Choices
from convoy.brain.plan.cluster.duals import best_of, surplus_of
from convoy.brain.plan.cluster.jobs import Array, Ints
from convoy.brain.plan.cluster.limits import Limits

ROOM = 1e-9
PASSES = 6
TRIES = 4000
"""Most choices that filling looks at, nearest to their job's best first."""
CORE_CHOICES = 2500
"""Of a core that is solved at once."""
EXACT = 1e-5
"""Relative gap at which the solver may stop."""


@dataclass(frozen=True)
class Core:
    """A better choice of some jobs, and what the solver proved."""

    chosen: Ints
    bound: float
    """No plan is worth more; infinite where the core isn't all that is undecided."""


def by_surplus(c: Choices, surplus: Array) -> Ints:
    """Return of each job the row with the largest surplus, what it has now where equal, (jobs,)."""
    tie = surplus + 1e-12 * np.abs(surplus) * c.present
    order = np.lexsort((-tie, c.job))
    return np.asarray(order[c.first[:-1]])


def repaired(c: Choices, value: Array, limits: Limits, chosen: Ints) -> Ints | None:
    """Return choices within the limits, by the moves that lose least for what they free; None where that fails."""
    chosen = chosen.copy()
    used = limits.used(chosen)
    for _ in range(PASSES * max(len(limits.of), 1)):
        excess = used - limits.most
        worst = int(np.argmax(excess)) if len(excess) else 0
        if not len(excess) or excess[worst] <= ROOM:
            return chosen
        taken = limits.demand[:, [worst]].toarray().ravel()
        freed = taken[chosen][c.job] - taken
        rows = np.flatnonzero(freed > 1e-15)
        ratio = (value[chosen][c.job] - value)[rows] / np.minimum(freed[rows], excess[worst])
        before = used[worst]
        for row in rows[np.argsort(ratio, kind="stable")].tolist():
            job = c.job[row]
            if taken[row] >= taken[chosen[job]]:
                continue
            after = used + _difference(limits, row, int(chosen[job]))
            # a move may take more of what isn't short, never of what is, nor beyond what there is
            if np.all((after <= limits.most + ROOM) | (after <= used + ROOM)):
                chosen[job], used = row, after
                if used[worst] <= limits.most[worst] + ROOM:
                    break
        if used[worst] >= before:
            return None
    return None


def filled(c: Choices, value: Array, limits: Limits, prices: Array, chosen: Ints) -> Ints:
    """Return choices that use what is left, the ones nearest to their job's best surplus first."""
    chosen = chosen.copy()
    used = limits.used(chosen)
    surplus = surplus_of(value, limits, prices)
    for _ in range(PASSES):
        rows = np.flatnonzero(value - value[chosen][c.job] > 1e-12)
        rows = rows[np.argsort((surplus[chosen][c.job] - surplus)[rows], kind="stable")][:TRIES]
        change = (limits.demand[rows] - limits.demand[chosen[c.job[rows]]]).toarray()
        fits = np.all(change <= limits.most - used + ROOM, axis=1)
        moved: set[int] = set()
        for row, more in zip(rows[fits].tolist(), change[fits], strict=True):
            job = int(c.job[row])
            if job not in moved and np.all(used + more <= limits.most + ROOM):
                chosen[job], used = row, used + more
                moved.add(job)
        if not moved:
            break
    return chosen


def _difference(limits: Limits, new: int, old: int) -> Array:
    """Return what one choice takes more than another, (limits,)."""
    change = np.zeros(len(limits.of))
    for row, sign in ((new, 1.0), (old, -1.0)):
        start, end = limits.demand.indptr[row : row + 2]
        np.add.at(change, limits.demand.indices[start:end], sign * limits.demand.data[start:end])
    return change


def solved(
    c: Choices, value: Array, limits: Limits, prices: Array, bound: float, chosen: Ints, seconds: float
) -> Core:
    """Return choices no worse than ``chosen``, from the exact solution of what is in doubt.

    A choice whose surplus is below its job's best by more than the gap between bound and value is in no better plan
    (reduced-cost fixing); it is left out. If too many are left, jobs whose best is the least in doubt are held.

    Args:
        chosen: (jobs,), within the limits.
        seconds: that the solver may take.
    """
    worth = float(value[chosen].sum())
    surplus = surplus_of(value, limits, prices)
    loss = best_of(surplus, c.first)[c.job] - surplus
    slack = bound - worth
    if slack <= EXACT * abs(bound) * 0.1:
        return Core(chosen, bound)
    open_ = loss <= slack * (1 + 1e-9)
    open_[chosen] = True
    whole = True
    if np.count_nonzero(open_) - (len(c.first) - 1) > CORE_CHOICES:
        whole = False
        open_ = _least_sure(c, loss, open_, chosen)
    counts = np.add.reduceat(open_.astype(np.int64), c.first[:-1])
    free = counts > 1
    rows = np.flatnonzero(open_ & free[c.job])
    if not len(rows):
        return Core(chosen, worth if whole else math.inf)
    held = chosen[~free]
    room = limits.most - limits.used(held)
    found = _milp(c, value, limits, rows, room, EXACT * abs(bound), seconds)
    proved = float(value[held].sum()) + found[1] if whole else math.inf
    if found[0] is None:
        return Core(chosen, max(proved, worth))
    better = chosen.copy()
    better[c.job[found[0]]] = found[0]
    if value[better].sum() < worth or np.any(limits.used(better) > limits.most + 1e-7):
        better = chosen
    return Core(better, max(proved, worth))


def _least_sure(c: Choices, loss: Array, open_: np.ndarray, chosen: Ints) -> np.ndarray:
    """Return which choices make the core: of all jobs' those nearest to their best, and what is chosen."""
    rows = np.flatnonzero(open_ & (loss > 0))
    nearest = rows[np.argsort(loss[rows], kind="stable")[:CORE_CHOICES]]
    kept = np.zeros(len(c), dtype=np.bool_)
    kept[nearest] = True
    kept |= open_ & (loss <= 0)
    kept[chosen] = True
    return kept


def _milp(
    c: Choices, value: Array, limits: Limits, rows: np.ndarray, room: Array, near: float, seconds: float
) -> tuple[Ints | None, float]:
    """Return a row of each of the rows' jobs, at most ``near`` below the best in ``room``, and what none exceeds."""
    _, job = np.unique(c.job[rows], return_inverse=True)
    pick = sparse.csr_matrix((np.ones(len(rows)), (job, np.arange(len(rows)))))
    # scaled to what a choice takes, so that the solver's tolerance (1e-6) is small beside it
    demand = limits.demand[rows].T.tocsr()
    binding = np.asarray(demand.sum(axis=1)).ravel() > 0
    constraints = [optimize.LinearConstraint(pick, 1.0, 1.0)]
    if binding.any():
        scale = sparse.diags(1.0 / np.maximum(np.abs(demand[binding]).max(axis=1).toarray().ravel(), 1e-12))
        constraints.append(
            optimize.LinearConstraint(scale @ demand[binding], -np.inf, scale @ np.maximum(room[binding], 0.0))
        )
    most = float(np.maximum.reduceat(value[rows], np.flatnonzero(np.diff(job, prepend=-1))).sum())
    answer = optimize.milp(
        -value[rows], integrality=np.ones(len(rows)), bounds=optimize.Bounds(0.0, 1.0), constraints=constraints,
        options={"time_limit": max(seconds, 0.01), "mip_rel_gap": near / max(most, near)},
    )  # fmt: skip
    bound = -answer.mip_dual_bound if answer.mip_dual_bound is not None else math.inf
    if answer.x is None:
        return None, bound
    return np.asarray(rows[np.asarray(answer.x) > 0.5], dtype=np.int64), float(bound)
