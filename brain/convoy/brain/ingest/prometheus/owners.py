"""Whose pod it was: a pod's name is used again when its job is. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Owner:
    """A job that has, or had, a pod of some name, and the pod as a row of load describes it.

    Attributes:
        since: the first sign of the job or of the pod, whichever is earlier.
        begun_before: whether the job may have run before that: nobody but its master told of the pod.
        until: when the pod ended or was found gone; None: it hasn't.
    """

    job_id: int
    role: str
    rank: int | None
    cpu_allotted: float | None
    memory_allotted: int | None
    since: datetime
    begun_before: bool = False
    until: datetime | None = None


def owner_of(candidates: Sequence[Owner], moment: datetime) -> Owner | None:
    """Return whose pod it was at a moment: of the job that began last until then, unless the pod had ended by then.

    What came after that end is the pod of a job that the store doesn't know yet, or never will.
    """
    begun = [one for one in candidates if one.since <= moment]
    if begun:
        last = max(begun, key=lambda one: (one.since, one.job_id))
        return last if last.until is None or moment <= last.until else None
    return min((one for one in candidates if one.begun_before), key=lambda one: one.since, default=None)
