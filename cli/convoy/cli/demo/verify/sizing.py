"""Claims about the size: what the Brain knew and said, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from convoy.cli.demo.verify.evidence import Evidence, Row, moment
from convoy.cli.demo.verify.steps import Round, Trace
from convoy.cli.demo.verify.verdict import Finding, Unfounded
from convoy.cli.screen import counted

WARM_UP = 2.0
"""Seconds after a round's first step that no speed is taken from."""
_INTERVAL = ("lower99", "lower90", "predicted", "upper90", "upper99")


@dataclass(frozen=True, slots=True)
class Growth:
    """The last change of size before the first kill that the Brain asked for."""

    advice: Row
    plan: dict[str, Any]
    before: Round
    after: Round


def growth(evidence: Evidence) -> Growth:
    """Return it.

    Raises:
        Unfounded: there is no such plan, recommendation or round.
    """
    first_kill = min((kill.t for kill in evidence.kills), default=float("inf"))
    advised = {row["id"]: row for row in evidence.recommendations}
    for plan in reversed(evidence.plans):
        planned = moment(plan["metadata"]["creationTimestamp"])
        advice = advised.get(((plan["spec"].get("explanation")) or {}).get("recommendation"))
        if advice is None or planned >= first_kill or advice["workers"] == advice["workers_before"]:
            continue
        before = evidence.trace.round_at(planned)
        after = evidence.trace.after(before) if before else None
        if before is None or after is None:
            raise Unfounded(f"no step was finished before or after {plan['metadata']['name']}")
        return Growth(advice, plan, before, after)
    raise Unfounded("no plan before the first kill changes the size by a recommendation of the store")


def history_was_there(evidence: Evidence) -> Finding:
    """Every observation of history is marked imported and was there before the job."""
    created = moment(evidence.job["metadata"]["creationTimestamp"])
    wrong = [row for row in evidence.history if row["origin"] != "imported" or moment(row["imported_at"]) >= created]
    sizes = sorted({row["workers"] for row in evidence.history})
    facts = f"{len(evidence.history)} observations at sizes {sizes}, {len(wrong)} unmarked or later than the job"
    return Finding(bool(evidence.history) and not wrong, facts, f"{evidence.store}: history_observation")


def started_wrong(evidence: Evidence) -> Finding:
    """The job asked for one worker, may have more, and began with one."""
    worker = evidence.job["spec"]["replicaSpecs"]["worker"]
    first = evidence.trace.rounds[0]
    holds = worker.get("replicas") == 1 and worker.get("maxReplicas", 1) > 1 and first.world == 1
    facts = f"asked {worker.get('replicas')}, at most {worker.get('maxReplicas')}; the first round had {first.world}"
    return Finding(holds, facts, str(evidence.trace.directory))


def load_arrived(evidence: Evidence) -> Finding:
    """The store holds CPU and memory of every pod that trained for five seconds."""
    trained = {pod for pod, seconds in _trained(evidence.trace).items() if seconds >= 5.0}
    real = [row for row in evidence.loads if row["cpu_cores"] > 0 and row["memory_bytes"] > 1 << 20]
    absent = trained - {row["node"] for row in real}
    measured = all(row["source"] == "agent" for row in real)
    facts = f"{counted(len(real), 'sample')} of {counted(len(trained), 'node')}" + (
        f"; none of {', '.join(sorted(absent))}" if absent else ""
    )
    return Finding(bool(trained) and not absent and measured, facts, f"{evidence.store}: job_node_load")


def speed_arrived(evidence: Evidence) -> Finding:
    """The store holds speeds at each size, and each agrees with what the processes logged themselves."""
    if not evidence.speeds:
        raise Unfounded("no speed of the job is in the store")
    times = {(one.number, step.step): step.t for one in evidence.trace.rounds for step in one.steps}
    batch = evidence.trace.accounts[0].global_batch
    wrong = [row for row in evidence.speeds if _contradicted(row, times, batch)]
    sizes = {row["workers"] for row in evidence.speeds}
    trained = {one.world for one in evidence.trace.rounds if one.last.t - one.first.t >= 5.0}
    facts = f"{len(evidence.speeds)} windows at sizes {sorted(sizes)}, {len(wrong)} that the step logs contradict"
    return Finding(
        not wrong and trained <= sizes, facts, f"{evidence.store}: training_speed; {evidence.trace.directory}"
    )


