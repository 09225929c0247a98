"""Keeping a job's master: exactly one lives for ever while training goes on. Pure.

A master that is gone - failed, deleted, ended - is followed by the next index, never by anything done to a worker.
Only when several in a row lived under a minute does the next one wait.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from convoy.core.api import names
from convoy.core.api.job_status import MasterKeeping
from convoy.core.api.meta import Condition
from convoy.core.api.pod import Pod, PodPhase
from convoy.operator.observe import Observed

QUICK = timedelta(minutes=1)
"""A master that lived shorter was lost quickly."""
FREE_LOSSES = 3
"""Quick losses in a row that are made good at once."""
LONGEST_WAIT = timedelta(seconds=30)
KEPT = 2
"""Masters that ended and are kept for their logs."""
MASTER_AVAILABLE = "MasterAvailable"


class Keeping(NamedTuple):
    """What to do about the master.

    Attributes:
        record: what the status must say before anything is created; None where there was no master yet.
        create: index of the master to create now.
        wait: seconds until one may be created.
        delete: masters' pods that are of no more use.
        condition: MasterAvailable.
    """

    record: MasterKeeping | None
    create: int | None
    wait: float | None
    delete: tuple[Pod, ...]
    condition: Condition


def keep_master(seen: Observed, now: datetime) -> Keeping:
    """Decide about the master of a job whose training isn't over."""
    masters = seen.masters
    record = seen.job.status.master_keeping
    living = [pod for pod in masters if pod.alive]
    if living:
        current = living[-1]
        record = record if record and record.index >= current.id else _made(record, current.id, now)
        return Keeping(record, None, None, _spare(masters, current), _available(current))
    last = masters[-1] if masters else None
    lost = max([record.index if record else -1, *(pod.id for pod in masters)])
    quick = _quick_losses(record, lost, now)
    earliest = record.created_time + _wait(quick) if record else now
    if earliest > now:
        condition = Condition(
            type=MASTER_AVAILABLE,
            status="False",
            reason="MasterBackOff",
            message=f"{quick} masters in a row lived under a minute{_how(last)}; the next one is made at "
            f"{earliest.isoformat(timespec='seconds')}",
        )
        return Keeping(record, None, (earliest - now).total_seconds(), (), condition)
    index = lost + 1
    while names.master_pod(seen.job.metadata.name, index) in seen.taken:
        index += 1
    condition = Condition(
        type=MASTER_AVAILABLE,
        status="False",
        reason="MasterLost" if lost >= 0 else "MasterStarting",
        message=f"master {lost} is gone{_how(last)}; master {index} is being made"
        if lost >= 0
        else "it is being made",
    )
    made = MasterKeeping(index=index, created_time=now, quick_losses=quick)
    return Keeping(made, index, None, (), condition)


def _made(record: MasterKeeping | None, index: int, now: datetime) -> MasterKeeping:
    """Return a record for a master that is there though nothing is recorded of it (a status that was lost)."""
    return MasterKeeping(
        index=index,
        created_time=record.created_time if record else now,
        quick_losses=record.quick_losses if record else 0,
    )


def _quick_losses(record: MasterKeeping | None, lost: int, now: datetime) -> int:
    if record is None or lost < 0:
        return 0
    return record.quick_losses + 1 if now - record.created_time < QUICK else 0


def _wait(quick_losses: int) -> timedelta:
    if quick_losses <= FREE_LOSSES:
        return timedelta(0)
    doublings = min(quick_losses - FREE_LOSSES - 1, 10)
    return min(timedelta(seconds=2**doublings), LONGEST_WAIT)


def _spare(masters: list[Pod], current: Pod) -> tuple[Pod, ...]:
    """Return the pods to delete: others that live, and ended ones but for the last few."""
    others = [pod for pod in masters if pod.name != current.name and not pod.deleting]
    ended = [pod for pod in others if pod.phase.is_over]
    return tuple(pod for pod in others if pod.alive or pod not in ended[-KEPT:])


def _available(pod: Pod) -> Condition:
    running = pod.phase is PodPhase.RUNNING
    return Condition(
        type=MASTER_AVAILABLE,
        status="True" if running else "False",
        reason="MasterRunning" if running else "MasterStarting",
        message=f"{pod.name} {'runs' if running else 'has not started yet'}",
    )


def _how(pod: Pod | None) -> str:
    if pod is None or pod.exit_code is None:
        return ""
    told = f": {pod.message}" if pod.message else ""
    return f" (the last one ended with exit code {pod.exit_code}{told})"
