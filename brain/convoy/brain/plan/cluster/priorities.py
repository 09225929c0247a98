"""From numbers that only order jobs to steps of priority. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def steps(priorities: Sequence[float]) -> list[int]:
    """Return of each job how many steps its priority is above 0, or below: each number that a job has is one.

    Kubernetes' priorities order and don't measure: 1,000,000 is above 1,000, not a thousand times as much.
    """
    above = sorted({one for one in priorities if one > 0})
    below = sorted({one for one in priorities if one < 0}, reverse=True)
    rank = {one: place for place, one in enumerate(above, 1)} | {one: -place for place, one in enumerate(below, 1)}
    return [rank.get(one, 0) for one in priorities]
