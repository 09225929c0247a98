"""Claims about the training: its steps, its batch, and what each kill cost."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from convoy.cli.demo.verify.evidence import Evidence, Kill, moment
from convoy.cli.demo.verify.steps import Round, Trace
from convoy.cli.demo.verify.verdict import Finding, Unfounded

WARM_UP = 2.0
"""Seconds after a round's first step in which gaps don't count as undisturbed."""
AFTERMATH = 10.0
"""Seconds after a kill that count as disturbed by it."""


def repeated_nothing(evidence: Evidence) -> Finding:
    """Between two rounds that no kill separates, and within each round, step follows step, finished by all."""
    changes, wrong = 0, []
    for before, after in pairwise(evidence.trace.rounds):
        if any(_struck(kill, before, after) for kill in evidence.kills):
            continue
        changes += before.world != after.world
        if after.first.step != before.last.step + 1:
            wrong.append(f"round {after.number} began with step {after.first.step} after {before.last.step}")
        if len({account.rank for account in before.last.accounts}) != before.world:
            wrong.append(f"step {before.last.step} of round {before.number} wasn't finished by all")
    wrong += [text for one in evidence.trace.rounds for text in _holes(one)]
    facts = "; ".join(wrong[:3]) or f"{changes} changes of size at a step boundary, no step repeated or left out"
    return Finding(not wrong and changes > 0, facts, str(evidence.trace.directory))


def _struck(kill: Kill, before: Round, after: Round) -> bool:
    """Return whether a kill of a member of ``before`` is why ``after`` began."""
    member = kill.pid in before.pids or kill.pod in before.pods
    return kill.what in ("worker", "node") and member and before.first.t <= kill.t <= after.first.t


def _holes(one: Round) -> Iterable[str]:
    for step, following in pairwise(one.steps):
        if following.step != step.step + 1:
            yield f"round {one.number} has no step {step.step + 1}"
        if [account.rank for account in step.accounts] != list(range(one.world)):
            yield f"step {step.step} of round {one.number} was finished by ranks {[a.rank for a in step.accounts]}"
    ranks = [account.rank for account in one.last.accounts]
    if len(set(ranks)) != len(ranks):
        yield f"step {one.last.step} of round {one.number} was finished by ranks {ranks}"


def kept_global_batch(evidence: Evidence) -> Finding:
    """At every step of every rank the global batch is the same, and the ranks' parts add up to it."""
    batches = {account.global_batch for account in evidence.trace.accounts}
    wrong, steps = [], 0
    for one in evidence.trace.rounds:
        for step in one.steps:
            steps += 1
            total = sum(account.local_batch for account in step.accounts)
            wanted = step.accounts[0].global_batch
            if total > wanted or (total < wanted and len(step.accounts) == one.world):
                wrong.append(f"; the parts of step {step.step} of round {one.number} add up to {total}")
    facts = f"{sorted(batches)} at {steps} steps of {len(evidence.trace.rounds)} rounds{''.join(wrong[:3])}"
    return Finding(len(batches) == 1 and not wrong, facts, str(evidence.trace.directory))


def survived_worker(evidence: Evidence) -> Finding:
    """After a worker's death training went on, repeating at most the steps since the last checkpoint."""
    kill = _kill(evidence, "worker")
    holds, facts = _lost_little(evidence.trace, kill)
    gone = all(account.t <= kill.t + 1.0 for account in evidence.trace.accounts if account.pid == kill.pid)
    return Finding(holds and gone, facts, str(evidence.trace.directory))


def survived_node(evidence: Evidence) -> Finding:
    """Likewise after a node's death; another node took its place."""
    kill = _kill(evidence, "node")
    holds, facts = _lost_little(evidence.trace, kill)
    later = {account.pod for account in evidence.trace.accounts if account.t > kill.t + 1.0}
    new = sorted(later - {account.pod for account in evidence.trace.accounts if account.t <= kill.t})
    facts += f"; {kill.pod} trained no more, {', '.join(new) or 'no pod'} came"
    return Finding(holds and kill.pod not in later and bool(new), facts, str(evidence.trace.directory))


def _lost_little(trace: Trace, kill: Kill) -> tuple[bool, str]:
    before = trace.round_at(kill.t)
    after = trace.after(before) if before else None
    if before is None or after is None:
        raise Unfounded(f"no step was finished before or after the {kill.what} was killed")
    if kill.pid not in before.pids and kill.pod not in before.pods:
        raise Unfounded(f"{kill.pod} (pid {kill.pid}) didn't train in round {before.number} when it was killed")
    checkpoint = trace.last_checkpoint(after.first.t)
    repeated, allowed = before.last.step - after.first.step + 1, before.last.step - checkpoint
    on = trace.rounds[-1].last.step - before.last.step
    facts = (
        f"stopped at step {before.last.step}, went on with {after.first.step} after {after.first.t - kill.t:.1f} s: "
        f"{repeated} repeated, {allowed} since checkpoint {checkpoint}; {on} new steps since"
    )
    return 0 <= repeated <= allowed and on >= 10, facts


