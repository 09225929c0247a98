"""Between the wire, the planner and the store: one question and its answer in their three forms."""

from __future__ import annotations

import math
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

import pandas as pd
from google.protobuf import json_format

from convoy.brain.plan import (
    ADJUSTABLE,
    Decision,
    JobRecommendation,
    JobRequest,
    Limits,
    Loaders,
    Option,
    RoleAdvice,
    Stage,
)
from convoy.brain.store.tables import Recommendation
from convoy.core.api.v1 import brain_pb2

_EVIDENCE = (
    "workers",
    "nodes",
    "batch_size",
    "accumulation_steps",
    "worker_cpu",
    "throughput",
    "throughput_sd",
    "window_seconds",
    "compute_seconds",
)
_MAX_EVIDENCE = 200
_LABELS = ("template", "model", "cluster", "node_type", "mode")


def to_request(
    asked: brain_pb2.OptimizeRequest,
    observed: pd.DataFrame,
    *,
    horizon_seconds: float,
    trial_seconds: float,
    changes_last_hour: int,
    changes_per_hour: int,
    restart_seconds: float = 0.0,
    objective: str = "throughput",
    now: float = 0.0,
) -> JobRequest:
    """Return the planner's request; what the master leaves out is taken from the job's last measurement.

    Args:
        asked: what the master asks.
        observed: the job's measurements.
        horizon_seconds, trial_seconds, changes_per_hour, objective: where it doesn't say.
        changes_last_hour: of the job's size.
        restart_seconds: measured for the job, where the master doesn't say; 0: not known.
        now: the moment, seconds since 1970.
    """
    limits, current, job = asked.limits, asked.current, asked.job
    start = asked.stage == brain_pb2.OptimizeRequest.START
    last = observed.iloc[-1] if len(observed) else None
    accumulation = _whole(last["accumulation_steps"]) if last is not None else 0
    processes = last["workers"] / last["nodes"] if last is not None and last["nodes"] >= 1 else 1.0
    accelerators = _amount(last["accelerators_per_worker"] * processes) if last is not None else 0.0
    return JobRequest(
        job=job.uid,
        current_workers=current.workers,
        limits=Limits(
            min_workers=limits.min_workers,
            max_workers=limits.max_workers,
            node_unit=limits.node_unit,
            free_cpu=_amount(limits.free_cpu),
            free_memory=limits.free_memory,
            largest_node_cpu=_amount(limits.largest_node_cpu),
            largest_node_memory=limits.largest_node_memory,
            worker_cpu=_amount(current.worker_cpu) or (0.0 if start else 1.0),
            worker_memory=current.worker_memory,
            global_batch=limits.global_batch,
            changes_per_hour=changes_per_hour,
            allowed_workers=tuple(limits.allowed_workers),
            min_ps=limits.min_ps,
            max_ps=limits.max_ps,
            ps_cpu=_amount(current.ps_cpu),
            ps_memory=current.ps_memory,
            worker_accelerators=_amount(current.worker_accelerators) or accelerators,
            free_accelerators=_amount(limits.free_accelerators),
            quota_cpu=_amount(limits.quota_cpu),
            quota_memory=max(0, limits.quota_memory),
            quota_accelerators=_amount(limits.quota_accelerators),
            max_batch=limits.max_batch,
        ),
        stage=Stage.START if start else Stage.RUNNING,
        horizon_seconds=_amount(asked.horizon_seconds) or horizon_seconds,
        restart_seconds=_amount(asked.restart_seconds) or restart_seconds,
        trial_seconds=trial_seconds,
        changes_last_hour=changes_last_hour,
        labels={name: getattr(job, name) for name in _LABELS if getattr(job, name)},
        strategy=job.strategy or "allreduce",
        processes_per_worker=max(1, round(processes)),
        accumulation_steps=max(1, accumulation),
        current_ps=current.ps,
        objective=asked.objective or objective,
        deadline_seconds=asked.deadline - now if _amount(asked.deadline) else math.nan,
        remaining_samples=_amount(asked.remaining_samples) or math.nan,
        pinned=asked.pinned,
        frozen_seconds=max(asked.frozen_until - now, 0.0) if _amount(asked.frozen_until) else 0.0,
        adjustable=tuple(name for name in ADJUSTABLE if name in (asked.adjustable or ("workers", "ps"))),
    )


