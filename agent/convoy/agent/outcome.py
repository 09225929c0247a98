"""How a worker group ended, from its members' exit statuses and their own accounts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class End(StrEnum):
    """Ways to end."""

    SUCCEEDED = "succeeded"
    YIELDED = "yielded"
    FAILED = "failed"


@dataclass(frozen=True)
class Account:
    """What is known of one worker.

    Attributes:
        status: its exit status, negative for a signal; None while it runs.
        order: position among the exits, from 0.
        yielded: it said that it leaves at a step boundary, saved.
        peer_lost: what it said about another process that is gone.
    """

    local_rank: int
    status: int | None = None
    order: int = 0
    yielded: bool = False
    peer_lost: str | None = None


@dataclass(frozen=True)
class Outcome:
    """The end of a group; the rest is set where it failed."""

    end: End
    local_rank: int = 0
    status: int = 0
    peer_lost: bool = False
    message: str = ""

    @property
    def exit_code(self) -> int:
        """What the launcher exits with: the worker's status, 128 + its signal where it was killed."""
        return 128 - self.status if self.status < 0 else self.status


def judge(accounts: Sequence[Account]) -> Outcome | None:
    """Return the group's end; None while it may still go well.

    The one at fault is the first that failed without saying that another was gone; if there is none, the fault is
    another node's.
    """
    failed = sorted((one for one in accounts if one.status), key=lambda one: one.order)
    at_fault = next((one for one in failed if one.peer_lost is None), None)
    if at_fault is not None:
        return Outcome(End.FAILED, at_fault.local_rank, at_fault.status or 0)
    lost = next((one for one in (*failed, *accounts) if one.peer_lost is not None), None)
    if lost is not None:
        return Outcome(End.FAILED, lost.local_rank, lost.status or 0, True, lost.peer_lost or "")
    if any(one.status is None for one in accounts):
        return None
    return Outcome(End.YIELDED if any(one.yielded for one in accounts) else End.SUCCEEDED)
