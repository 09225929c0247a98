"""Between the wire, the planner and the store: one question and its answer in their three forms. Pure."""

from __future__ import annotations

import math
from dataclasses import asdict
from datetime import datetime
from typing import Any

import pandas as pd
from google.protobuf import json_format

from convoy.brain.plan import JobRecommendation, JobRequest, Limits, Option, Stage
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
_LABELS = ("template", "model", "cluster", "node_type")


def to_request(
    asked: brain_pb2.OptimizeRequest,
    observed: pd.DataFrame,
    *,
    horizon_seconds: float,
    trial_seconds: float,
    changes_last_hour: int,
    changes_per_hour: int,
) -> JobRequest:
    """Return the planner's request; what the master leaves out is taken from the job's last measurement."""
    limits, current, job = asked.limits, asked.current, asked.job
    last = observed.iloc[-1] if len(observed) else None
    accumulation = _whole(last["accumulation_steps"]) if last is not None else 0
    processes = last["workers"] / last["nodes"] if last is not None and last["nodes"] >= 1 else 1.0
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
            worker_cpu=_amount(current.worker_cpu) or 1.0,
            worker_memory=current.worker_memory,
            global_batch=limits.global_batch,
            changes_per_hour=changes_per_hour,
        ),
        stage=Stage.START if asked.stage == brain_pb2.OptimizeRequest.START else Stage.RUNNING,
        horizon_seconds=_amount(asked.horizon_seconds) or horizon_seconds,
        restart_seconds=_amount(asked.restart_seconds),
        trial_seconds=trial_seconds,
        changes_last_hour=changes_last_hour,
        labels={name: getattr(job, name) for name in _LABELS if getattr(job, name)},
        strategy=job.strategy or "allreduce",
        processes_per_worker=max(1, round(processes)),
        accumulation_steps=max(1, accumulation),
    )


def to_message(
    identifier: str, asked: brain_pb2.OptimizeRequest, answer: JobRecommendation
) -> brain_pb2.Recommendation:
    """Return the answer for the wire, where 0 is "not known"."""
    target = brain_pb2.Allotment()
    target.CopyFrom(asked.current)
    target.workers = answer.target_workers
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
    current = asked.current
    return {
        "id": identifier,
        "made_at": now,
        "stage": brain_pb2.OptimizeRequest.Stage.Name(asked.stage),
        "decision": answer.decision.value,
        "reason": answer.reason,
        "message": answer.message[:4000],
        "workers_before": current.workers,
        "free_cpu": _amount(asked.limits.free_cpu) or None,
        "workers": answer.target_workers,
        "ps": current.ps,
        "worker_cpu": _amount(current.worker_cpu) or None,
        "worker_memory": current.worker_memory or None,
        "ps_cpu": _amount(current.ps_cpu) or None,
        "ps_memory": current.ps_memory or None,
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
        },
        "seconds": seconds,
    }


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
