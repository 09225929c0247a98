"""A row that is stored and one that is told, as one row. Pure.

The cluster is right about what it shows. What it doesn't show, or shows no more, stays as it was told before: by the
job's master, or by the cluster itself. What is told twice, by two monitors, or late, changes nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from convoy.brain.ingest.monitor.parts import Row

_STATES = {"": 0, "Waiting": 1, "Running": 2, "Succeeded": 3, "Failed": 3}
_OVER = 3
_OF_JOB = (
    *("name", "namespace", "template", "image", "user", "model", "dataset"),
    *("strategy", "optimize_mode", "accelerator", "cluster"),
)
_OF_POD = (
    "role",
    "rank",
    "node_id",
    "cpu_allotted",
    "memory_allotted",
    "accelerators",
    "created_at",
    "started_at",
    "ended_at",
    "exit_code",
)
_OF_PLAN = ("recommendation_id", "predicted", "predicted_lower", "predicted_upper", "reason", "message")


def job(stored: Row, told: Row) -> Row:
    """Return a row of ``job``. A job that is over stays so, and its last sign is its end."""
    merged = {**stored, **_known(told, _OF_JOB)}
    if _STATES.get(told["state"], 0) >= _STATES.get(stored["state"], 0):
        merged["state"] = told["state"]
    merged["first_seen"] = min(stored["first_seen"], told["first_seen"])
    if _STATES.get(stored["state"], 0) < _OVER:
        merged["last_seen"] = max(stored["last_seen"], told["last_seen"])
    merged["gone_at"] = _gone(stored, told)
    return merged


def node(stored: Row, told: Row) -> Row:
    """Return a row of ``node``: the machine as it is now."""
    if told["gone_at"] is not None and stored["uid"] not in ("", told["uid"]):
        return stored  # another machine has the name by now
    return {**stored, **told, "first_seen": stored["first_seen"], "gone_at": _gone(stored, told)}


def pod(stored: Row, told: Row) -> Row:
    """Return a row of ``job_node``. Of two pods of one name the one that was made later counts."""
    if stored["uid"] not in ("", told["uid"]):
        return {**stored, **told} if _later(stored["created_at"], told["created_at"]) else stored
    merged = {**stored, "uid": told["uid"], **_known(told, _OF_POD)}
    if told["phase"]:
        merged |= {"phase": told["phase"], "reason": told["reason"]}
    merged["restarts"] = max(stored["restarts"], told["restarts"])
    merged["gone_at"] = _gone(stored, told)
    return merged


def plan(stored: Row, told: Row) -> Row:
    """Return a row of ``scale_plan``: what the job's master told of it stays."""
    if stored["uid"] not in ("", told["uid"]):
        return {**stored, **told} if _later(stored["created_at"], told["created_at"]) else stored
    unknown = (name for name in _OF_PLAN if stored[name] in (None, ""))
    merged = {**stored, "uid": told["uid"], **_known(told, unknown), **_known(told, ("phase",))}
    merged["workers_after"] = stored["workers_after"] or told["workers_after"]
    merged["gone_at"] = _gone(stored, told)
    return merged


def _known(told: Row, names: Iterable[str]) -> Row:
    return {name: told[name] for name in names if told[name] not in (None, "")}


def _gone(stored: Row, told: Row) -> datetime | None:
    """Return since when the object is gone: who found it so first counts; one that is there isn't gone."""
    found: datetime | None = told["gone_at"] and (stored["gone_at"] or told["gone_at"])
    return found


def _later(stored: datetime | None, told: datetime | None) -> bool:
    return stored is None or told is None or told >= stored