def to_message(
    identifier: str, asked: brain_pb2.OptimizeRequest, answer: JobRecommendation
) -> brain_pb2.Recommendation:
    """Return the answer for the wire, where 0 is "not known"."""
    target = brain_pb2.Allotment()
    target.CopyFrom(asked.current)
    for name, value in _target(asked.current, answer).items():
        setattr(target, name, value)
    return brain_pb2.Recommendation(
        id=identifier,
        decision=answer.decision.value,
        reason=answer.reason,
        message=answer.message,
        target=target,
        predicted=_amount(answer.predicted),
        lower90=_amount(answer.lower90),
        upper90=_amount(answer.upper90),
        lower99=_amount(answer.lower99),
        upper99=_amount(answer.upper99),
        price_per_hour=_amount(answer.price_per_hour),
        currency=answer.currency,
        options=[_option_message(option) for option in answer.options],
        observations=answer.observations,
        history_jobs=answer.history_jobs,
        objective=answer.objective,
        roles=[_role_message(role) for role in answer.roles],
        loaders=_loaders_message(answer.loaders) if answer.loaders is not None else None,
        notes=answer.notes,
    )


def _target(current: brain_pb2.Allotment, answer: JobRecommendation) -> dict[str, Any]:
    """Return the allotment that is recommended, as far as it is decided."""
    found = {
        "workers": answer.target_workers,
        "ps": answer.target_ps or current.ps,
        "batch": answer.target_batch,
        **{name: getattr(current, name) for name in ("worker_cpu", "worker_memory", "ps_cpu", "ps_memory")},
    }
    for role in answer.roles:
        if role.decided and role.role in ("worker", "ps"):
            found |= {f"{role.role}_cpu": role.cpu, f"{role.role}_memory": role.memory}
    return found


def _role_message(role: RoleAdvice) -> brain_pb2.Role:
    return brain_pb2.Role(
        role=role.role,
        replicas_before=role.replicas_before,
        replicas=role.replicas,
        cpu_before=role.cpu_before,
        cpu=role.cpu,
        cpu_used=_amount(role.cpu_used),
        memory_before=role.memory_before,
        memory=role.memory,
        memory_used=_amount(role.memory_used),
        reason=role.reason,
        message=role.message,
        decided=role.decided,
    )


def _loaders_message(loaders: Loaders) -> brain_pb2.Loaders:
    return brain_pb2.Loaders(
        before=loaders.before,
        workers=loaders.workers,
        wait=_amount(loaders.wait),
        step=_amount(loaders.step),
        expected=_amount(loaders.expected),
        reason=loaders.reason,
        message=loaders.message,
        decided=loaders.decided,
    )


def _option_message(option: Option) -> brain_pb2.Option:
    return brain_pb2.Option(
        workers=option.workers,
        predicted=_amount(option.predicted),
        lower90=_amount(option.lower90),
        upper90=_amount(option.upper90),
        lower99=_amount(option.lower99),
        upper99=_amount(option.upper99),
        price_per_hour=_amount(option.price_per_hour),
        price_per_million_samples=_amount(option.price_per_million_samples),
        verdict=option.verdict,
        ps=option.ps,
        worker_cpu=option.worker_cpu,
        ps_cpu=option.ps_cpu,
        batch=option.batch,
        gain=option.gain if math.isfinite(option.gain) else 0.0,
        paid_back=_amount(option.paid_back),
        in_time=_amount(option.in_time),
    )


