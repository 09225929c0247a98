"""A cluster's capacity from a file: what is to be planned for in place of what is known of the machines."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from convoy.brain.plan.cluster import Capacity, Pool
from convoy.core.api.errors import InvalidInput

REQUIRED = ("node_type", "nodes", "accelerators_per_node")
OPTIONAL = ("cpu", "memory", "accelerator")


def capacity_of(file: Path) -> Capacity:
    """Return the pools that a CSV file names: a line a pool.

    Columns: ``node_type``, ``nodes``, ``accelerators_per_node``; and, per node, ``cpu`` (cores) and ``memory``
    (bytes), empty where they aren't to bound anything, and ``accelerator`` (its kind).

    Raises:
        InvalidInput: it can't be read, or a line can't be right; the message names the line and the column.
    """
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            rows = list(csv.DictReader(lines))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"{file}: expected a CSV file with the columns {', '.join(REQUIRED)}: {error}") from error
    missing = [name for name in REQUIRED if rows and name not in rows[0]]
    if missing or not rows:
        what = f"it has no column {', '.join(missing)}" if missing else "it has no line of capacity"
        raise InvalidInput(f"{file}: {what}; expected {', '.join(REQUIRED)}[, {', '.join(OPTIONAL)}]")
    pools = [_pool(file, number, row) for number, row in enumerate(rows, 2)]
    names = [pool.name for pool in pools]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInput(f"{file}: node_type {twice} stands there twice; expected one line a type")
    return Capacity(tuple(pools))


def _pool(file: Path, line: int, row: dict[str, str]) -> Pool:
    def number(name: str, unknown: float) -> float:
        text = (row.get(name) or "").strip()
        try:
            value = float(text) if text else unknown
        except ValueError:
            value = math.nan
        if not value >= 0.0:
            raise InvalidInput(f"{file}, line {line}: {name} is {text!r}: expected a number, zero or more")
        return value

    name = (row["node_type"] or "").strip()
    if not name:
        raise InvalidInput(f"{file}, line {line}: node_type is empty: expected a name")
    nodes = number("nodes", math.nan)
    if nodes == math.inf or nodes != math.floor(nodes):
        raise InvalidInput(f"{file}, line {line}: nodes is {nodes:g}: expected a whole number")
    return Pool(
        name, int(nodes), number("accelerators_per_node", math.nan), number("cpu", math.inf),
        number("memory", math.inf), (row.get("accelerator") or "").strip(),
    )  # fmt: skip
