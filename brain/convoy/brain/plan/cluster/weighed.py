"""A job's sizes as they were weighed: what each is worth, what it takes, and why it was or wasn't taken. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from convoy.brain.plan import explain
from convoy.brain.plan.cluster.answer import Alternative
from convoy.brain.plan.cluster.choices import Barred, Bools, Choices
from convoy.brain.plan.cluster.jobs import Array, ClusterJob, Ints
from convoy.brain.plan.cluster.values import Values
from convoy.brain.plan.explain import speed
from convoy.brain.plan.sizes import Size

BARRED = {
    Barred.SPEED_UNKNOWN: ("SpeedUnknown", "its speed isn't known"),
    Barred.POOL_UNKNOWN: ("PoolUnknown", "there is no such pool"),
    Barred.NO_SUCH_NODE: ("NoSuchNode", "no node is large enough for its part of one"),
    Barred.TOO_LARGE: ("TooLarge", "larger than the whole pool"),
    Barred.OVER_QUOTA: ("OverQuota", "more than its user's or its namespace's quota"),
    Barred.PRICE_UNKNOWN: ("PriceUnknown", "its price isn't known, and there is a budget"),
    Barred.HELD: ("Held", "the job is to keep what it has"),
    Barred.REFUSED: ("Refused", "a person refused it"),
}


SHOWN = 5e-3
"""Of a goodput's speed: what it may differ by and not be told."""


def speed_of(job: ClusterJob, size: int) -> float:
    """Return the samples/s that would be measured at one of a job's sizes."""
    sizes = job.sizes
    return float((sizes.speed if len(sizes.speed) == len(sizes.goodput) else sizes.goodput)[size])


def batch_of(job: ClusterJob, size: int) -> int:
    """Return the samples of a step at one of a job's sizes; 0: as it is."""
    return int(job.sizes.batch[size]) if size < len(job.sizes.batch) else 0


class Weighed:
    """All sizes of all jobs, beside what was chosen."""

    def __init__(
        self, jobs: Sequence[ClusterJob], everything: Choices, values: Values, open_: Bools, cost: Array, chosen: Ints
    ) -> None:
        """Take what was weighed.

        Args:
            jobs: in the order of their rows.
            everything: all choices, barred ones too.
            values: of them.
            open_: which can be taken.
            cost: what they take at the marginal prices, in the objective's unit; NaN where barred.
            chosen: (jobs,), the row that each job holds.
        """
        self.jobs, self.choices, self.values, self.open, self.cost, self.chosen = (
            jobs, everything, values, open_, cost, chosen
        )  # fmt: skip
        self.surplus = np.where(open_, values.net - cost, -np.inf)

    def rows(self, place: int) -> Ints:
        """Return the rows of a job's sizes; to wait isn't one."""
        rows = np.arange(self.choices.first[place], self.choices.first[place + 1])
        return rows[self.choices.size[rows] >= 0]

    def pool(self, row: int) -> str:
        """Return the pool of a row; "": it waits."""
        size, job = int(self.choices.size[row]), self.jobs[self.choices.job[row]]
        return job.sizes.pool[size] if 0 <= size < len(job.sizes.pool) else ""

    def words(self, row: int) -> str:
        """Return a size and its speed, in words."""
        c, job, size = self.choices, self.jobs[self.choices.job[row]], int(self.choices.size[row])
        shown = explain.size(Size(int(c.workers[row]), int(c.ps[row]), batch=batch_of(job, size)))
        goodput, measured = float(c.goodput[row]), speed_of(job, size)
        counted = f", which count as {speed(goodput)}" if abs(measured - goodput) > SHOWN * abs(goodput) else ""
        return f"{shown} at {speed(measured)} samples/s{counted}"

    def takes(self, row: int) -> str:
        """Return what a row is worth and what it takes, in words."""
        return f"worth {self.values.net[row]:.4g}, taking {self.cost[row]:.4g} at the marginal prices"

    def alternative(self, row: int) -> Alternative:
        """Return a row with its numbers."""
        c, job, size = self.choices, self.jobs[self.choices.job[row]], int(self.choices.size[row])
        verdict, message = self._verdict(row)
        return Alternative(
            size=size,
            pool=self.pool(row),
            workers=int(c.workers[row]),
            ps=int(c.ps[row]),
            accelerators=float(c.demand_of(row)[0]),
            goodput=float(c.goodput[row]),
            price_per_hour=float(c.price[row]),
            value=float(self.values.net[row]),
            cost=float(self.cost[row]),
            chosen=bool(row == self.chosen[c.job[row]]),
            verdict=verdict,
            message=message,
            speed=speed_of(job, size),
            batch=batch_of(job, size),
        )

    def next_best(self, place: int) -> int | None:
        """Return the row of a job's other size with the largest surplus; of none that can be taken, the fastest."""
        rows = self.rows(place)
        rows = rows[rows != self.chosen[place]]
        if not len(rows):
            return None
        if self.open[rows].any():
            return int(rows[np.argmax(self.surplus[rows])])
        return int(rows[np.argmax(np.nan_to_num(self.choices.goodput[rows], nan=-1.0))])

    def refused(self, place: int) -> list[str]:
        """Return a job's sizes that were left out since a person refused them, in words."""
        c, rows, why = self.choices, self.rows(place), self.jobs[place].refused
        left_out = rows[c.barred[rows] == Barred.REFUSED].tolist()
        return [f"{explain.workers(int(c.workers[row]))} ({why[int(c.size[row])]})" for row in left_out]

    def _verdict(self, row: int) -> tuple[str, str]:
        place = int(self.choices.job[row])
        chosen, job = int(self.chosen[place]), self.jobs[place]
        value, held = float(self.values.net[row]), float(self.values.net[chosen])
        if row == chosen:
            return "Chosen", self.takes(row)
        barred = Barred(int(self.choices.barred[row]))
        if barred is Barred.HELD and job.hold is not None:
            return job.hold.reason, job.hold.words
        if barred is Barred.REFUSED:
            return BARRED[barred][0], job.refused[int(self.choices.size[row])]
        if barred:
            return BARRED[barred]
        if value <= held:
            gross = float(self.values.gross[row])
            if gross > float(self.values.gross[chosen]):
                return "NotWorthARestart", f"worth {gross:.4g}, and {value:.4g} after the restart, against {held:.4g}"
            return "NoFaster", f"worth {value:.4g} against {held:.4g}"
        left, kept = float(self.surplus[row]), float(self.surplus[chosen])
        beside = f"{self.takes(row)}: {left:.4g} more than it takes, against {kept:.4g}"
        if left <= kept:
            return "WorthMoreElsewhere", beside
        return "NoRoom", f"{beside}; but no room is left for it"
