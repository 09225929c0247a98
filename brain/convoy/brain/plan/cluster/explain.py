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
from convoy.brain.plan.cluster.capacity import Capacity
from convoy.brain.plan.cluster.choices import Barred, Bools, Choices
from convoy.brain.plan.cluster.jobs import Array, ClusterJob
from convoy.brain.plan.cluster.limits import Limits
from convoy.brain.plan.cluster.values import Values
from convoy.brain.plan.explain import speed, workers

if TYPE_CHECKING:
    from convoy.brain.plan.cluster.arrange import Arrangement

BARRED = {
    Barred.SPEED_UNKNOWN: ("SpeedUnknown", "its speed isn't known"),
    Barred.POOL_UNKNOWN: ("PoolUnknown", "there is no such pool"),
    Barred.NO_SUCH_NODE: ("NoSuchNode", "no node is large enough for its part of one"),
    Barred.TOO_LARGE: ("TooLarge", "larger than the whole pool"),
    Barred.OVER_QUOTA: ("OverQuota", "more than its user's quota"),
    Barred.PRICE_UNKNOWN: ("PriceUnknown", "its price isn't known, and there is a budget"),
    Barred.PINNED: ("Pinned", "the job is pinned to what it has"),
}


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
                nodes=job.nodes,
            )
        )  # fmt: skip
    return ClusterPlan(False, "Unchanged", reason, f"No change: {message}.", tuple(answers))


