"""Limits for containers without a past, from others of the same rank, template or role: from their largest, never
from a mean, so that one fat parameter server doesn't hide among thin ones.

With n others the next is as likely as they to be the largest: it exceeds their (1 - rate) quantile at about ``rate``
if n is large enough for that quantile to be one of them. Where it isn't, the tail beyond the largest is taken as
exponential in logarithms, with the spread that such groups have.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from convoy.brain.models.memory.usage import Array, Container
from convoy.brain.models.memory.windows import KILL_EXCESS

LEVELS = ("SameRank", "SameTemplate", "SameRole", "AnyContainer")
LEAST_OF_RANK = 3
"""Containers of one rank that are trusted to show what the rank needs; of fewer all ranks count."""
SPREAD, SPREAD_WEIGHT = 0.25, 2.0
"""What a group's spread is taken to be before it is seen, and how many containers that counts as."""
MOST_BEYOND = float(np.log(4.0))
"""The tail beyond the largest isn't followed further."""

Labels = tuple[str | None, str | None, str | None]


@dataclass(frozen=True)
class Answer:
    """A limit from others, and from whom."""

    limit: float
    """Logarithm of bytes."""
    level: str
    others: int
    promised: bool
    """Others are enough for the rate to rest on them."""


@dataclass
class Siblings:
    """What containers needed at most, by what they have in common."""

    groups: dict[tuple[str | None, ...], list[float]] = field(default_factory=dict)

    @classmethod
    def of(cls, needs: Iterable[tuple[Labels, float]]) -> Siblings:
        """Return the groups of containers with their labels and needs (logarithms)."""
        found = cls()
        for labels, need in needs:
            for key in _keys(labels):
                if key is not None:
                    found.groups.setdefault(key, []).append(need)
        return found

    def answer(self, labels: Labels, rate: float, levels: int = len(LEVELS)) -> Answer | None:
        """Return the limit by the closest level that has others; None where none has.

        Args:
            labels: of the container that asks.
            rate: at which the limit may be exceeded.
            levels: how many of ``LEVELS`` may answer.
        """
        for number, key in enumerate(_keys(labels)[:levels]):
            others = self.groups.get(key, []) if key is not None else []
            if len(others) >= (LEAST_OF_RANK if number == 0 else 1):
                promised = (len(others) + 1) * rate >= 1.0
                return Answer(_beyond(np.sort(others), rate), LEVELS[number], len(others), promised)
        return None


def need_of(container: Container) -> float | None:
    """Return the logarithm of the most that a container needed; None where it used nothing."""
    if not container.has_history:
        return None
    largest = float(container.used.max())
    killed = bool(np.any(container.killed & (container.used >= largest)))
    return largest + (KILL_EXCESS if killed else 0.0)


def _keys(labels: Labels) -> list[tuple[str | None, ...] | None]:
    template, role, rank = labels
    of_template = None if template is None or role is None else ("template", template, role)
    of_rank = None if of_template is None or rank is None else ("rank", template, role, rank)
    return [of_rank, of_template, None if role is None else ("role", role), ("any",)]


def _beyond(needs: Array, rate: float) -> float:
    place = int(np.ceil((len(needs) + 1) * (1.0 - rate))) - 1
    if place < len(needs):
        return float(needs[place])
    pairs = np.abs(needs[:, None] - needs[None, :]).sum() if len(needs) > 1 else 0.0
    # the mean distance of two draws is the scale of an exponential tail
    own = pairs / max(len(needs) * (len(needs) - 1), 1)
    seen = len(needs) - 1
    scale = (seen * own + SPREAD_WEIGHT * SPREAD) / (seen + SPREAD_WEIGHT)
    return float(needs[-1] + min(scale * np.log(1.0 / ((len(needs) + 1) * rate)), MOST_BEYOND))
