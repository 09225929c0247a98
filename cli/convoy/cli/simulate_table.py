"""The tables that ``convoy brain simulate`` prints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from convoy.brain.simulate.measures import Measures, Paired


def table(measures: Sequence[Measures]) -> Table:
    """Return a row a policy."""
    found = Table(box=None, title="Completion times in seconds", title_justify="left")
    found.add_column("policy")
    for name in ("mean", "geometric mean", "p99", "makespan", "in use", "accelerator hours", "cost", "restarts",
                 "per job hour", "unfair", "p99 of unfairness", "OOM", "lost nodes"):  # fmt: skip
        found.add_column(name, justify="right")
    for one in measures:
        found.add_row(
            one.policy,
            f"{one.mean_completion:.0f}",
            f"{one.geometric_completion:.0f}",
            f"{one.p99_completion:.0f}",
            f"{one.makespan:.0f}",
            f"{one.utilization:.1%}",
            f"{one.accelerator_hours:.1f}",
            "no price" if math.isnan(one.cost) else f"{one.cost:.2f}",
            str(one.restarts),
            f"{one.restarts_per_job_hour:.2f}",
            f"{one.unfair:.1%}",
            f"{one.worst_fairness:.2f}",
            str(one.ooms),
            str(one.failures),
        )
    return found


def comparison(first: str, others: Mapping[str, Paired]) -> Table:
    """Return a row a policy: its jobs' completion times over those under the first one."""
    found = Table(box=None, title=f"Completion times over those of {first}, job by job", title_justify="left")
    found.add_column("policy")
    for name in ("geometric mean", "95 % interval", "p99", "worst"):
        found.add_column(name, justify="right")
    for name, one in others.items():
        interval = f"{one.low:.3f} to {one.high:.3f}"
        found.add_row(name, f"{one.ratio:.3f}", interval, f"{one.p99:.2f}", f"{one.worst:.2f} ({one.worst_job})")
    return found