class Explained:
    """What an arrangement says of each job."""

    def __init__(
        self,
        jobs: Sequence[ClusterJob],
        capacity: Capacity,
        everything: Choices,
        values: Values,
        open_: Bools,
        limits: Limits,
        prices: Array,
        made: Arrangement,
    ) -> None:
        self._jobs, self._capacity, self._all, self._values = jobs, capacity, everything, values
        self._limits, self._prices, self._made = limits, prices, made
        self._cost = np.full(len(everything), np.nan)
        self._cost[open_] = limits.demand @ prices
        places = np.flatnonzero(open_)
        held = made.nodes.held
        self._row = places[np.array([held[job].row for job in range(len(jobs))], dtype=np.int64)]
        self._moved = np.array([made.worth(held[job]) != made.values.net[held[job].row] for job in range(len(jobs))])
        self._first_of = {job.name: place for place, job in reversed(list(enumerate(jobs)))}
        surplus = np.where(open_, values.net - self._cost, -np.inf)
        self._best_surplus = np.maximum.reduceat(surplus, everything.first[:-1])
        restless = np.where(open_, values.gross - self._cost, -np.inf)
        self._best_restless = np.maximum.reduceat(restless, everything.first[:-1])
        self._best_value = np.maximum.reduceat(np.where(open_, values.net, -np.inf), everything.first[:-1])
        sizes_open = np.bincount(everything.job[open_ & (everything.size >= 0)], minlength=len(jobs))
        self._choosable = sizes_open > 0
        self._surplus = surplus

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
        limits = zip(self._limits.of, self._prices.tolist(), self._made.used.tolist(), strict=True)
        return tuple(
            MarginalPrice(
                one.resource, one.pool, one.user, price / (one.most or 1.0), used * (one.most or 1.0), one.most
            )
            for one, price, used in limits
        )

    def alternatives(self, name: str) -> tuple[Alternative, ...]:
        """Return all sizes of a job as they were weighed."""
        place = self._first_of.get(name)
        if place is None:
            return ()
        rows = range(int(self._all.first[place]), int(self._all.first[place + 1]))
        return tuple(self._alternative(row, place) for row in rows if self._all.size[row] >= 0)

    def _alternative(self, row: int, place: int) -> Alternative:
        c = self._all
        return Alternative(
            size=int(c.size[row]),
            pool=self._pool(row),
            workers=int(c.workers[row]),
            ps=int(c.ps[row]),
            accelerators=float(c.demand_of(row)[0]),
            goodput=float(c.goodput[row]),
            price_per_hour=float(c.price[row]),
            value=float(self._values.net[row]),
            cost=float(self._cost[row]),
            chosen=bool(row == self._row[place]),
            verdict=self._verdict(row, place),
        )

    def _verdict(self, row: int, place: int) -> str:
        chosen = self._row[place]
        if row == chosen:
            return "Chosen"
        if self._all.barred[row]:
            return BARRED[Barred(int(self._all.barred[row]))][0]
        if self._values.net[row] <= self._values.net[chosen]:
            return "NotWorthARestart" if self._values.gross[row] > self._values.gross[chosen] else "NoFaster"
        return "WorthMoreElsewhere" if self._surplus[row] <= self._surplus[chosen] else "NoRoom"

    def _pool(self, row: int) -> str:
        size, job = int(self._all.size[row]), self._jobs[self._all.job[row]]
        return job.sizes.pool[size] if 0 <= size < len(job.sizes.pool) else ""

    def _decision(self, place: int) -> ClusterDecision:
        row, runs = self._row[place], self._jobs[place].current is not None
        if self._all.size[row] < 0:
            return ClusterDecision.KEEP if runs and not self._jobs[place].preemptible else ClusterDecision.WAIT
        if not runs:
            return ClusterDecision.START
        return ClusterDecision.KEEP if self._all.present[row] and not self._moved[place] else ClusterDecision.CHANGE

    def _answer(self, place: int) -> JobAnswer:
        job, c, row = self._jobs[place], self._all, int(self._row[place])
        decision, size = self._decision(place), int(c.size[row])
        reason, message = self._why(place, decision)
        held = self._made.nodes.held[place]
        before = math.nan
        if job.current is not None and job.current < len(job.sizes.goodput):
            before = float(job.sizes.goodput[job.current])
        told = tuple(np.concatenate(held.nodes).tolist())
        unsound = size < 0 and decision is ClusterDecision.KEEP
        return JobAnswer(
            name=job.name, user=job.user, decision=decision, reason=reason, message=message,
            size=job.current if unsound else None if size < 0 else size,
            pool=self._pool(row), workers=int(c.workers[row]), ps=int(c.ps[row]),
            goodput=float(c.goodput[row]) if size >= 0 else math.nan,
            price_per_hour=float(c.price[row]) if size >= 0 else 0.0,
            goodput_before=before, nodes=told,
        )  # fmt: skip

    def _why(self, place: int, decision: ClusterDecision) -> tuple[str, str]:
        c, row, job = self._all, int(self._row[place]), self._jobs[place]
        value, cost, best = float(self._values.net[row]), float(self._cost[row]), float(self._best_surplus[place])
        numbers = f"worth {value:.4g}, taking {cost:.4g} at the marginal prices"
        size = f"{workers(int(c.workers[row]))} at {speed(float(c.goodput[row]))} samples/s"
        if decision is ClusterDecision.WAIT:
            return self._why_waits(place, best)
        if decision is ClusterDecision.KEEP:
            if c.size[row] < 0:
                return "Invalid", "its sizes aren't a table with its present one in it; it keeps what it has"
            if job.pinned:
                return "Pinned", f"pinned to {size}"
            if not c.goodput[row] > 0.0:
                return (
                    "SpeedUnknown",
                    "what it has now has no known speed above zero, so nothing can be compared to it",
                )
            if self._best_restless[place] > value - cost + 1e-9 >= best - 1e-9 * abs(best):
                return "NotWorthARestart", f"keeps {size}; a faster size isn't worth the restart within the horizon"
            if best > value - cost + 1e-6 * abs(best):
                return "NoRoom", f"keeps {size}, {numbers}; a size worth {best:.4g} more than it takes has no room"
            return "BestAsIs", f"keeps {size}, {numbers}"
        before = int(c.first[place]) + (job.current or 0)
        if decision is ClusterDecision.START:
            if not c.goodput[row] > 0.0:
                return "StartsUnknown", f"starts with {workers(int(c.workers[row]))}; its speed isn't known"
            return "Starts", f"starts with {size}, {numbers}"
        if row == before:
            return "Moves", f"keeps {size} on other nodes, so that others fit"
        elsewhere = 0 <= c.pool[before] != c.pool[row]  # where it isn't known in which it is, no other one is
        reason = "OtherPool" if elsewhere else _direction(c, row, before)
        was = f"{workers(int(c.workers[before]))} at {speed(float(c.goodput[before]))}"
        return reason, f"from {was} to {size}, {numbers}"

    def _why_waits(self, place: int, best: float) -> tuple[str, str]:
        rows = np.arange(self._all.first[place], self._all.first[place + 1])
        rows = rows[self._all.size[rows] >= 0]
        if self._jobs[place].pinned:
            return "Pinned", "pinned to wait"
        if not len(rows):
            return "NoSizes", "no size is known that it may take"
        if not self._choosable[place]:
            reason, words = BARRED[Barred(int(np.bincount(self._all.barred[rows]).argmax()))]
            return reason, f"none of its {len(rows)} sizes can be taken: of most, {words}"
        if best > 1e-9:
            return "NoRoom", f"a size worth {best:.4g} more than it takes has no room"
        cheapest = float(np.nanmin(self._cost[rows]))
        return "CapacityTaken", (
            f"others make more of what there is: its best size is worth {self._best_value[place]:.4g}, its cheapest "
            f"takes {cheapest:.4g} at the marginal prices"
        )


def _direction(c: Choices, row: int, before: int) -> str:
    new, old = (int(c.workers[one]) + int(c.ps[one]) for one in (row, before))
    return "Grows" if new > old else "Shrinks" if new < old else "Reshapes"
