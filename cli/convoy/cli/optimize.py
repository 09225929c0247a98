"""``convoy brain optimize``: the plan for all jobs together, as a table or as JSON."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from convoy.cli import database, local
from convoy.cli.chatter import chatter_to_stderr
from convoy.cli.screen import counted, screen

if TYPE_CHECKING:
    from convoy.brain.plan.cluster import MarginalPrice, Pool, Progress
    from convoy.brain.serve.optimize import Optimized

UNITS = {"cpu": ("cores", 1.0), "memory": ("GiB", 2.0**30)}
SHOWN = (
    *("decision", "reason", "message", "pool", "workers", "ps", "batch", "speed"),
    *("goodput", "goodput_before", "price_per_hour"),
)


def run(
    *,
    database_url: str | None,
    capacity: Path | None,
    seconds: float,
    fairness: float,
    any_pool: bool,
    as_json: bool,
    weighed: bool,
) -> None:
    """Print the plan.

    Raises:
        InvalidInput, Unusable: the capacity file or the database can't be used.
    """
    from convoy.brain.settings import BrainSettings
    from convoy.brain.store.engine import check

    settings = BrainSettings.load(database_url=database_url or database.for_readers(local.existing_cluster()))
    check(settings.database(), must_exist=True)  # before the models, which take longer to import than a refusal may
    from convoy.brain.features.capacity_file import given_by
    from convoy.brain.plan.cluster import Policy
    from convoy.brain.serve.optimize import optimize
    from convoy.core.process import logs

    os.environ.setdefault("CONVOY_LOG_LEVEL", "warning")  # the plan says itself what it rests on
    logs.configure("optimize")
    file = capacity or settings.capacity_file
    given = given_by(file) if file is not None else None
    begun = time.monotonic()

    def tell(found: Progress) -> None:
        after = f"{time.monotonic() - begun:.1f} s"
        line = f"after {after}: {found.step.lower()}, objective {found.value:.6g}, gap {found.gap:.3%}"
        screen(sys.stderr).print(Text(line, style="dim"))

    rules = Policy(fairness=fairness, seconds=seconds)
    with chatter_to_stderr():  # HiGHS prints where the JSON goes
        answer = optimize(settings, given=given, policy=rules, any_pool=any_pool, watch=None if as_json else tell)
    if as_json:
        screen().print_json(json.dumps(document(answer, weighed=weighed)), indent=2)
    else:
        show(answer, weighed=weighed)


def show(answer: Optimized, *, weighed: bool) -> None:
    """Print a plan for people."""
    console, plan, asked = screen(), answer.plan, answer.asked
    console.print(plan.message)
    if plan.reason == "NoCapacity":
        console.print("give --capacity FILE, or let `convoy brain monitor` watch the cluster's machines")
    if plan.jobs:
        console.print(jobs(answer))
    if weighed:
        for row in asked.rows:
            console.print(Text(f"\n{row.namespace}/{row.name}", style="bold"))
            console.print(alternatives(answer, row.uid))
    if plan.prices:
        console.print(prices(plan.prices))
    pools = ", ".join(_pool(one) for one in asked.capacity.pools) or "none known"
    console.print(
        f"capacity: {pools}; speeds from the {asked.model} ({counted(asked.history_jobs, 'job')} of history)"
    )
    for note in (*asked.notes, *by_throughput(answer)):
        console.print(Text(f"note: {note}"))
    if plan.decided:
        console.print(f"method {plan.method}, gap to the bound {plan.gap:.3%}; nothing was changed")


def jobs(answer: Optimized) -> Table:
    """Return what becomes of each job as a table."""
    price = f"{answer.asked.currency}/H"
    shown = Table(
        "JOB", "USER", "DECISION", "POOL", "WORKERS", "SERVERS", "SAMPLES/S", "GOODPUT", price, "REASON", box=None
    )
    shown.add_column("WHY", overflow="fold")
    for row, one, job in zip(answer.asked.rows, answer.plan.jobs, answer.asked.jobs, strict=True):
        workers = str(one.workers)
        if job.current is not None and one.decision == "CHANGE":
            workers = f"{job.sizes.workers[job.current]} -> {workers}"
        goodput = _number(one.goodput)
        if one.decision == "CHANGE":
            goodput = f"{_number(one.goodput_before)} -> {goodput}"
        shown.add_row(
            f"{row.namespace}/{row.name}", one.user, str(one.decision), one.pool, workers, str(one.ps),
            _number(one.speed), goodput, _number(one.price_per_hour, 3), one.reason, one.message,
        )  # fmt: skip
    return shown


def by_throughput(answer: Optimized) -> list[str]:
    """Return of which jobs speed counted as it is, and why."""
    whys: dict[str, list[str]] = {}
    for row, currency in zip(answer.asked.rows, answer.asked.currencies, strict=True):
        if currency.name != "goodput":
            whys.setdefault(str(currency), []).append(f"{row.namespace}/{row.name}")
    return [f"valued by {what}: {', '.join(who)}" for what, who in sorted(whys.items())]


def alternatives(answer: Optimized, uid: str) -> Table:
    """Return the sizes that were weighed for a job as a table."""
    price = f"{answer.asked.currency}/H"
    shown = Table("POOL", "WORKERS", "SERVERS", "SAMPLES/S", "GOODPUT", price, "WORTH", "TAKES", "VERDICT", box=None)
    shown.add_column("WHY", overflow="fold")
    for one in answer.plan.weighed(uid):
        shown.add_row(
            one.pool, str(one.workers), str(one.ps), _number(one.speed), _number(one.goodput),
            _number(one.price_per_hour, 3), _number(one.value, 4), _number(one.cost, 4), one.verdict, one.message,
        )  # fmt: skip
    return shown


def prices(found: tuple[MarginalPrice, ...]) -> Table:
    """Return the marginal prices as a table."""
    shown = Table("RESOURCE", "OF", "USED", "OF ALL", "ONE MORE IS WORTH", box=None)
    for one in found:
        unit, size = UNITS.get(one.resource, (one.resource, 1.0))
        whose = " in ".join(part for part in (one.user, one.namespace) if part)
        of = " ".join(part for part in (one.pool, f"quota of {whose}" if whose else "") if part) or "all"
        used, available = f"{one.used / size:.6g}", f"{one.available / size:.6g}"
        shown.add_row(unit, of, used, available, f"{one.price * size:.4g}")
    return shown


def document(answer: Optimized, *, weighed: bool) -> dict[str, Any]:
    """Return a plan as JSON; what isn't known is null."""
    from convoy.brain.plan.cluster import known

    plan, asked = answer.plan, answer.asked
    found = []
    for row, one, job, currency in zip(asked.rows, plan.jobs, asked.jobs, asked.currencies, strict=True):
        entry: dict[str, Any] = {"job": row.name, "namespace": row.namespace, "uid": row.uid, "user": one.user}
        entry |= {name: known(getattr(one, name)) for name in SHOWN}
        entry |= {"priority": job.priority, "weight": job.weight, "valued_by": asdict(currency)}
        entry["instead"] = None if one.instead is None else _plain(one.instead)
        names = asked.machines.get(one.pool, ())
        entry["machines"] = [names[place] for place in one.nodes if place < len(names)]
        if weighed:
            entry["weighed"] = [_plain(size) for size in plan.weighed(row.uid)]
        found.append(entry)
    return {
        **plan.document(),
        "currency": asked.currency,
        "speeds": asked.model,
        "history_jobs": asked.history_jobs,
        "capacity": [_plain(pool) for pool in asked.capacity.pools],
        "quotas": [_plain(quota) for quota in asked.capacity.quotas],
        "budget_per_hour": known(asked.capacity.budget_per_hour),
        "notes": list(asked.notes),
        "jobs": found,
        "prices": [_plain(price) for price in plan.prices],
    }


def _plain(one: Any) -> dict[str, Any]:
    from convoy.brain.plan.cluster import known

    return {name: known(value) for name, value in asdict(one).items()}


def _pool(pool: Pool) -> str:
    kind = f" {pool.accelerator}" if pool.accelerator else ""
    return f"{pool.name} ({counted(pool.nodes, 'node')} x {pool.accelerators_per_node:g} accelerators{kind})"


def _number(value: float, digits: int = 0) -> str:
    return "-" if math.isnan(value) else f"{value:,.{digits}f}"
