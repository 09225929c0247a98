"""What a reported row must be to be stored. Pure: a row, or a sentence that says what was expected and what came.

0 and "" are proto3's "not told": such fields become NULL where they may.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from convoy.brain.store.tables import AGENT
from convoy.core.api.errors import InvalidInput
from convoy.core.api.v1 import brain_pb2, metrics_pb2

Row = dict[str, Any]

_MAX_BIGINT = 2**63 - 1
_MAX_SECONDS = 1e7
_MAX_NUMBER = 1e15
_MAX_STATISTIC = 1e300
_MAX_MESSAGE = 4000
_MAX_EVIDENCE = 100
_MAX_FEATURES = 1000
_DAY = 86400.0
_REASON = re.compile(r"[A-Z][A-Za-z0-9]{0,127}")
_DESCRIPTION = {
    "uid": 64,
    "name": 253,
    "namespace": 63,
    "template": 255,
    "image": 1024,
    "user": 255,
    "strategy": 32,
    "state": 32,
    "cluster": 255,
    "node_type": 255,
    "model": 255,
    "mode": 16,
    "optimize_mode": 32,
    "dataset": 255,
}
STATES = ("", "Waiting", "Running", "Succeeded", "Failed")
STRATEGIES = ("", "ps", "allreduce")
MODES = ("", "sync", "async")
TYPED = ("model_parameters", "dataset_samples", "batch_size", "learning_rate")
"""Features that have a column in ``job``."""


class Refused(Exception):
    """A row can't be stored; the message is the sentence for its sender."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The rows of one kind that may be stored, and a sentence for each that may not."""

    rows: list[Row]
    refused: list[str]


def each(kind: str, given: Sequence[Any], check: Callable[[Any], Row]) -> Checked:
    """Check rows one by one; a bad one doesn't stop the others."""
    rows: list[Row] = []
    refused: list[str] = []
    for number, item in enumerate(given, start=1):
        try:
            rows.append(check(item))
        except Refused as sentence:
            refused.append(f"{kind} {number} of {len(given)}: {sentence}")
    return Checked(rows, refused)


