"""The parts of ``convoy brain backtest`` that aren't about speed: demand, start-up, memory."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from convoy.cli.screen import counted, screen

if TYPE_CHECKING:
    import pandas as pd
    from sqlalchemy.engine import Engine

    from convoy.brain.models.backtest.splits import Protocol


@dataclass(frozen=True)
class Part:
    """One part's results."""

    name: str
    """What was predicted."""
    scores: pd.DataFrame
    """Everything that was scored."""
    summary: pd.DataFrame
    """What is printed."""

    @property
    def file(self) -> str:
        """Name of its files, without their ending."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


LEAST_JOBS = 10
"""That succeeded: fewer say nothing of how jobs to come should begin."""

FOLDERS = ("workloads",)
"""Public data sets of these parts, by their folders."""


def there(folder: Path) -> list[str]:
    """Return those of ``FOLDERS`` that ``folder`` holds."""
    return [name for name in FOLDERS if any((folder / name).glob("*.*"))]


def public(folder: Path, chosen: Sequence[str], wanted: Sequence[Protocol]) -> list[Part]:
    """Return the parts that are wanted of the public data sets that were chosen.

    Raises:
        InvalidInput: one can't be used.
    """
    makers: Mapping[str, Callable[[Path], Part]] = {"demand": _public_demand}
    where = {"demand": "workloads"}
    parts = [str(one) for one in wanted if str(one) in makers]
    return [makers[part](folder / where[part]) for part in parts if where[part] in chosen]


def stored(engine: Engine, wanted: Sequence[Protocol]) -> list[Part]:
    """Return the parts that are wanted of the store; what it knows too little of is named and left out.

    Raises:
        Unavailable: the database can't be reached now.
    """
    makers: Mapping[str, Callable[[Engine], list[Part]]] = {"demand": _stored_demand, "startup": _stored_startup}
    return [part for one in wanted if str(one) in makers for part in makers[str(one)](engine)]


def _public_demand(folder: Path) -> Part:
    from convoy.brain.features.published.demand import philly_demand

    return _demand("demand of philly", philly_demand(folder))


def _stored_demand(engine: Engine) -> list[Part]:
    from convoy.brain.features.frames import cluster_hours

    by_resource = cluster_hours(engine).groupby(["cluster", "resource"], sort=True)
    found = [_demand(f"demand for {resource} in {cluster}", rows) for (cluster, resource), rows in by_resource]
    kept = [part for part in found if len(part.scores)]
    if not kept:
        screen(sys.stderr).print("demand: no cluster was measured for five weeks, left out")
    return kept


def _stored_startup(engine: Engine) -> list[Part]:
    from convoy.brain.features.frames import startup_jobs
    from convoy.brain.models.backtest.startup import startup_backtest, startup_summary

    jobs = startup_jobs(engine)
    if len(jobs) < LEAST_JOBS:
        screen(sys.stderr).print(f"startup: {counted(len(jobs), 'job')} of the store succeeded, left out")
        return []
    scores = startup_backtest(jobs)
    return [Part("start-up of jobs whose templates are known", scores, startup_summary(scores))]


def _demand(name: str, series: pd.DataFrame) -> Part:
    from convoy.brain.models.backtest.demand import demand_backtest, demand_summary

    scores = demand_backtest(series)
    return Part(name, scores, demand_summary(scores))


def table(part: Part) -> Table:
    """Return a part's summary as a table."""
    shown = Table(title=part.name, title_justify="left", box=None)
    for name in part.summary.columns:
        shown.add_column(str(name).replace("_", " "), justify="left" if name == "method" else "right", no_wrap=True)
    for row in part.summary.itertuples(index=False):
        shown.add_row(*(_text(value) for value in row))
    return shown


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "-" if value != value else f"{value:.4g}"
    return str(value)
