"""The plan in words and numbers: each job's reason, what was rejected, what a unit more is worth. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from convoy.brain.plan.cluster.answer import (
    Alternative,
    ClusterDecision,
    ClusterPlan,
    JobAnswer,
    MarginalPrice,
    gap,
)
from convoy.brain.plan.cluster.choices import Barred, Bools, Choices
from convoy.brain.plan.cluster.jobs import Array, ClusterJob
from convoy.brain.plan.cluster.limits import Limits
from convoy.brain.plan.cluster.values import Values
from convoy.brain.plan.cluster.weighed import BARRED, Weighed, batch_of, speed_of
from convoy.brain.plan.explain import workers

if TYPE_CHECKING:
    from convoy.brain.plan.cluster.arrange import Arrangement

SPEED_UNKNOWN = BARRED[Barred.SPEED_UNKNOWN][0]


def unchanged(jobs: Sequence[ClusterJob], reason: str, message: str, choices: Choices | None = None) -> ClusterPlan:
    """Return the plan in which every job keeps what it has."""
    answers = []
    for job in jobs:
        sizes, at = job.sizes, job.current
        known = at is not None and 0 <= at < min(len(sizes), len(sizes.pool), len(sizes.goodput))
        answers.append(
            JobAnswer(
                job.name, job.user, ClusterDecision.WAIT if at is None else ClusterDecision.KEEP, reason, message, at,
                pool=sizes.pool[at] if known and at is not None else "",
                workers=int(sizes.workers[at]) if known and at is not None else 0,
                ps=int(sizes.ps[at]) if known and at is not None and at < len(sizes.ps) else 0,
                goodput=float(sizes.goodput[at]) if known and at is not None else math.nan,
                speed=speed_of(job, at) if known and at is not None else math.nan,
                nodes=job.nodes,
            )
        )  # fmt: skip
    return ClusterPlan(False, "Unchanged", reason, f"No change: {message}.", tuple(answers))


class Explained:
    """What an arrangement says of each job."""

    def __init__(
        self,
        jobs: Sequence[ClusterJob],
        everything: Choices,
        values: Values,
        open_: Bools,
        limits: Limits,
        prices: Array,
        made: Arrangement,
    ) -> None:
        self._jobs, self._all, self._values = jobs, everything, values
        self._limits, self._prices, self._made = limits, prices, made
        cost = np.full(len(everything), np.nan)
        cost[open_] = limits.demand @ prices
        held = made.nodes.held
        rows = np.flatnonzero(open_)[np.array([held[job].row for job in range(len(jobs))], dtype=np.int64)]
        self._weighed = Weighed(jobs, everything, values, open_, cost, rows)
        self._moved = np.array([made.worth(held[job]) != made.values.net[held[job].row] for job in range(len(jobs))])
        self._first_of = {job.name: place for place, job in reversed(list(enumerate(jobs)))}
        self._best_surplus = np.maximum.reduceat(self._weighed.surplus, everything.first[:-1])
        restless = np.where(open_, values.gross - cost, -np.inf)
        self._best_restless = np.maximum.reduceat(restless, everything.first[:-1])
        self._best_value = np.maximum.reduceat(np.where(open_, values.net, -np.inf), everything.first[:-1])
        sizes_open = np.bincount(everything.job[open_ & (everything.size >= 0)], minlength=len(jobs))
        self._choosable = sizes_open > 0

    def summary(self, bound: float) -> str:
        """Return one sentence on the whole."""
        counts = dict.fromkeys(ClusterDecision, 0)
        for place in range(len(self._jobs)):
            counts[self._decision(place)] += 1
        parts = [f"{count} {kind.lower()}" for kind, count in counts.items() if count]
        return (
            f"{len(self._jobs)} jobs: {', '.join(parts)}; objective {self._made.value:.6g}, no plan exceeds "
            f"{bound:.6g} (gap {gap(self._made.value, bound):.3%})"
        )

    def answers(self) -> tuple[JobAnswer, ...]:
        """Return what becomes of each job."""
        return tuple(self._answer(place) for place in range(len(self._jobs)))

    def prices(self) -> tuple[MarginalPrice, ...]:
        """Return what a unit more of each limited resource is worth."""
        found = []
        for one, price, used in zip(self._limits.of, self._prices.tolist(), self._made.used.tolist(), strict=True):
            (user, namespace), unit = one.whose, one.most or 1.0
            found.append(MarginalPrice(one.resource, one.pool, user, price / unit, used * unit, one.most, namespace))
        return tuple(found)

    def alternatives(self, name: str) -> tuple[Alternative, ...]:
        """Return all sizes of a job as they were weighed."""
        place = self._first_of.get(name)
        if place is None:
            return ()
        return tuple(self._weighed.alternative(row) for row in self._weighed.rows(place).tolist())

    def _decision(self, place: int) -> ClusterDecision:
        row, runs = int(self._weighed.chosen[place]), self._jobs[place].current is not None
        if self._all.size[row] < 0:
            return ClusterDecision.KEEP if runs and not self._jobs[place].preemptible else ClusterDecision.WAIT
        if not runs:
            return ClusterDecision.START
        return ClusterDecision.KEEP if self._all.present[row] and not self._moved[place] else ClusterDecision.CHANGE

    def _answer(self, place: int) -> JobAnswer:
        job, c, row = self._jobs[place], self._all, int(self._weighed.chosen[place])
        decision, size = self._decision(place), int(c.size[row])
        before = math.nan
        if job.current is not None and job.current < len(job.sizes.goodput):
            before = float(job.sizes.goodput[job.current])
        unsound = size < 0 and decision is ClusterDecision.KEEP
        other = None if unsound else self._weighed.next_best(place)
        instead = None if other is None else self._weighed.alternative(other)
        reason, message = self._why(place, decision)
        return JobAnswer(
            name=job.name, user=job.user, decision=decision, reason=reason,
            message=message + self._rejected(place, decision, reason, other, instead),
            size=job.current if unsound else None if size < 0 else size,
            pool=self._weighed.pool(row), workers=int(c.workers[row]), ps=int(c.ps[row]),
            goodput=float(c.goodput[row]) if size >= 0 else math.nan,
            price_per_hour=float(c.price[row]) if size >= 0 else 0.0,
            goodput_before=before, nodes=tuple(np.concatenate(self._made.nodes.held[place].nodes).tolist()),
            speed=speed_of(job, size) if size >= 0 else math.nan,
            batch=batch_of(job, size) if size >= 0 else 0,
            instead=instead,
        )  # fmt: skip

    def _rejected(
        self, place: int, decision: ClusterDecision, reason: str, other: int | None, instead: Alternative | None
    ) -> str:
        """Return what was rejected, and why, as the end of a sentence."""
        refused = self._weighed.refused(place)
        told = [f"; left out: {', '.join(refused)}"] if refused else []
        hold = self._jobs[place].hold
        compared = hold is None and reason != SPEED_UNKNOWN and decision is not ClusterDecision.WAIT
        if compared and other is not None and instead is not None and self._weighed.open[other]:
            told.insert(0, f"; next best is {self._weighed.words(other)}: {instead.message}")
        return "".join(told)

    def _why(self, place: int, decision: ClusterDecision) -> tuple[str, str]:
        c, row, job = self._all, int(self._weighed.chosen[place]), self._jobs[place]
        if decision is ClusterDecision.WAIT:
            return self._why_waits(place, float(self._best_surplus[place]))
        if decision is ClusterDecision.KEEP:
            return self._why_kept(place, row)
        size, numbers = self._weighed.words(row), self._weighed.takes(row)
        before = int(c.first[place]) + (job.current or 0)
        if decision is ClusterDecision.START:
            if not c.goodput[row] > 0.0:
                return "StartsUnknown", f"starts with {workers(int(c.workers[row]))}; its speed isn't known"
            return "Starts", f"starts with {size}, {numbers}"
        if row == before:
            return "Moves", f"keeps {size} on other nodes, so that others fit"
        elsewhere = 0 <= c.pool[before] != c.pool[row]  # where it isn't known in which it is, no other one is
        reason = "OtherPool" if elsewhere else _direction(c, row, before)
        return reason, f"from {self._weighed.words(before)} to {size}, {numbers}"

    def _why_kept(self, place: int, row: int) -> tuple[str, str]:
        c, hold, best = self._all, self._jobs[place].hold, float(self._best_surplus[place])
        if c.size[row] < 0:
            return "Invalid", "its sizes aren't a table with its present one in it; it keeps what it has"
        size, numbers = self._weighed.words(row), self._weighed.takes(row)
        if hold is not None:
            return hold.reason, f"keeps {size}: {hold.words}"
        if not c.goodput[row] > 0.0:
            return SPEED_UNKNOWN, ("what it has now has no known speed above zero, so nothing can be compared to it")
        surplus = float(self._weighed.surplus[row])
        if self._best_restless[place] > surplus + 1e-9 >= best - 1e-9 * abs(best):
            return "NotWorthARestart", f"keeps {size}; a faster size isn't worth the restart within the horizon"
        if best > surplus + 1e-6 * abs(best):
            return "NoRoom", f"keeps {size}, {numbers}; a size worth {best:.4g} more than it takes has no room"
        return "BestAsIs", f"keeps {size}, {numbers}"

    def _why_waits(self, place: int, best: float) -> tuple[str, str]:
        rows, hold = self._weighed.rows(place), self._jobs[place].hold
        if hold is not None:
            return hold.reason, f"waits: {hold.words}"
        if not len(rows):
            return "NoSizes", "no size is known that it may take"
        if not self._choosable[place]:
            reason, words = BARRED[Barred(int(np.bincount(self._all.barred[rows]).argmax()))]
            return reason, f"none of its {len(rows)} sizes can be taken: of most, {words}"
        if best > 1e-9:
            return "NoRoom", f"a size worth {best:.4g} more than it takes has no room"
        cheapest = float(np.nanmin(self._weighed.cost[rows]))
        return "CapacityTaken", (
            f"others make more of what there is: its best size is worth {self._best_value[place]:.4g}, its cheapest "
            f"takes {cheapest:.4g} at the marginal prices"
        )


def _direction(c: Choices, row: int, before: int) -> str:
    new, old = (int(c.workers[one]) + int(c.ps[one]) for one in (row, before))
    return "Grows" if new > old else "Shrinks" if new < old else "Reshapes"