class Checker:
    """Checks rows against a moment: nothing may have happened later than ``now`` plus ``tolerance`` seconds.

    ``speed_since`` and ``load_since``: what ended before isn't kept any more, and would be summed from a part alone.
    """

    def __init__(self, now: float, tolerance: float, *, speed_since: float = 0.0, load_since: float = 0.0) -> None:
        self._now = now
        self._tolerance = tolerance
        self._speed_since = speed_since
        self._load_since = load_since

    def speed(self, sample: metrics_pb2.SpeedSample) -> Row:
        """Return a row of training_speed, without the job."""
        ended_at = self._moment("time", sample.time, self._speed_since)
        seconds = _number("seconds", sample.seconds, above=0.0, most=_MAX_SECONDS)
        samples = _number("samples", sample.samples, above=0.0)
        if samples / seconds > _MAX_NUMBER:
            raise Refused(f"samples {samples:g} in {seconds:g} s is no speed that a machine has")
        first, last = sample.first_step, sample.last_step
        if not 0 <= first <= last:
            raise Refused(f"first_step {first} and last_step {last}: expected 0 <= first_step <= last_step")
        return {
            "ended_at": ended_at,
            "round": _whole("round", sample.round),
            "last_step": last,
            "first_step": first,
            "seconds": seconds,
            "samples": samples,
            "workers": _whole("workers", sample.workers, least=1),
            "ps": _whole("ps", sample.ps),
            "nodes": _whole("nodes", sample.nodes) or None,
            "batch_size": _whole("batch_size", sample.batch_size) or None,
            "accumulation_steps": _whole("accumulation_steps", sample.accumulation_steps) or None,
            "warming": sample.warming,
            "compute_seconds": _number("compute_seconds", sample.compute_seconds, most=_MAX_SECONDS) or None,
            **_noise(sample),
            **_loading(sample),
        }

    def load(self, load: metrics_pb2.NodeLoad) -> Row:
        """Return a row of job_node_load, without the job."""
        return {
            "ended_at": self._moment("time", load.time, self._load_since),
            "source": AGENT,
            "node": _name("node", load.node, 253),
            "seconds": _number("seconds", load.seconds, above=0.0, most=_MAX_SECONDS),
            "role": _name("role", load.role, 32),
            "rank": _whole("rank", load.rank),
            "round": _whole("round", load.round),
            "cpu_cores": _number("cpu_cores", load.cpu_cores),
            "memory_bytes": _whole("memory_bytes", load.memory_bytes),
            "cpu_allotted": _number("cpu_allotted", load.cpu_allotted) or None,
            "memory_allotted": _whole("memory_allotted", load.memory_allotted) or None,
        }

    def event(self, event: metrics_pb2.JobEvent) -> Row:
        """Return a row of job_event, without the job."""
        return {
            "happened_at": self._moment("time", event.time),
            "reason": _reason(event.reason),
            "node": _name("node", event.node, 253, may_be_empty=True),
            "round": _whole("round", event.round),
            "step": event.step if event.step >= 0 else None,
            "message": _message(event.message),
            "evidence": _evidence(event.evidence),
        }

    def plan(self, plan: brain_pb2.PlanOutcome) -> Row:
        """Return a row of scale_plan, without the job."""
        return {
            "name": _name("plan", plan.plan, 253),
            "recommendation_id": _name("recommendation", plan.recommendation, 36, may_be_empty=True) or None,
            "created_at": self._moment("created", plan.created),
            "carried_out_at": self._moment("carried_out", plan.carried_out) if plan.carried_out else None,
            "workers_before": _whole("workers_before", plan.workers_before),
            "workers_after": _whole("workers_after", plan.workers_after),
            "predicted": _number("predicted", plan.predicted) or None,
            "predicted_lower": _number("predicted_lower", plan.predicted_lower) or None,
            "predicted_upper": _number("predicted_upper", plan.predicted_upper) or None,
            "realized": _number("realized", plan.realized) or None,
            "realized_seconds": _number("realized_seconds", plan.realized_seconds) or None,
            "restart_seconds": _number("restart_seconds", plan.restart_seconds) or None,
            "reason": _reason(plan.reason) if plan.reason else "",
            "message": _message(plan.message),
            "rolled_back": plan.rolled_back,
        }

    def _moment(self, field: str, value: float, since: float = 0.0) -> datetime:
        if not math.isfinite(value) or value <= 0:
            raise Refused(f"{field} is {value:g}: expected seconds since the epoch")
        if value > self._now + self._tolerance:
            raise Refused(
                f"{field} lies {value - self._now:.0f} s in the future: the clocks of the sender and the Brain "
                "differ; set them right (NTP)"
            )
        if value < since:
            raise Refused(
                f"{field} lies {(self._now - value) / _DAY:.1f} days back, and rows are kept for "
                f"{(self._now - since) / _DAY:.1f}: is the sender's clock right?"
            )
        return datetime.fromtimestamp(value, UTC)


def description(job: brain_pb2.JobDescription) -> Row:
    """Return a row of job, without times.

    Raises:
        InvalidInput: the report can't be put to any job: a field is missing, too long or unknown.
    """
    row: Row = {field: getattr(job, field) for field in _DESCRIPTION}
    try:
        for field, longest in _DESCRIPTION.items():
            _name(field, row[field], longest, may_be_empty=field not in ("uid", "name", "namespace"))
    except Refused as sentence:
        raise InvalidInput(f"job.{sentence}", reason="InvalidJobDescription") from None
    for field, known in (("strategy", STRATEGIES), ("state", STATES), ("mode", MODES)):
        if row[field] not in known:
            expected = ", ".join(name for name in known if name)
            raise InvalidInput(
                f"job.{field} is {row[field]!r}: expected one of {expected}", reason="InvalidJobDescription"
            )
    return row


def features(job: brain_pb2.JobDescription) -> Checked:
    """Return rows of job_feature, without the job; those of ``TYPED`` among them."""

    if len(job.features) > _MAX_FEATURES:
        return Checked([], [f"features: there are {len(job.features)}: expected at most {_MAX_FEATURES}"])

    def check(item: tuple[str, float]) -> Row:
        name, value = _name("name", item[0], 128), item[1]
        bounds: dict[str, float] = {"above": 0.0} if name in TYPED else {"least": -_MAX_NUMBER}
        return {"name": name, "value": _number(name, value, **bounds)}

    return each("feature", sorted(job.features.items()), check)


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """How far a reporter's windows of speed came: the round, its step, and when that one ended."""

    round: int = 0
    step: int = 0
    ended_at: datetime | None = None


