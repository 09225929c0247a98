"""Cores and memory as part of the decision: more of them at once where a pod was killed, fewer where that pays."""

from __future__ import annotations

import math
from dataclasses import replace

from convoy.brain.plan import explain, guards
from convoy.brain.plan.answer import Decision, JobRecommendation, JobRequest, RoleAdvice, Stage
from convoy.brain.plan.limits import Limits
from convoy.brain.plan.options import price_of
from convoy.brain.plan.prices import Prices
from convoy.brain.plan.reply import answered
from convoy.brain.plan.sizes import Size

LEAST_SAVED = 0.2
"""Share of a job's price, or of its cores, that must be idle for a restart to give it back."""


def with_roles(
    answer: JobRecommendation, request: JobRequest, roles: tuple[RoleAdvice, ...], prices: Prices
) -> JobRecommendation:
    """Return the answer with the advice on roles; what can be carried out becomes part of it where that is due."""
    answer = replace(answer, roles=roles)
    if not any(role.differs for role in roles):
        return answer
    if "resources" not in request.adjustable:
        return replace(answer, notes=(*answer.notes, _left(roles)))
    if not answer.moves:
        answer = _killed(answer, request, roles) or _idle(answer, request, roles, prices) or answer
    if not answer.moves:
        return answer
    decided = tuple(replace(role, decided=role.differs) for role in roles)
    size = Size(answer.target_workers, answer.target_ps)
    price = price_of(size, allotted(request.limits, decided), prices)
    return replace(answer, roles=decided, price_per_hour=price)


def allotted(limits: Limits, roles: tuple[RoleAdvice, ...]) -> Limits:
    """Return the limits with what roles are to be allotted."""
    found = {
        f"{role.role}_{name}": getattr(role, name) for role in roles for name in ("cpu", "memory") if role.decided
    }
    return replace(limits, **found)


def _left(roles: tuple[RoleAdvice, ...]) -> str:
    said = "; ".join(f"{role.role}: {role.message}" for role in roles if role.differs)
    return f"advice that isn't carried out by itself: {said}"


def _killed(
    answer: JobRecommendation, request: JobRequest, roles: tuple[RoleAdvice, ...]
) -> JobRecommendation | None:
    """Return the change that gives more memory where a pod was killed for it; None: none was, or there is no more."""
    short = [role for role in roles if "OutOfMemory" in role.reason.split("+") and role.memory > role.memory_before]
    if not short or request.stage is Stage.START:
        return None
    message = "; ".join(f"{role.role}: {role.message}" for role in short)
    return _at_present(answer, request, "OutOfMemory", f"{message}; otherwise: {answer.message}")


def _idle(
    answer: JobRecommendation, request: JobRequest, roles: tuple[RoleAdvice, ...], prices: Prices
) -> JobRecommendation | None:
    """Return the change that gives idle cores and memory back; None: a restart costs more than they do."""
    if answer.decision is not Decision.KEEP or not all(_less(role) for role in roles):
        return None
    shrunk = allotted(request.limits, tuple(replace(role, decided=role.differs) for role in roles))
    before, after = (price_of(request.current, limits, prices) for limits in (request.limits, shrunk))
    if not before > 0:  # no price is known: cores, then
        before, after = (_cores(request.current, limits) for limits in (request.limits, shrunk))
    if not before > 0:
        return None
    restart, horizon = guards.restart_seconds(request.restart_seconds), request.horizon_seconds
    saved = 1.0 - after / before
    if saved < LEAST_SAVED or not saved * max(horizon - restart, 0.0) > restart:
        return None
    said = "; ".join(f"{role.role}: {role.message}" for role in roles if role.differs)
    message = (
        f"{said}; {saved:.0%} less, which pays a restart of {explain.duration(restart)} back within "
        f"{explain.duration(horizon)}; as for its size: {answer.message}"
    )
    return _at_present(answer, request, "IdleResources", message)


def _at_present(answer: JobRecommendation, request: JobRequest, reason: str, message: str) -> JobRecommendation:
    present = next((option for option in answer.options if option.size == request.current), None)
    if present is None:
        return replace(answer, decision=Decision.CHANGE, reason=reason, message=message)
    changed = answered(
        Decision.CHANGE, reason, message, present, answer.options, "chosen: present size, other cores or memory"
    )
    return replace(changed, roles=answer.roles, notes=answer.notes)


def _less(role: RoleAdvice) -> bool:
    return role.cpu <= role.cpu_before and role.memory <= role.memory_before


def _cores(size: Size, limits: Limits) -> float:
    cores = size.workers * limits.worker_cpu + size.ps * limits.ps_cpu
    return 0.0 if math.isnan(cores) else cores
