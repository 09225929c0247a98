"""The job's status, as far as it is the master's: which master, how the training goes, whether the Brain is there."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from convoy.core.api import names
from convoy.core.api.job import OptimizeMode
from convoy.core.api.meta import Manifest
from convoy.core.api.moments import timestamp
from convoy.master.brain import Reach
from convoy.master.decide import scaling, speed
from convoy.master.decide.draft import Draft
from convoy.master.decide.policy import Policy
from convoy.master.decide.state import GroupState, RoundState, State

BRAIN_AVAILABLE = "BrainAvailable"
_PROGRESS = ("step", "samplesPerSecond", "progress", "estimatedCompletionTime")
_NO_END = datetime(2200, 1, 1, tzinfo=UTC).timestamp()
"""From then on nobody waits for a job's end."""


def training_state(state: State) -> str:
    """Return Waiting, Running, Succeeded or Failed."""
    if state.job.verdict is not None:
        return state.job.verdict.state
    return "Waiting" if state.job.round.state is RoundState.NONE else "Running"


def training(state: State, now: float, policy: Policy) -> dict[str, Any]:
    """Return status.training; what isn't known is absent."""
    job, round_ = state.job, state.job.round
    reason, message = _because(state)
    pulses = [pulse for rank in round_.ranks if (pulse := state.live.pulses.get(rank))]
    busy = [one.step for one in pulses if one.round == round_.number and one.group is not GroupState.IDLE]
    step = max(busy, default=-1)
    step = step if step >= 0 else state.live.step
    current = speed.current(Draft(state, now, policy)) if job.verdict is None else 0.0
    values: dict[str, Any] = {
        "state": training_state(state),
        "reason": reason,
        "message": message,
        "nodes": len(round_.members) if round_.state is RoundState.ACTIVE else None,
        "round": round_.number or None,
        "step": step if step >= 0 else None,
        "samplesPerSecond": round(current, 3) if current else None,
        **_outlook(state, step, current, now, policy),
        "restarts": job.restarts,
        "relaunches": job.relaunches,
    }
    return {name: value for name, value in values.items() if value is not None}


def _outlook(state: State, step: int, speed_now: float, now: float, policy: Policy) -> dict[str, Any]:
    """Return how far the job has come, and when it will be done, where it says how much there is to do."""
    total, batch = state.facts.total_samples, scaling.global_batch(Draft(state, now, policy))
    if not total or not batch:
        return {}
    done = min(total, (step + 1) * batch)
    found: dict[str, Any] = {"progress": round(done / total, 4)}
    if speed_now and done < total:
        end = now + (total - done) / speed_now
        if end < _NO_END:
            found["estimatedCompletionTime"] = timestamp(datetime.fromtimestamp(end // 60 * 60, UTC))
    return found


def without_progress(manifest: Manifest | None) -> Manifest | None:
    """Return what is applied but for what moves with every step."""
    if manifest is None:
        return None
    training_part = {name: one for name, one in manifest["status"]["training"].items() if name not in _PROGRESS}
    return {**manifest, "status": {**manifest["status"], "training": training_part}}


def brain_condition(state: State, reach: Reach | None, before: dict[str, Any] | None, now: float) -> dict[str, Any]:
    """Return the condition BrainAvailable; its time moves only with its status. ``reach``: None without a Brain."""
    notice = scaling.single_job_notice(state.facts.mode)
    if reach is None:
        status, reason = "False", "NoBrain"
        message = "no Brain is configured: the job keeps the size that was asked for, and nothing is recorded"
        if state.facts.mode is OptimizeMode.CLUSTER:
            message += "; name one in spec.brainService, or start one with `convoy brain serve`"
    else:
        status = {True: "True", False: "False", None: "Unknown"}[reach.available]
        reason, message = reach.reason, reach.message
    if notice:
        reason, message = "NoSingleJobPlanning", f"{notice} ({message})"
    moved = before is None or before.get("status") != status
    since = timestamp(datetime.fromtimestamp(now, UTC)) if moved or before is None else before["lastTransitionTime"]
    return {
        "type": BRAIN_AVAILABLE,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
    }


def manifest(state: State, pod: str, training_part: dict[str, Any], condition: dict[str, Any] | None) -> Manifest:
    """Return what is applied to the job's status: all that the master owns there."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": "ElasticJob",
        # the uid: a master that ends late must not write into a later job of the same name
        "metadata": {"name": state.facts.name, "namespace": state.facts.namespace, "uid": state.facts.uid},
        "status": {
            "master": {"epoch": state.job.epoch, "pod": pod},
            "training": training_part,
            **({"conditions": [condition]} if condition else {}),
        },
    }


def _because(state: State) -> tuple[str | None, str | None]:
    """Return why the job is as it is: its end, its present trouble, else its size."""
    job = state.job
    if job.verdict is not None:
        return job.verdict.reason, job.verdict.message
    if job.round.state in (RoundState.YIELDING, RoundState.ABORTED):
        return job.round.reason, job.round.message
    if job.target == 0:
        return None, None
    return job.cause.reason, job.cause.message
