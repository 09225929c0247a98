"""Jobs that run and wait on machines, as the store has them: rows that a plan for all of them is made from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf import json_format

from convoy.core.api.v1 import brain_pb2
from support.stored import GIB, Stored, speed

MACHINE: dict[str, Any] = {
    "node_type": "p4", "accelerator": "A100", "accelerators_allocatable": 4.0, "cpu_allocatable": 32.0,
    "memory_allocatable": 256 * GIB, "ready": True, "schedulable": True,
}  # fmt: skip


def put(
    stored: Stored,
    uid: str,
    pods: int,
    machine: int | None,
    *,
    stage: str = "RUNNING",
    most: int = 8,
    state: str = "Running",
    user: str = "ada",
    namespace: str = "default",
    noise: tuple[float, float] | None = None,
    batch: int = 256,
    now: datetime | None = None,
    asked: dict[str, Any] | None = None,
    limits: dict[str, Any] | None = None,
) -> int:
    """Store a job with pods on a machine, its speed, and what its master asked; return its number.

    Args:
        stored: puts rows.
        uid: of the job, and its name.
        pods: workers; none: it waits.
        machine: that they are on; None: none is known.
        stage, most, state, user, namespace: of the job.
        noise: ``grad_sqr`` and ``grad_var`` (of one sample) that its windows tell.
        batch: of all workers together.
        now: the moment of the last window.
        asked: what else the question says.
        limits: what else its limits say; ``global_batch`` 0 lets the batch grow with the workers.
    """
    now = now or datetime.now(UTC)
    number = stored.job(
        uid, namespace=namespace, state=state, user=user, model="mlp", first_seen=now - timedelta(minutes=10),
        last_seen=now,
    )  # fmt: skip
    for place in range(pods):
        stored.pod(
            number, f"{uid}-worker-{place}", rank=place, phase="Running", node_id=machine, cpu_allotted=4.0,
            memory_allotted=8 * GIB, accelerators=1.0,
        )  # fmt: skip
    if pods:
        told = {} if noise is None else {"grad_sqr": noise[0], "grad_var": noise[1]}
        rows = [
            speed(0, rate=950.0 * pods, workers=pods, nodes=pods, batch_size=batch // pods, step=100 * place)
            | {"ended_at": now - timedelta(seconds=60 - 10 * place)}
            | told
            for place in range(6)
        ]
        stored.speed(number, rows)
    question = brain_pb2.OptimizeRequest(
        stage=stage,
        current=brain_pb2.Allotment(workers=pods, worker_cpu=4.0, worker_memory=8 * GIB),
        limits=brain_pb2.Limits(
            **{"min_workers": 1, "max_workers": most, "node_unit": 1, "global_batch": batch, "free_cpu": 4.0}
            | (limits or {})
        ),
        **(asked or {}),
    )
    stored.recommendation(
        number, f"r-{uid}", stage=stage, request=json_format.MessageToDict(question, preserving_proto_field_name=True)
    )
    return number
