"""What a training process leaves behind about its steps: a line a step on disk, and windows of speed for the
agent."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Protocol

from convoy.trainer.link import Link
from convoy.trainer.place import Place

WINDOW = 2.0
"""Seconds of whole steps that a window of speed holds at least."""
_TELL = 0.2
"""Seconds between two accounts of the step to the agent."""


class StepLog:
    """Appends JSON lines to ``steps/<pod>-<local rank>-<pid>.jsonl`` in the job's directory; without one, to nothing.

    One write a line, so that a kill leaves whole lines.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._file: int | None = None
        if place.job_dir is not None:
            directory = place.job_dir / "steps"
            directory.mkdir(parents=True, exist_ok=True)
            path = directory / f"{place.pod}-{place.local_rank}-{os.getpid()}.jsonl"
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def step(self, step: int, *, now: float, global_batch: int, local_batch: int, loss: float) -> None:
        """Note a finished step."""
        self._write(
            t=now,
            step=step,
            global_batch=global_batch,
            local_batch=local_batch,
            loss=loss,
            samples=global_batch,
            batch_size=per_worker(global_batch, self._place.world),
        )

    def event(self, name: str, step: int) -> None:
        """Note ``restored``, ``checkpoint`` or ``yielded``."""
        self._write(t=time.time(), event=name, step=step)

    def _write(self, **fields: Any) -> None:
        if self._file is not None:
            place = self._place
            fields |= {
                "round": place.round,
                "rank": place.rank,
                "world": place.world,
                "pid": os.getpid(),
                "pod": place.pod,
            }
            os.write(self._file, json.dumps(fields, separators=(",", ":")).encode() + b"\n")

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def per_worker(global_batch: int, world: int) -> int:
    """Return the samples that a process takes a step, rounded."""
    return max(1, round(global_batch / world))


class Measured(Protocol):
    """What is measured beside speed."""

    def window(self) -> dict[str, float]:
        """Return fields of ``SpeedSample`` since the last call."""
        ...


class Speedometer:
    """Cuts the run of steps into windows of whole steps and tells the agent. Times are monotonic but for the
    stamp."""

    def __init__(self, place: Place, link: Link, global_batch: int, window: float = WINDOW) -> None:
        self._place, self._link, self._global_batch, self._window = place, link, global_batch, window
        self._told = 0.0
        self._warming = True
        self._first = 0
        self._since = 0.0

    def begin(self, step: int, at: float) -> None:
        """Start counting after a step: the first window warms up."""
        self._first, self._since, self._warming = step + 1, at, True

    def count(self, step: int, at: float, *beside: Measured | None) -> dict[str, Any] | None:
        """Count a finished step; return the window that it completes, which process rank 0 has told the agent.

        ``beside``: what else goes with the window.
        """
        if at - self._told >= _TELL:
            self._told = at
            self._link.tell("step", step=step)
        if at - self._since < self._window:
            return None
        steps, seconds = step - self._first + 1, at - self._since
        window: dict[str, Any] = {
            "time": time.time(),
            "seconds": seconds,
            "first_step": self._first,
            "last_step": step,
            "samples": float(steps * self._global_batch),
            "workers": self._place.world,
            "nodes": self._place.nodes,
            "batch_size": per_worker(self._global_batch, self._place.world),
            "accumulation_steps": 1,
            "round": self._place.round,
            "warming": self._warming,
        }
        for one in beside:
            window |= one.window() if one is not None else {}
        self._first, self._since, self._warming = step + 1, at, False
        if self._place.rank == 0:
            self._link.tell("speed", **window)
        return window
