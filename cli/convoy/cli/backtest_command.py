"""The options and the help of ``convoy brain backtest``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convoy.cli.options import DatabaseUrl, StateDir, enter


def backtest(
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder with a folder for each public data set; without it the Brain's own store is used.",
            show_default=False,
        ),
    ] = None,
    protocol: Annotated[
        list[str] | None,
        typer.Option(
            metavar="P",
            help="P1, P2, P3, P4, load, memory, demand or startup; may be given again [default: all].",
            show_default=False,
        ),
    ] = None,
    data_set: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this data set; may be given again.", show_default=False),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this method; may be given again.", show_default=False),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="Draws at one and two configurations; a third of them above.")
    ] = 30,
    all_history: Annotated[
        bool, typer.Option("--all-history", help="Let each history hold all other data sets too.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write all results as CSV and figures as SVG here.", show_default=False),
    ] = None,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Say how right the models are, beside published methods, on jobs that they never saw.

    docs/backtest.md says what each protocol asks, how the scores are made and what they can't tell. On the store, a
    job is predicted from what was measured before it began. Nothing is changed.

    \b
    Examples:
      convoy brain backtest --data ~/measurements --output report
      convoy brain backtest --data ~/measurements --protocol P1 --data-set dl2_ps --seeds 5
      convoy brain backtest

    Exit status: 0 done, 1 a method failed on a case or the store has too few jobs, 2 what was asked can't be right,
    or the data, the output or the database can't be used.
    """
    enter(state_dir)
    from convoy.cli.backtest import run

    run(
        data,
        protocols=protocol or [],
        names=data_set or [],
        methods=method or [],
        seeds=seeds,
        all_history=all_history,
        output=output,
        database_url=database_url,
    )
