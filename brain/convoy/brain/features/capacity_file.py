"""What is to be planned under, from a file: pools alone as CSV; quotas, shares and a budget too as TOML."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from convoy.brain.features.capacity_toml import given_in
from convoy.brain.features.given import MOST_NODES, Given
from convoy.brain.plan.cluster import Pool
from convoy.core.api.errors import InvalidInput

REQUIRED = ("node_type", "nodes", "accelerators_per_node")
OPTIONAL = ("cpu", "memory", "accelerator")


def given_by(file: Path) -> Given:
    """Return what a file gives: ``.toml`` as ``given_in`` has it, any other as a CSV of pools.

    Raises:
        InvalidInput: it can't be read, or something in it can't be right; the message names the place.
    """
    return given_in(file) if file.suffix.lower() == ".toml" else Given(pools=pools_in(file))


def pools_in(file: Path) -> tuple[Pool, ...]:
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
    columns = [name for name in rows[0] if name is not None] if rows else []
    missing = [name for name in REQUIRED if name not in columns]
    if missing or not rows:
        what = f"it has no column {', '.join(missing)}" if rows else "it has no line of capacity"
        raise InvalidInput(f"{file}: {what}; expected {', '.join(REQUIRED)}[, {', '.join(OPTIONAL)}]")
    unknown = [name for name in columns if name not in (*REQUIRED, *OPTIONAL)]
    if unknown:
        raise InvalidInput(
            f"{file}: nothing is made of the column {', '.join(unknown)}; expected {', '.join(REQUIRED)}"
            f"[, {', '.join(OPTIONAL)}], and quotas and the like in a .toml file"
        )
    pools = [_pool(file, number, row) for number, row in enumerate(rows, 2)]
    names = [pool.name for pool in pools]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInput(f"{file}: node_type {twice} stands there twice; expected one line a type")
    return tuple(pools)


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
    if nodes > MOST_NODES or nodes != math.floor(nodes):
        raise InvalidInput(f"{file}, line {line}: nodes is {nodes:g}: expected a whole number up to {MOST_NODES:,}")
    return Pool(
        name, int(nodes), number("accelerators_per_node", math.nan), number("cpu", math.inf),
        number("memory", math.inf), (row.get("accelerator") or "").strip(),
    )  # fmt: skip
