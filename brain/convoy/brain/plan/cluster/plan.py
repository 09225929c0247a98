"""The cluster's plan: all jobs together under one capacity. Pure.

Prices first, whose bound no plan exceeds; from them a plan that fits; then the exact solution of what is in doubt,
which is all of it where the cluster isn't large; then nodes. What is told is what fits onto nodes, and the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from convoy.brain.plan.cluster.answer import ClusterPlan, MarginalPrice, Progress, Watch
from convoy.brain.plan.cluster.arrange import Arrangement
from convoy.brain.plan.cluster.capacity import Capacity
from convoy.brain.plan.cluster.choices import Choices, choices_of
from convoy.brain.plan.cluster.duals import Priced, best_of, prices_of, surplus_of
from convoy.brain.plan.cluster.explain import Explained, unchanged
from convoy.brain.plan.cluster.jobs import Array, ClusterJob, Ints, Policy
from convoy.brain.plan.cluster.limits import Limits, limits_of, raised
from convoy.brain.plan.cluster.rounding import by_surplus, filled, repaired, solved
from convoy.brain.plan.cluster.values import Values, values_of

EXACT_GAP = 1e-4


def plan_cluster(
    jobs: Sequence[ClusterJob],
    capacity: Capacity,
    policy: Policy | None = None,
    *,
    warm: Sequence[MarginalPrice] = (),
    watch: Watch | None = None,
) -> ClusterPlan:
    """Return what becomes of each job, in the order of ``jobs``. Never raises for what jobs and capacity say.

    Args:
        jobs: all that run or wait; names differ.
        capacity: what there is, what the running jobs hold included.
        policy: what is preferred; None: the defaults.
        warm: ``ClusterPlan.prices`` of the last plan: plans are found sooner, and differ less.
        watch: is told of each better plan as it is found, the first one before the exact solver begins.
    """
    rules = policy or Policy()
    if not jobs:
        return unchanged(jobs, "NoJobs", "no job runs or waits")
    if not any(pool.nodes > 0 for pool in capacity.pools):
        return unchanged(jobs, "NoCapacity", "no pool with a node is known: what there is to give is unknown")
    everything = choices_of(jobs, capacity)
    all_values = values_of(everything, jobs, capacity, rules)
    open_ = everything.barred == 0
    question = _Question.of(jobs, capacity, everything.take(open_), _taken(all_values, open_))
    if not question.value.any():
        return unchanged(jobs, "NothingKnown", "no speed of any job is known", everything)
    if watch is not None:
        most = float(best_of(question.value, question.choices.first).sum())
        watch(Progress("Present", float(question.value[question.choices.present].sum()), most))
    priced = prices_of(question.choices, question.value, question.limits, question.start(warm))
    best, bound = question.search(priced, rules.seconds, watch)
    if best is None:
        return unchanged(
            jobs, "PresentExceedsCapacity", "what runs doesn't fit into the capacity that is known, at any size",
            everything,
        )  # fmt: skip
    told = Explained(jobs, everything, all_values, open_, question.limits, priced.prices, best)
    return ClusterPlan(
        decided=True,
        method="Exact" if bound - best.value <= EXACT_GAP * abs(bound) else "Prices",
        reason="Planned",
        message=told.summary(bound),
        jobs=told.answers(),
        value=best.value,
        bound=bound,
        prices=told.prices(),
        weighed=told.alternatives,
    )


def _taken(values: Values, kept: np.ndarray) -> Values:
    return Values(values.net[kept], values.moved[kept], values.gross[kept])


@dataclass(frozen=True)
class _Question:
    """What can be chosen, of which value, within which limits."""

    jobs: Sequence[ClusterJob]
    capacity: Capacity
    choices: Choices
    values: Values
    limits: Limits

    @classmethod
    def of(cls, jobs: Sequence[ClusterJob], capacity: Capacity, c: Choices, values: Values) -> _Question:
        limits = limits_of(c, jobs, capacity)
        return cls(jobs, capacity, c, values, raised(limits, np.flatnonzero(c.present)))

    @property
    def value(self) -> Array:
        return self.values.net

    def start(self, warm: Sequence[MarginalPrice]) -> Array:
        """Return known prices in the form of this question's limits."""
        known = {one.key: one.price for one in warm}
        return np.array([known.get((one.resource, one.pool, *one.whose), 0.0) * one.most for one in self.limits.of])

    def search(self, priced: Priced, seconds: float, watch: Watch | None) -> tuple[Arrangement | None, float]:
        """Return the best arrangement found, and what none exceeds; None where nothing fits."""
        c, bound = self.choices, priced.bound
        best: Arrangement | None = None

        def consider(step: str, chosen: Ints) -> None:
            nonlocal best
            made = Arrangement(c, self.jobs, self.capacity, self.limits, self.values)
            if made.set(chosen) and (best is None or made.value > best.value):
                best = made
                if watch is not None:
                    watch(Progress(step, made.value, bound))

        rounded = self._rounded(priced)
        if rounded is not None:
            consider("Prices", rounded)
            core = solved(c, self.value, self.limits, priced.prices, bound, rounded, seconds)
            bound = min(bound, core.bound)
            if np.any(core.chosen != rounded):
                consider("Core", core.chosen)
        if best is None or best.value < float(self.value[c.present].sum()):
            present = np.flatnonzero(c.present)
            if np.all(self.limits.used(present) <= self.limits.most + 1e-9):
                consider("Present", present)
        return best, bound if best is None else max(bound, best.value)

    def _rounded(self, priced: Priced) -> Ints | None:
        """Return choices within the limits, from the prices; else from each job's smallest; None: there are none."""
        c, value, limits = self.choices, self.value, self.limits
        surplus = surplus_of(value, limits, priced.prices)
        taken = np.asarray(limits.demand.sum(axis=1)).ravel()
        for start in (by_surplus(c, surplus), by_surplus(c, -taken)):
            chosen = repaired(c, value, limits, start)
            if chosen is not None:
                return filled(c, value, limits, priced.prices, chosen)
        return None
