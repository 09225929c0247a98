"""What the Brain is to be told: kept within a bound until it is acknowledged, counted where it was dropped. Pure.

A batch keeps its sequence until it is acknowledged, so that sending it twice stores it once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from convoy.core.api.v1 import brain_pb2, metrics_pb2

_MOST = {"speed": 20_000, "load": 20_000, "events": 5_000}
BATCH = 500
"""Rows of a kind in one report."""


class Feed:
    """Rows that wait for the Brain; without one (``kept`` False) nothing is kept."""

    def __init__(self, *, kept: bool = True) -> None:
        self._kept = kept
        self._rows: dict[str, deque[Any]] = {kind: deque(maxlen=most) for kind, most in _MOST.items()}
        self._plans: dict[str, brain_pb2.PlanOutcome] = {}
        self._dropped: dict[str, int] = {}
        self._batch: brain_pb2.BrainReport | None = None
        self._sequence = 0

    def add(
        self,
        *,
        speed: Iterable[metrics_pb2.SpeedSample] = (),
        load: Iterable[metrics_pb2.NodeLoad] = (),
        events: Iterable[metrics_pb2.JobEvent] = (),
        plans: Iterable[brain_pb2.PlanOutcome] = (),
    ) -> None:
        """Keep rows; where there are too many of a kind, the oldest are dropped and counted."""
        if not self._kept:
            return
        for kind, rows in (("speed", speed), ("load", load), ("events", events)):
            kept = self._rows[kind]
            for row in rows:
                if len(kept) == kept.maxlen:
                    self._dropped[kind] = self._dropped.get(kind, 0) + 1
                kept.append(row)
        for plan in plans:
            self._plans[plan.plan] = plan

    def next(self, job: brain_pb2.JobDescription) -> tuple[int, brain_pb2.BrainReport]:
        """Return the batch to send and its sequence: the same until it is acknowledged. It may hold the job alone."""
        if self._batch is None:
            self._batch = brain_pb2.BrainReport(
                job=job,
                speed=self._take("speed"),
                load=self._take("load"),
                events=self._take("events"),
                plans=self._plans.values(),
            )
            self._plans = {}
            self._sequence += 1
        return self._sequence, self._batch

    def acknowledge(self) -> dict[str, int]:
        """Forget the batch; return how many rows of each kind were dropped since the last acknowledgement."""
        self._batch = None
        dropped, self._dropped = self._dropped, {}
        return dropped

    @property
    def sent(self) -> int:
        """Rows of the batch that is being sent."""
        batch = self._batch
        return len(batch.speed) + len(batch.load) + len(batch.events) + len(batch.plans) if batch else 0

    @property
    def waiting(self) -> int:
        """Rows that aren't acknowledged."""
        return self.sent + sum(len(rows) for rows in self._rows.values()) + len(self._plans)

    def _take(self, kind: str) -> list[Any]:
        rows = self._rows[kind]
        return [rows.popleft() for _ in range(min(BATCH, len(rows)))]