def to_row(
    identifier: str,
    asked: brain_pb2.OptimizeRequest,
    answer: JobRecommendation,
    observed: pd.DataFrame,
    *,
    history_rows: int,
    model: dict[str, Any],
    explanation: dict[str, Any],
    now: datetime,
    seconds: float,
) -> dict[str, Any]:
    """Return the row of table recommendation, without the job; NULL is "not known"."""
    target = _target(asked.current, answer)
    return {
        "id": identifier,
        "made_at": now,
        "stage": brain_pb2.OptimizeRequest.Stage.Name(asked.stage),
        "decision": answer.decision.value,
        "reason": answer.reason,
        "message": answer.message[:4000],
        "workers_before": asked.current.workers,
        "free_cpu": _amount(asked.limits.free_cpu) or None,
        "workers": answer.target_workers,
        "ps": target["ps"],
        "worker_cpu": _amount(target["worker_cpu"]) or None,
        "worker_memory": target["worker_memory"] or None,
        "ps_cpu": _amount(target["ps_cpu"]) or None,
        "ps_memory": target["ps_memory"] or None,
        "predicted": _known(answer.predicted),
        "lower90": _known(answer.lower90),
        "upper90": _known(answer.upper90),
        "lower99": _known(answer.lower99),
        "upper99": _known(answer.upper99),
        "price_per_hour": _known(answer.price_per_hour),
        "currency": answer.currency,
        "observations": answer.observations,
        "history_jobs": answer.history_jobs,
        "options": [_plain(asdict(option)) for option in answer.options],
        "request": json_format.MessageToDict(asked, preserving_proto_field_name=True),
        "evidence": {
            "observed": [_plain(row) for row in observed[list(_EVIDENCE)].tail(_MAX_EVIDENCE).to_dict("records")],
            "history_rows": history_rows,
            "model": model,
            "explanation": explanation,
            "roles": [_plain(asdict(role)) for role in answer.roles],
            "loaders": None if answer.loaders is None else _plain(asdict(answer.loaders)),
            "notes": list(answer.notes),
            "objective": answer.objective,
            "batch": answer.target_batch,
            "goodput": _known(answer.goodput),
        },
        "seconds": seconds,
    }


def from_row(row: Recommendation, asked: brain_pb2.OptimizeRequest) -> brain_pb2.Recommendation:
    """Return a stored answer for the wire, as ``to_message`` gave it."""
    known = {one.name for one in fields(Option)}
    options = [Option(**{name: _read(value) for name, value in one.items() if name in known}) for one in row.options]
    roles = [RoleAdvice(**{name: _read(value) for name, value in one.items()}) for one in row.evidence["roles"]]
    loaders = row.evidence.get("loaders")  # absent in rows of earlier versions
    numbers = ("predicted", "lower90", "upper90", "lower99", "upper99", "price_per_hour")
    answer = JobRecommendation(
        Decision(row.decision),
        row.reason,
        row.message,
        row.workers or 0,
        **{name: _read(getattr(row, name)) for name in numbers},
        currency=row.currency,
        options=tuple(options),
        observations=row.observations,
        history_jobs=row.history_jobs,
        target_ps=row.ps or 0,
        target_batch=row.evidence["batch"],
        objective=row.evidence["objective"],
        roles=tuple(roles),
        loaders=Loaders(**{name: _read(value) for name, value in loaders.items()}) if loaders else None,
        notes=tuple(row.evidence["notes"]),
        goodput=_read(row.evidence.get("goodput")),
    )
    return to_message(row.id, asked, answer)


def _read(value: Any) -> Any:
    return math.nan if value is None else value


def from_stored(request: dict[str, Any]) -> brain_pb2.OptimizeRequest:
    """Return the question that a stored recommendation answered."""
    return json_format.ParseDict(request, brain_pb2.OptimizeRequest(), ignore_unknown_fields=True)


def _plain(values: dict[Any, Any]) -> dict[str, Any]:
    """Return values that JSON has: NaN and infinity become null."""
    return {str(name): _known(value) if isinstance(value, float) else value for name, value in values.items()}


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _amount(value: float) -> float:
    return float(value) if math.isfinite(value) and value > 0 else 0.0


def _whole(value: float) -> int:
    return int(value) if math.isfinite(value) else 0