def _contradicted(row: Row, times: dict[tuple[int, int], float], batch: int) -> bool:
    if row["samples"] != (row["last_step"] - row["first_step"] + 1) * batch or row["origin"] == "imported":
        return True
    begin, end = times.get((row["round"], row["first_step"] - 1)), times.get((row["round"], row["last_step"]))
    if end is None:
        return True
    return begin is not None and abs(row["seconds"] - (end - begin)) > 0.2 + 0.1 * row["seconds"]


def recommended_first(evidence: Evidence) -> Finding:
    """The recommendation was recorded before its plan, with an interval, a price and a reason."""
    found = growth(evidence)
    advice, name = found.advice, found.plan["metadata"]["name"]
    ahead = moment(found.plan["metadata"]["creationTimestamp"]) - moment(advice["made_at"])
    interval = [advice[name] for name in _INTERVAL]
    whole = None not in interval and interval == sorted(interval) and interval[0] < interval[-1]
    priced = advice["price_per_hour"] is not None and advice["price_per_hour"] > 0
    shown = " <= ".join("-" if value is None else f"{value:.0f}" for value in interval)
    facts = (
        f"{advice['decision']} to {advice['workers']} [{advice['reason']}], {shown} samples/s, "
        f"{advice['price_per_hour']} {advice['currency']}/h, {ahead:.2f} s before {name}"
    )
    holds = ahead >= 0 and whole and priced and bool(advice["reason"])
    return Finding(holds, facts, f"{evidence.store}: recommendation {advice['id']}")


def carried_out(evidence: Evidence) -> Finding:
    """The operator carried the plan out, and the job trained at the recommended size."""
    found = growth(evidence)
    phase = (found.plan.get("status") or {}).get("phase")
    holds = phase == "Succeeded" and found.after.world == found.advice["workers"]
    facts = (
        f"{found.plan['metadata']['name']} {phase}; {counted(found.before.world, 'worker')} "
        f"in round {found.before.number}, {found.after.world} in round {found.after.number}, "
        f"{found.advice['workers']} recommended"
    )
    return Finding(holds, facts, f"{evidence.objects}; {evidence.trace.directory}")


def kept_its_word(evidence: Evidence) -> Finding:
    """The speed after the growth, until the first kill, is inside the predicted 99 % interval."""
    found = growth(evidence)
    until = min((kill.t for kill in evidence.kills), default=found.after.last.t)
    speed = found.after.speed(found.after.first.t + WARM_UP, min(until, found.after.last.t))
    if speed is None:
        raise Unfounded(
            f"round {found.after.number} trained too short a time before the first kill to tell its speed"
        )
    lower, upper = found.advice["lower99"], found.advice["upper99"]
    facts = (
        f"{speed:.0f} samples/s; predicted {found.advice['predicted']:.0f}, 99 % interval {lower:.0f}..{upper:.0f}"
    )
    return Finding(
        lower <= speed <= upper,
        facts,
        f"{evidence.trace.directory}; {evidence.store}: recommendation {found.advice['id']}",
    )


def chose_well(evidence: Evidence) -> Finding:
    """Of all sizes, measured afterwards without the Brain, the chosen one is within 15 % of the fastest."""
    chosen = growth(evidence).advice["workers"]
    speeds: dict[int, float] = {}
    for job in evidence.measured:
        if job.seen:
            raise Unfounded(f"{job.name} was to be unseen by the Brain, and its store knows it")
        rounds = [one for one in job.trace.rounds if one.world == job.workers]
        speed = rounds[-1].speed(rounds[-1].first.t + WARM_UP, rounds[-1].last.t) if rounds else None
        if speed is None:
            raise Unfounded(f"{job.name} trained too short a time at {job.workers} to tell its speed")
        speeds[job.workers] = max(speed, speeds.get(job.workers, 0.0))
    absent = sorted({chosen, *range(1, evidence.largest_size + 1)} - speeds.keys())
    if absent:
        raise Unfounded(f"sizes {absent} weren't measured")
    best = max(speeds, key=lambda size: speeds[size])
    share = speeds[chosen] / speeds[best]
    shown = ", ".join(f"{size}: {speed:.0f}" for size, speed in sorted(speeds.items()))
    facts = f"chosen {chosen} has {100 * share:.0f} % of the best ({best}); samples/s {shown}"
    return Finding(share >= 0.85, facts, f"step logs of {', '.join(job.name for job in evidence.measured)}")


def _trained(trace: Trace) -> dict[str, float]:
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    for account in trace.accounts:
        first[account.pod] = min(account.t, first.get(account.pod, account.t))
        last[account.pod] = max(account.t, last.get(account.pod, account.t))
    return {pod: last[pod] - first[pod] for pod in first}
