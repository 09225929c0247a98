"""What predictions of speed do without a column: what they take instead, or that they don't read it."""

from __future__ import annotations

import math

from convoy.brain.features.columns import BY_NAME
from convoy.brain.ingest.history.columns import FILE_COLUMNS, ORIGIN, REQUIRED
from convoy.brain.models.throughput.frame import CHANNELS, DEFAULTS, LABELS, WINDOW_NOISE

_READ = {
    **{name: f"no job is found alike by its {name.replace('_', ' ')}" for name in LABELS},
    **{name: "unlimited" if math.isinf(value) else f"{value:g} is assumed" for name, value in DEFAULTS.items()},
    "strategy": "ps where a row has servers, else allreduce is assumed",
    "mode": "sync is assumed",
    "ps": "none; a row whose strategy is ps teaches nothing",
    "batch_size": "whether workers share one batch is inferred; asynchronous ones have their own",
    "worker_cpu": "enough are assumed",
    "ps_cpu": "enough are assumed",
    **dict.fromkeys(CHANNELS, "what a step consists of is inferred from speed alone"),
    "ps_cpu_used": "of a single server, ps_cpu_used_max alone is read",
    "throughput_sd": f"a scatter of {WINDOW_NOISE:.0%} over 10 s is assumed",
    "observed_at": "all rows of a job count as one session",
    "window_seconds": "10 s is assumed",
    "status": "ok is assumed",
}
_EMPTY = {
    "job": "each row is refused",
    "workers": "each row is refused",
    "throughput": "each row whose status is ok is refused",
}
"""What follows where a required column is there and has no value."""

UNREAD: tuple[str, ...] = tuple(name for name in BY_NAME if name not in _READ and name not in REQUIRED)
"""Columns that are kept, and that no prediction of speed reads."""


def without(name: str) -> str:
    """Return what follows where a column is absent or empty, in a few words."""
    if name in REQUIRED:
        return "the file is refused; the row, where it is empty"
    if name == ORIGIN:
        return "the file's name stands for it"
    return _READ.get(name, "nothing: no prediction of speed reads it")


def absent(names: frozenset[str]) -> tuple[dict[str, str], list[str]]:
    """Return what follows for each column that a file has no value in, and apart those that no
    prediction of speed reads.

    Args:
        names: the columns with values, of a file that has all that are required.
    """
    missing = [column.name for column in FILE_COLUMNS if column.name not in names]
    read = {name: _EMPTY.get(name) or without(name) for name in missing if name not in UNREAD}
    return read, [name for name in missing if name in UNREAD]
