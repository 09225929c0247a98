"""The jobs that a simulated cluster is asked to run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Submission:
    """One job as its user asks for it.

    Attributes:
        job: its name, unique in the workload.
        submitted: seconds from zero.
        application: what it trains; the model's name in the tables of speeds and of statistical efficiency.
        replicas: accelerators that are asked for.
        global_batch: samples a step of all replicas that are asked for.
        user: whose job it is; empty: unknown.
    """

    job: str
    submitted: float
    application: str
    replicas: int
    global_batch: float
    user: str = ""