def going_forward(rows: Sequence[Row], position: Position) -> tuple[Checked, Position]:
    """Refuse rows of training_speed that come later in steps and earlier in time; return the furthest position."""
    kept: list[Row] = []
    refused: list[str] = []
    for row in sorted(rows, key=lambda row: (row["round"], row["last_step"])):
        at = Position(row["round"], row["last_step"], row["ended_at"])
        further = (at.round, at.step) > (position.round, position.step)
        if further and position.ended_at is not None and row["ended_at"] < position.ended_at:
            back = (position.ended_at - row["ended_at"]).total_seconds()
            refused.append(
                f"speed sample of round {at.round} up to step {at.step}: time lies {back:.3f} s before that of step "
                f"{position.step}: the sender's clock stepped back; set it right (NTP)"
            )
            continue
        kept.append(row)
        position = at if further else position
    return Checked(kept, refused), position


def distinct(rows: Iterable[Row], key: Sequence[str]) -> list[Row]:
    """Return the rows, the last one of each key."""
    return list({tuple(row[name] for name in key): row for row in rows}.values())


def _number(
    field: str, value: float, *, least: float = 0.0, above: float | None = None, most: float = _MAX_NUMBER
) -> float:
    bound = f"above {above:g}" if above is not None else f"of {least:g} or more"
    if not math.isfinite(value) or value < least or (above is not None and value <= above):
        raise Refused(f"{field} is {value:g}: expected a number {bound}")
    if value > most:
        raise Refused(f"{field} is {value:g}: expected at most {most:g}")
    return value


def _noise(sample: metrics_pb2.SpeedSample) -> Row:
    """Return the gradients' statistics; NULL where they weren't estimated. A norm's estimate may be negative."""
    variance = _number("grad_var", sample.grad_var, most=_MAX_STATISTIC)
    norm = math.copysign(_number("grad_sqr", abs(sample.grad_sqr), most=_MAX_STATISTIC), sample.grad_sqr)
    return {"grad_sqr": norm if variance else None, "grad_var": variance or None}


def _loading(sample: metrics_pb2.SpeedSample) -> Row:
    """Return the wait for data and who loads it; NULL where it isn't told: 0 is a number of either."""
    wait, workers = sample.HasField("loader_wait"), sample.HasField("loader_workers")
    return {
        "loader_wait": _number("loader_wait", sample.loader_wait, most=_MAX_SECONDS) if wait else None,
        "loader_workers": _whole("loader_workers", sample.loader_workers) if workers else None,
    }


def _whole(field: str, value: int, *, least: int = 0) -> int:
    if not least <= value <= _MAX_BIGINT:
        raise Refused(f"{field} is {value}: expected a whole number of {least} or more")
    return value


def _name(field: str, value: str, longest: int, *, may_be_empty: bool = False) -> str:
    if not value and not may_be_empty:
        raise Refused(f"{field} is empty")
    if len(value) > longest:
        raise Refused(f"{field} has {len(value)} characters: expected at most {longest}")
    if value != value.strip() or any(ord(letter) < 32 for letter in value):
        raise Refused(f"{field} is {value!r}: expected no space at its ends and no control characters")
    return value


def _reason(value: str) -> str:
    if not _REASON.fullmatch(value):
        raise Refused(f"reason is {value[:140]!r}: expected CamelCase of at most 128 letters and digits")
    return value


def _evidence(given: Mapping[str, str]) -> dict[str, str]:
    if len(given) > _MAX_EVIDENCE:  # a row that no packet of the database's holds would be sent for ever
        raise Refused(f"evidence has {len(given)} entries: expected at most {_MAX_EVIDENCE}")
    return {key[:128]: _message(value) for key, value in given.items()}


def _message(value: str) -> str:
    return value if len(value) <= _MAX_MESSAGE else value[: _MAX_MESSAGE - 1] + "…"
