"""Cores and memory of each role's pods: what they would use at a size, and what they should be allotted for it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pandas as pd

from convoy.brain.plan import explain
from convoy.brain.plan.answer import JobRequest, RoleAdvice
from convoy.brain.plan.guards import CLOSE
from convoy.brain.plan.heat import Heat, last_at, number, rounded
from convoy.brain.plan.needs import Needs
from convoy.brain.plan.options import SpeedModel, completed, query
from convoy.brain.plan.sizes import Size

ROOM = 1.25
"""Cores that are allotted, times the upper end of what is used."""
IDLE = 0.7
"""Of what is allotted; what is needed must be less, or the allotment stays."""
AFTER_KILL = 1.25
"""Times the limit at which a pod was killed that it gets at least."""
MEMORY_STEP = 64 * 2**20
AS_IT_IS = "AsItIs"
KNOWN = ("Observed", "Interpolated", "Extrapolated")


@dataclass(frozen=True)
class Situation:
    """A job at the size that it is to have."""

    model: SpeedModel
    own: pd.DataFrame
    request: JobRequest
    target: Size
    needs: Needs
    heat: tuple[Heat, ...]


def roles_of(at: Situation) -> tuple[RoleAdvice, ...]:
    """Return the advice on each role of a running job."""
    load = _load(at)
    return tuple(_role(at, role, load) for role in (("worker", "ps") if at.request.served else ("worker",)))


def started(request: JobRequest, target: Size, before: JobRequest, scope: str) -> tuple[RoleAdvice, ...]:
    """Return what roles start with: ``request`` is ``before`` with what history says where that said nothing."""
    found = []
    for role in ("worker", "ps") if request.served else ("worker",):
        (cpu, memory), (cpu_before, memory_before) = (_allotted(one, role) for one in (request, before))
        new = (cpu, memory) != (cpu_before, memory_before)
        said = f"{cpu:g} cores, {explain.memory(memory)} of memory, as jobs like it needed ({scope})"
        found.append(
            RoleAdvice(role, getattr(before.current, _count(role)), getattr(target, _count(role)), cpu_before, cpu,
                       math.nan, memory_before, memory, math.nan, "StartFromHistory" if new else AS_IT_IS,
                       said if new else "as the job asks")
        )  # fmt: skip
    return tuple(found)


def _count(role: str) -> str:
    return "workers" if role == "worker" else "ps"


def _allotted(request: JobRequest, role: str) -> tuple[float, int]:
    limits = request.limits
    return (limits.worker_cpu, limits.worker_memory) if role == "worker" else (limits.ps_cpu, limits.ps_memory)


def _load(at: Situation) -> pd.DataFrame | None:
    """Return what is used now and at the target, two rows; None where no model tells."""
    read = [name for name in at.own.columns if name.endswith("_used")]
    if at.needs.load is None or not at.own[read].notna().to_numpy().any():
        return None
    sizes = [at.request.current, replace(at.target, worker_cpu=0.0, ps_cpu=0.0)]
    asked = query(at.own, at.request, sizes)
    return at.needs.load.predict(completed(at.own, at.request), asked, level=0.9).reset_index(drop=True)


def _role(at: Situation, role: str, load: pd.DataFrame | None) -> RoleAdvice:
    cpu_before, memory_before = _allotted(at.request, role)
    cpu_used, memory_used = _used(at, role, load)
    cpu, cpu_why, cpu_words = _cores(at, role, cpu_before, cpu_used, load)
    memory, memory_why, memory_words = _memory(at, role, memory_before, load)
    reasons = [why for why in (cpu_why, memory_why) if why]
    words = [word for word in (cpu_words, memory_words) if word]
    return RoleAdvice(
        role,
        getattr(at.request.current, _count(role)),
        getattr(at.target, _count(role)),
        cpu_before,
        cpu,
        cpu_used,
        memory_before,
        memory,
        memory_used,
        "+".join(reasons) or AS_IT_IS,
        "; ".join(words) or "as it is",
    )


def _used(at: Situation, role: str, load: pd.DataFrame | None) -> tuple[float, float]:
    """Return cores and bytes of one pod at the target, the upper ends of the intervals."""
    if load is None:
        return math.nan, math.nan
    pods = at.request.processes_per_worker if role == "worker" else 1
    row = load.iloc[1]
    return pods * number(row, f"{role}_cpu_upper"), pods * number(row, f"{role}_memory_upper")


def _cores(
    at: Situation, role: str, allotted: float, used: float, load: pd.DataFrame | None
) -> tuple[float, str, str]:
    chosen: float = getattr(at.target, f"{role}_cpu")
    hot = next((one for one in at.heat if one.role == role), None)
    if hot is not None:
        if chosen > 0:
            return chosen, hot.reason, f"{hot.words}: {chosen:g} cores"
        if "resources" in at.request.adjustable:
            return allotted, hot.reason, f"{hot.words}; more cores aren't expected to pay a restart back"
        more = hot.more(at.request.limits.largest_node_cpu)
        return (more[0] if more else allotted), hot.reason, f"{hot.words}: {more[0] if more else allotted:g} may help"
    basis = "" if load is None else str(load.iloc[1][f"{role}_cpu_reason"])
    if allotted <= 0 or math.isnan(used) or basis not in KNOWN:
        return allotted, "", ""
    wanted = rounded(ROOM * used * (_unevenness(at) if role == "ps" else 1.0))
    if wanted > IDLE * allotted:
        return allotted, "", ""
    for cores in (wanted, rounded((wanted + allotted) / 2)):
        if cores < allotted and _slower(at, role, cores) <= CLOSE:
            return cores, "IdleCpu", f"at most {used:.3g} of {allotted:g} cores are used: {cores:g} are enough"
    return allotted, "", ""


def _unevenness(at: Situation) -> float:
    """Return how much more the busiest server uses than the mean one, by the last measurement."""
    row = last_at(at.own, at.request)
    mean, busiest = (number(row, name) for name in ("ps_cpu_used", "ps_cpu_used_max")) if row is not None else (1, 1)
    return busiest / mean if mean > 0 and busiest > mean else 1.0


def _slower(at: Situation, role: str, cores: float) -> float:
    """Return the share of its speed that the job would lose with so many cores for each pod of a role."""
    sizes = [at.target, at.target.with_cores(role, cores)]
    found = at.model.predict(completed(at.own, at.request), query(at.own, at.request, sizes), level=0.9)["mean"]
    return float(1.0 - found.iloc[1] / found.iloc[0])


def _memory(at: Situation, role: str, allotted: int, load: pd.DataFrame | None) -> tuple[int, str, str]:
    usage = _usage(at.needs.usage, role)
    if at.needs.memory is None or not len(usage):
        return allotted, "", ""
    limits = usage["limit_bytes"].dropna()
    now = float(allotted) if allotted > 0 else float(limits.iloc[-1]) if len(limits) else math.nan
    if math.isnan(now):
        return allotted, "", ""
    node = float(at.request.limits.largest_node_memory) or None
    found = at.needs.memory.recommend(usage, at.needs.oom_rate, at.needs.memory_horizon, node)
    told = found.dropna(subset=["limit_bytes"])
    if not len(told):
        return allotted, "", ""
    largest = told.iloc[int(told["limit_bytes"].to_numpy().argmax())]
    need = float(largest["limit_bytes"]) * _growth(role, load)
    killed = usage.loc[usage["oom"].astype(bool) & (usage["limit_bytes"] >= 0.95 * now), "limit_bytes"].max()
    if killed > 0:
        return _after_kill(max(need, AFTER_KILL * float(killed)), now, float(killed), node)
    wanted = _stepped(need, node)
    rate = f"at most {at.needs.oom_rate:.2g} of pods would exceed it within {at.needs.memory_horizon}"
    if wanted > 1.05 * now:
        words = f"{explain.memory(now)} of memory are too few: with {explain.memory(wanted)} {rate}"
        return wanted, "LowMemory", words
    if wanted < IDLE * now and str(largest["reason"]).startswith("OwnHistory"):
        return wanted, "IdleMemory", f"of {explain.memory(now)} of memory {explain.memory(wanted)} are enough: {rate}"
    return allotted, "", ""


def _usage(usage: pd.DataFrame, role: str) -> pd.DataFrame:
    return usage[usage["role"].eq(role)] if "role" in usage.columns else usage.iloc[:0]


def _after_kill(need: float, now: float, killed: float, node: float | None) -> tuple[int, str, str]:
    wanted = _stepped(need, node)
    said = f"a pod was killed at {explain.memory(killed)} of memory"
    if wanted <= now:
        return (
            int(now),
            "OutOfMemoryAtNode",
            (f"{said}, and no node has more: spread it over more pods, or make its batch smaller"),
        )
    return wanted, "OutOfMemory", f"{said}: {explain.memory(wanted)}"


def _growth(role: str, load: pd.DataFrame | None) -> float:
    """Return how many times its present memory a pod uses at the target."""
    if load is None:
        return 1.0
    now, then = (number(load.iloc[place], f"{role}_memory_mean") for place in (0, 1))
    return then / now if then > 0 and now > 0 else 1.0


def _stepped(need: float, node: float | None) -> int:
    wanted = math.ceil(need / MEMORY_STEP) * MEMORY_STEP
    return int(min(wanted, node)) if node else wanted
