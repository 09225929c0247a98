"""Reports as a master would send them."""

from __future__ import annotations

from convoy.core.api.envelope import Envelope
from convoy.core.api.v1 import brain_pb2, metrics_pb2

NOW = 1_750_000_000.0


def job(uid: str = "uid-1", name: str = "digits", state: str = "Running") -> brain_pb2.JobDescription:
    return brain_pb2.JobDescription(
        uid=uid,
        name=name,
        namespace="default",
        template="template-1",
        model="mlp",
        strategy="allreduce",
        state=state,
    )


def window(
    number: int,
    *,
    rate: float = 1000.0,
    workers: int = 1,
    round: int = 1,
    warming: bool = False,
    start: float = NOW - 1000,
    batch: int = 256,
    noise: tuple[float, float] = (0.0, 0.0),
    loading: tuple[float, int] | None = None,
) -> metrics_pb2.SpeedSample:
    """The window of step ``number``: one second that ends ``number`` seconds after ``start``."""
    return metrics_pb2.SpeedSample(
        time=start + number,
        seconds=1.0,
        first_step=number,
        last_step=number,
        samples=rate,
        workers=workers,
        nodes=workers,
        batch_size=batch // workers,
        accumulation_steps=1,
        round=round,
        warming=warming,
        compute_seconds=0.01,
        grad_sqr=noise[0],
        grad_var=noise[1],
        loader_wait=loading[0] if loading else None,
        loader_workers=loading[1] if loading else None,
    )


def load(number: int, node: str = "digits-edljob-worker-0", *, round: int = 1) -> metrics_pb2.NodeLoad:
    return metrics_pb2.NodeLoad(
        time=NOW - 1000 + number,
        seconds=1.0,
        node=node,
        role="worker",
        cpu_cores=0.9,
        memory_bytes=400 << 20,
        cpu_allotted=1.0,
        round=round,
    )


def report(*windows: metrics_pb2.SpeedSample, of: brain_pb2.JobDescription | None = None) -> brain_pb2.BrainReport:
    return brain_pb2.BrainReport(job=of or job(), speed=windows)


def envelope(sequence: int, *, uid: str = "uid-1", sender: str = "master-0", incarnation: int = 1) -> Envelope:
    return Envelope(job=uid, sender=sender, incarnation=incarnation, sequence=sequence)
