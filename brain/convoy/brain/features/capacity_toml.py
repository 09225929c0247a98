"""The TOML file of what all jobs are planned under. What it names and nothing is made of is refused.

budget_per_hour = 120.0

[[pools]]                      # absent: the machines that the store knows
node_type = "p4"
nodes = 16
accelerators_per_node = 4
cpu = 48                       # of a node; also "48", "47500m"; absent: doesn't bound
memory = "384Gi"
accelerator = "A100"

[[quotas]]                     # of a user, a namespace, or a user in a namespace
namespace = "research"
accelerators = 16
pool = "p4"                    # absent: over all pools

[[shares]]                     # of what there is, beside the 1 of everybody else
user = "ada"
share = 2.0
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from convoy.brain.features.given import MOST_NODES, Given
from convoy.brain.plan.cluster import Pool, Quota
from convoy.core.api import quantity
from convoy.core.api.errors import InvalidInput, InvalidQuantity

AMOUNTS = ("accelerators", "cpu", "memory")
TABLES = ("budget_per_hour", "pools", "quotas", "shares")


def given_in(file: Path) -> Given:
    """Return what a TOML file gives (see the module).

    Raises:
        InvalidInput: it can't be read, or something in it can't be right; the message names the place.
    """
    try:
        told = tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidInput(f"{file}: expected a TOML file with {', '.join(TABLES)}: {error}") from error
    whole = _Table(str(file), told, TABLES)
    pools = [
        _pool(one)
        for one in whole.tables(
            "pools", ("node_type", "nodes", "accelerators_per_node", "cpu", "memory", "accelerator")
        )
    ]
    quotas = [_quota(one) for one in whole.tables("quotas", ("user", "namespace", "pool", *AMOUNTS))]
    shares = [_share(one) for one in whole.tables("shares", ("user", "namespace", "share"))]
    whole.refuse_twice("pools", [pool.name for pool in pools])
    whole.refuse_twice("quotas", [(one.user, one.namespace, one.pool) for one in quotas])
    whole.refuse_twice("shares", [which for which, _ in shares])
    for one in quotas:
        if pools and one.pool and one.pool not in {pool.name for pool in pools}:
            raise whole.wrong("quotas", f"there is no pool {one.pool!r} among those of the file")
    return Given(
        tuple(pools),
        tuple(quotas),
        whole.number("budget_per_hour", math.inf),
        {name: share for (kind, name), share in shares if kind == "user"},
        {name: share for (kind, name), share in shares if kind == "namespace"},
    )


def _pool(table: _Table) -> Pool:
    nodes = table.number("nodes", None)
    if nodes > MOST_NODES or nodes != math.floor(nodes):
        raise table.wrong("nodes", f"is {nodes:g}: expected a whole number up to {MOST_NODES:,}")
    return Pool(
        table.name("node_type"), int(nodes), table.number("accelerators_per_node", None),
        table.amount("cpu", quantity.cores), table.amount("memory", quantity.count), table.text("accelerator"),
    )  # fmt: skip


def _quota(table: _Table) -> Quota:
    user, namespace = table.text("user"), table.text("namespace")
    if not (user or namespace):
        raise table.wrong("user", "is empty, and namespace too: expected whose quota it is")
    most = Quota(
        user, table.number("accelerators", math.inf), table.amount("cpu", quantity.cores),
        table.amount("memory", quantity.count), table.text("pool"), namespace,
    )  # fmt: skip
    if all(getattr(most, name) == math.inf for name in AMOUNTS):
        raise table.wrong("accelerators", f"isn't there, nor another of {', '.join(AMOUNTS)}: it would bound nothing")
    return most


def _share(table: _Table) -> tuple[tuple[str, str], float]:
    user, namespace = table.text("user"), table.text("namespace")
    if bool(user) == bool(namespace):
        raise table.wrong("user", "or namespace: expected one of the two, whose share it is")
    share = table.number("share", None)
    if not 0.0 < share < math.inf:
        raise table.wrong("share", f"is {share:g}: expected a number above zero")
    return (("user", user) if user else ("namespace", namespace)), share


class _Table:
    """A table of the file, and where it is."""

    def __init__(self, where: str, values: dict[str, Any], known: Sequence[str]) -> None:
        self._where, self._values = where, values
        unknown = [name for name in values if name not in known]
        if unknown:
            raise InvalidInput(f"{where}: nothing is made of {', '.join(unknown)}; expected {', '.join(known)}")

    def wrong(self, name: str, what: str) -> InvalidInput:
        """Return an error about one of its values."""
        return InvalidInput(f"{self._where}: {name} {what}")

    def tables(self, name: str, known: Sequence[str]) -> list[_Table]:
        """Return the tables that stand below a name."""
        found = self._values.get(name, [])
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise self.wrong(name, f"isn't written as [[{name}]]: expected tables with {', '.join(known)}")
        return [_Table(f"{self._where}, {name} {number}", one, known) for number, one in enumerate(found, 1)]

    def refuse_twice(self, name: str, keys: Sequence[Any]) -> None:
        """Refuse what is given twice."""
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            shown = twice if isinstance(twice, str) else " ".join(part for part in twice if part)
            raise self.wrong(name, f"names {shown} twice: expected it once")

    def text(self, name: str) -> str:
        """Return a text; "": it isn't there."""
        value = self._values.get(name, "")
        if not isinstance(value, str):
            raise self.wrong(name, f"is {value!r}: expected a text")
        return value.strip()

    def name(self, name: str) -> str:
        """Return a text that has to be there."""
        if not (found := self.text(name)):
            raise self.wrong(name, "is empty: expected a name")
        return found

    def number(self, name: str, missing: float | None) -> float:
        """Return a number, zero or more; ``missing``: what it is where it isn't there, None: it has to be."""
        value = self._values.get(name, missing)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            shown = "isn't there" if value is None else f"is {value!r}"
            raise self.wrong(name, f"{shown}: expected a number, zero or more")
        return float(value)

    def amount(self, name: str, read: Callable[[Any], float]) -> float:
        """Return a number or a quantity such as ``384Gi``; infinite where it isn't there."""
        value = self._values.get(name)
        if not isinstance(value, str):
            return self.number(name, math.inf)
        try:
            return float(read(value))
        except InvalidQuantity as error:
            raise self.wrong(name, f"is {value!r}: {error}") from error
