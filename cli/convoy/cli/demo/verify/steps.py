"""What the training processes logged themselves: one line a finished step. Read and reckoned with, nothing else.

Files are ``steps/<pod>-<local rank>-<pid>.jsonl``. Lines with an ``event`` are marks (``restored``, ``checkpoint``,
``yielded``); the others are finished steps. Only the last line of a file may be torn: its process was killed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any


class BadEvidence(Exception):
    """A piece of evidence is missing or can't be read."""


@dataclass(frozen=True, slots=True)
class Step:
    """One rank's account of one finished step; ``t`` in seconds since the epoch."""

    t: float
    step: int
    round: int
    rank: int
    world: int
    pid: int
    pod: str
    global_batch: int
    local_batch: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A checkpoint, a restoration or a yielding, as one process logged it."""

    t: float
    event: str
    step: int
    pid: int
    pod: str


@dataclass(frozen=True, slots=True)
class Finished:
    """A step of one round: when the first rank had finished it, and every rank's account."""

    t: float
    step: int
    accounts: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Round:
    """The steps of one round, in order."""

    number: int
    world: int
    steps: tuple[Finished, ...]

    @property
    def first(self) -> Finished:
        """The first step finished in it."""
        return self.steps[0]

    @property
    def last(self) -> Finished:
        """The last step finished in it."""
        return self.steps[-1]

    @property
    def pids(self) -> frozenset[int]:
        """The processes that trained in it."""
        return frozenset(account.pid for step in self.steps for account in step.accounts)

    @property
    def pods(self) -> frozenset[str]:
        """The pods that trained in it."""
        return frozenset(account.pod for step in self.steps for account in step.accounts)

    def gaps(self, begin: float, end: float) -> list[float]:
        """Return the times between two steps that both fall between ``begin`` and ``end``."""
        times = [step.t for step in self.steps if begin <= step.t <= end]
        return [later - earlier for earlier, later in pairwise(times)]

    def speed(self, begin: float, end: float) -> float | None:
        """Return samples/s between the first and the last step in the window; None with fewer than ten steps."""
        inside = [step for step in self.steps if begin <= step.t <= end]
        if len(inside) < 10 or inside[-1].t <= inside[0].t:
            return None
        samples = sum(step.accounts[0].global_batch for step in inside[1:])
        return samples / (inside[-1].t - inside[0].t)


@dataclass(frozen=True, slots=True)
class Trace:
    """All that a job's processes logged."""

    directory: Path
    rounds: tuple[Round, ...]
    marks: tuple[Mark, ...] = field(default=())

    @property
    def accounts(self) -> list[Step]:
        """Every rank's account of every step."""
        return [account for one in self.rounds for step in one.steps for account in step.accounts]

    def round_at(self, moment: float) -> Round | None:
        """Return the round that was training at a moment: the last one whose first step was finished by then."""
        return next((one for one in reversed(self.rounds) if one.first.t <= moment), None)

    def after(self, one: Round) -> Round | None:
        """Return the next round in which a step was finished."""
        return next((other for other in self.rounds if other.number > one.number), None)

    def last_checkpoint(self, before: float) -> int:
        """Return the step of the last checkpoint that was complete at a moment; 0: none, training began anew."""
        return max((mark.step for mark in self.marks if mark.event == "checkpoint" and mark.t <= before), default=0)


def read(directory: Path) -> Trace:
    """Read a job's step logs.

    Raises:
        BadEvidence: none are there, or a line that isn't a file's last can't be read.
    """
    files = sorted(directory.glob("*.jsonl"))
    if not files:
        raise BadEvidence(f"{directory}: no step logs")
    steps: list[Step] = []
    marks: list[Mark] = []
    for file in files:
        lines = file.read_text(errors="replace").splitlines()
        for number, line in enumerate(lines, start=1):
            try:
                record = json.loads(line)
                if "event" in record:
                    marks.append(_mark(record, file))
                else:
                    steps.append(_step(record))
            except (ValueError, KeyError, TypeError) as error:
                if number == len(lines):
                    continue
                raise BadEvidence(f"{file}: line {number} can't be read: {error!r}") from None
    if not steps:
        raise BadEvidence(f"{directory}: no step was finished")
    return Trace(directory, _rounds(steps), tuple(sorted(marks, key=lambda mark: mark.t)))


def _step(record: dict[str, Any]) -> Step:
    return Step(
        t=float(record["t"]),
        step=int(record["step"]),
        round=int(record["round"]),
        rank=int(record["rank"]),
        world=int(record["world"]),
        pid=int(record["pid"]),
        pod=str(record["pod"]),
        global_batch=int(record["global_batch"]),
        local_batch=int(record["local_batch"]),
    )


def _mark(record: dict[str, Any], file: Path) -> Mark:
    pid = record.get("pid") or file.stem.rpartition("-")[2]
    pod = record.get("pod") or file.stem.rsplit("-", 2)[0]
    return Mark(float(record["t"]), str(record["event"]), int(record["step"]), int(pid), str(pod))


def _rounds(steps: list[Step]) -> tuple[Round, ...]:
    grouped: dict[int, dict[int, list[Step]]] = defaultdict(lambda: defaultdict(list))
    for step in steps:
        grouped[step.round][step.step].append(step)
    rounds = []
    for number, by_step in sorted(grouped.items()):
        finished = tuple(
            Finished(min(one.t for one in ranks), step, tuple(sorted(ranks, key=lambda one: (one.rank, one.t))))
            for step, ranks in sorted(by_step.items())
        )
        rounds.append(Round(number, finished[0].accounts[0].world, finished))
    return tuple(rounds)