def survived_master(evidence: Evidence) -> Finding:
    """After the master's death the same processes trained on in the same round, and a new master took the job.

    For five seconds at least, unless a plan that was made since changed the size before.
    """
    kill = _kill(evidence, "master")
    one = _round(evidence.trace, kill)
    early = {account.pid for step in one.steps for account in step.accounts if account.t <= kill.t}
    later = [step for step in one.steps if step.t > kill.t]
    late = {account.pid for step in later for account in step.accounts}
    lasted = later[-1].t - kill.t if later else 0.0
    master = _status(evidence, "master")
    facts = (
        f"pids {sorted(early)} before, {sorted(late)} after; {len(later)} steps in {lasted:.1f} s more of round "
        f"{one.number}; epoch {master.get('epoch')} held by {master.get('pod')}"
    )
    lasted_enough = lasted >= 5.0 or (bool(later) and _resized(evidence, kill, one))
    holds = early == late and lasted_enough and master.get("epoch", 0) >= 2 and master.get("pod") != kill.pod
    return Finding(holds, facts, f"{evidence.trace.directory}; {evidence.objects}")


def _resized(evidence: Evidence, kill: Kill, one: Round) -> bool:
    """Return whether a plan made since the kill is why the round ended, with another size and no step repeated."""
    after = evidence.trace.after(one)
    if after is None or after.world == one.world or after.first.step != one.last.step + 1:
        return False
    return any(kill.t <= moment(plan["metadata"]["creationTimestamp"]) <= after.first.t for plan in evidence.plans)


def restarts_add_up(evidence: Evidence) -> Finding:
    """The restarts and relaunches counted are those of the killed workers and nodes: none for the master."""
    training = _status(evidence, "training")
    counted = (training.get("restarts") or 0, training.get("relaunches") or 0)
    kills = [kill.what for kill in evidence.kills]
    wanted = (kills.count("worker"), kills.count("node"))
    facts = f"restarts {counted[0]}, killed workers {wanted[0]}; relaunches {counted[1]}, killed nodes {wanted[1]}"
    return Finding(counted == wanted, facts, str(evidence.objects))


def missed_no_master(evidence: Evidence) -> Finding:
    """The longest gap between steps after the master's death is at most twice the longest of the undisturbed part.

    Undisturbed: rounds of the same size, without their first two seconds and without the ten seconds after any kill.
    """
    kill = _kill(evidence, "master")
    one = _round(evidence.trace, kill)
    after = one.gaps(kill.t - 1.0, kill.t + AFTERMATH)
    calm = [
        gap for other in evidence.trace.rounds if other.world == one.world for gap in _calm(other, evidence.kills)
    ]
    if not after or len(calm) < 20:
        raise Unfounded(f"{len(after)} gaps after the master was killed, {len(calm)} undisturbed ones: too few")
    facts = (
        f"{1000 * max(after):.0f} ms, undisturbed {1000 * max(calm):.0f} ms: {max(after) / max(calm):.2f} times "
        f"({len(calm)} undisturbed gaps)"
    )
    return Finding(max(after) <= 2.0 * max(calm), facts, str(evidence.trace.directory))


def _calm(one: Round, kills: list[Kill]) -> list[float]:
    times = [step.t for step in one.steps if step.t >= one.first.t + WARM_UP]
    return [
        later - earlier
        for earlier, later in pairwise(times)
        if not any(kill.t <= later and earlier <= kill.t + AFTERMATH for kill in kills)
    ]


def succeeded(evidence: Evidence) -> Finding:
    """The job ended Succeeded."""
    phase = (evidence.job.get("status") or {}).get("phase")
    facts = f"phase {phase}, last step {evidence.trace.rounds[-1].last.step}"
    return Finding(phase == "Succeeded", facts, str(evidence.objects))


def _kill(evidence: Evidence, what: str) -> Kill:
    found = next((kill for kill in evidence.kills if kill.what == what), None)
    if found is None:
        raise Unfounded(f"no {what} was killed")
    return found


def _round(trace: Trace, kill: Kill) -> Round:
    found = trace.round_at(kill.t)
    if found is None:
        raise Unfounded(f"no step was finished before the {kill.what} was killed")
    return found


def _status(evidence: Evidence, part: str) -> dict[str, Any]:
    found: dict[str, Any] = (evidence.job.get("status") or {}).get(part) or {}
    return found
