"""``convoy brain recommend`` and ``optimize``: what one job, or all of them, should become; nothing is changed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from convoy.cli.options import DatabaseUrl, StateDir, enter


def recommend(
    job: Annotated[str, typer.Argument(metavar="JOB", help="The job's name or uid.", show_default=False)],
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Where several jobs have the name.", show_default=False)
    ] = None,
    max_workers: Annotated[
        int | None, typer.Option(min=1, help="Most workers, instead of the job's limit.", show_default=False)
    ] = None,
    horizon_seconds: Annotated[
        float | None, typer.Option(min=1.0, help="A change must be paid back within it.", show_default=False)
    ] = None,
    max_ps: Annotated[
        int | None,
        typer.Option(min=1, help="Most parameter servers, instead of the job's limit.", show_default=False),
    ] = None,
    objective: Annotated[
        str | None, typer.Option(help="throughput, cost or deadline, instead of the job's.", show_default=False)
    ] = None,
    deadline: Annotated[
        datetime | None, typer.Option(help="When the job is to be finished (UTC).", show_default=False)
    ] = None,
    remaining_samples: Annotated[
        float | None, typer.Option(min=1.0, help="Samples that are left to train.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with all sizes that were weighed.")] = False,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Say what JOB should become, from the store alone. Nothing is changed, and no Brain needs to run.

    Shows the decision with its reason, the sizes that were weighed, with predicted speed and price and why each was
    rejected, and for each role the cores and memory that it needs.

    \b
    Examples:
      convoy brain recommend digits-allreduce
      convoy brain recommend digits-allreduce --max-workers 8
      convoy brain recommend ranking --objective deadline --deadline 2026-12-24T18:00:00 --remaining-samples 2e9

    Exit status: 0 answered ("undefined" is an answer), 1 there is no such job, 2 the database can't be used.
    """
    enter(state_dir)
    from convoy.cli.recommend import run

    run(
        job,
        database_url=database_url,
        namespace=namespace,
        max_workers=max_workers,
        as_json=as_json,
        horizon_seconds=horizon_seconds,
        max_ps=max_ps,
        objective=objective,
        deadline=None if deadline is None else deadline.replace(tzinfo=UTC).timestamp(),
        remaining_samples=remaining_samples,
    )


def optimize(
    capacity: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What to plan under: CSV node_type,nodes,accelerators_per_node[,cpu,memory,accelerator], or TOML "
            "with quotas, shares and a budget too [env: CONVOY_CAPACITY_FILE].",
            show_default=False,
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0.01, help="Most that the exact solver may take.", show_default=True)
    ] = 2.0,
    fairness: Annotated[
        float,
        typer.Option(min=0.0, max=10.0, help="0: most speed in all; 1: proportionally fair; more: to the least."),
    ] = 0.5,
    any_pool: Annotated[bool, typer.Option("--any-pool", help="Jobs may go to other node pools.")] = False,
    weighed: Annotated[bool, typer.Option("--weighed", help="Show every size that was weighed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Plan for all running and queued jobs together, from the store alone. Nothing is changed.

    Shows what each job should become and why, with predicted speeds and prices; how far the plan can be from the
    best one; and what one more unit of each scarce resource would be worth. docs/cluster-plan.md says how.

    \b
    Examples:
      convoy brain optimize
      convoy brain optimize --capacity twice-as-many.csv --json

    Exit status: 0 answered ("no change" is an answer), 2 FILE or the database can't be used.
    """
    enter(state_dir)
    from convoy.cli.optimize import run

    run(
        database_url=database_url,
        capacity=capacity,
        seconds=seconds,
        fairness=fairness,
        any_pool=any_pool,
        as_json=as_json,
        weighed=weighed,
    )
