"""What a job that never ran begins with: what it asks for; where it asks for nothing, what jobs like it needed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from convoy.brain.plan.answer import JobRequest, Stage
from convoy.brain.plan.limits import Limits
from convoy.brain.plan.needs import Needs
from convoy.brain.plan.sizes import Size

DEFAULT_CPU = 1.0
"""Cores of a worker of which nobody says anything."""


@dataclass(frozen=True)
class Beginning:
    """A request, completed."""

    request: JobRequest
    before: JobRequest
    """As it came."""
    alike: Size | None = None
    """What turned out right for jobs like it; None: that isn't known."""
    scope: str = ""
    """How that is known, as the start-up model says."""


def beginning(request: JobRequest, needs: Needs) -> Beginning:
    """Return the request with allotments for a start, where it leaves them out; a running job's stays as it is."""
    if request.stage is not Stage.START or needs.startup is None or not len(needs.described):
        return Beginning(_defaulted(request), request)
    told = needs.startup.recommend(needs.described).iloc[0]
    if told["reason"] == "NothingKnown":
        return Beginning(_defaulted(request), request)
    limits, servers = request.limits, float(told["ps"])
    limits = replace(
        limits,
        worker_cpu=limits.worker_cpu or _within(told["worker_cpu"], limits.largest_node_cpu),
        worker_memory=limits.worker_memory or int(_within(told["worker_memory"], limits.largest_node_memory)),
    )
    if request.served:
        limits = replace(
            limits,
            ps_cpu=limits.ps_cpu or _within(told["ps_cpu"], limits.largest_node_cpu),
            ps_memory=limits.ps_memory or int(_within(told["ps_memory"], limits.largest_node_memory)),
        )
    workers = float(told["workers"])
    alike = Size(int(workers), max(1, _whole(servers)) if request.served else 0) if workers >= 1 else None
    completed = replace(request, limits=limits)
    return Beginning(_defaulted(completed), request, alike, str(told["reason"]))


def _defaulted(request: JobRequest) -> JobRequest:
    limits: Limits = request.limits
    return request if limits.worker_cpu > 0 else replace(request, limits=replace(limits, worker_cpu=DEFAULT_CPU))


def _within(value: float, most: float) -> float:
    """Return an amount, no more than a node has; 0 where it isn't known."""
    if math.isnan(value) or value <= 0:
        return 0.0
    return min(float(value), float(most)) if most > 0 else float(value)


def _whole(value: float) -> int:
    return int(value) if math.isfinite(value) else 0
