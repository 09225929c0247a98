"""``convoy brain batch``, ``advice``, ``accept``, ``refuse``: the scheduled optimization, and people's say in it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from convoy.cli.options import DatabaseUrl, StateDir, enter
from convoy.core.api.errors import InvalidSetting

Identifier = Annotated[
    str,
    typer.Argument(metavar="ID", help="Of the recommendation; its first letters will do.", show_default=False),
]
By = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="Who decides [default: the user].", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]


class Mode(StrEnum):
    """What becomes of the plans."""

    ADVISE = "advise"
    APPLY = "apply"


def register(app: typer.Typer) -> None:
    """Add the commands to ``convoy brain``."""
    app.command("batch")(batch)
    app.command("advice")(advice)
    app.command("accept")(accept)
    app.command("refuse")(refuse)


def batch(
    mode: Annotated[
        Mode,
        typer.Option(
            help="advise: people decide; apply: carry out what is planned for jobs with optimizeMode cluster."
        ),
    ] = Mode.ADVISE,
    every: Annotated[
        str | None,
        typer.Option(metavar="LENGTH", help="Run for each window of that length, until stopped.", show_default=False),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            metavar="LENGTH",
            help="Without --every: run once, for the last window of that length [default: 1h].",
            show_default=False,
        ),
    ] = None,
    deadline: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Break a run off after it [default: the window's length, at least 10m].",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[
        str, typer.Option(metavar="WHERE", help="Where models are fitted: local, or dask://HOST:PORT of a scheduler.")
    ] = "local",
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Learn from the history and plan for all jobs: what a timer runs every hour or every night.

    Rolls the store up, reads what there is to learn from, fits models, tests them beside the champions, promotes
    those that are better, plans for all jobs that live, and writes recommendations. One runs at a time; it runs once
    for a window (windows of a length lie end to end), and goes on where it was broken off. Each run has a row in
    optimization_run and a report in Markdown (CONVOY_REPORTS_DIR); docs/batch.md says more.

    \b
    Examples:
      convoy brain batch
      convoy brain batch --mode apply --every 1h
      convoy brain batch --window 1d --engine dask://scheduler:8786

    Exit status: 0 done, was done already, or another process is at it; or after SIGTERM. 1 it failed or the deadline
    passed: run it again to go on. 2 an option, the database or the engine can't be used.
    """
    enter(state_dir)
    from convoy.cli import batch_run

    if every is not None and window is not None:
        raise InvalidSetting(
            f"--window {window}: expected none beside --every {every}, which says how long windows are"
        )
    status = batch_run.run(
        database_url,
        mode=mode.value,
        window=batch_run.length("1h" if window is None else window, "--window")
        if every is None
        else batch_run.length(every, "--every"),
        repeated=every is not None,
        deadline=None if deadline is None else batch_run.length(deadline, "--deadline").total_seconds(),
        where=engine,
        as_json=as_json,
    )
    raise typer.Exit(status)


def advice(
    everything: Annotated[bool, typer.Option("--all", help="Also what was accepted, refused or superseded.")] = False,
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """List the recommendations of the batch that wait for somebody to accept or refuse them.

    \b
    Examples:
      convoy brain advice
      convoy brain advice --all --json

    Exit status: 0, also where there are none; 2 the database can't be used.
    """
    enter(state_dir)
    from convoy.cli import decide

    decide.listed(database_url, everything=everything, as_json=as_json)


def accept(
    identifier: Identifier,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="Kept with it.", show_default=False)] = "",
    by: By = None,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Accept a recommendation: it is carried out.

    On this machine's cluster a ScalePlan is written at once, which the job's master makes exact. Elsewhere the job's
    master is answered with it when it asks next. It stands for CONVOY_ACCEPTED_STANDS_SECONDS, until another one is
    accepted for the job, or until it made things worse and was rolled back.

    \b
    Examples:
      convoy brain accept 3f2a91c0
      convoy brain accept 3f2a91c0 --by ana --why "the deadline is tomorrow"

    Exit status: 0 accepted (also if it was before), 1 there is no such recommendation, or the cluster refuses the
    plan; 2 it isn't proposed any more, or the database can't be used.
    """
    enter(state_dir)
    from convoy.cli import decide

    decide.accept(database_url, identifier, by=by, why=why)


def refuse(
    identifier: Identifier,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="Kept with it.", show_default=False)] = "",
    by: By = None,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Refuse a recommendation: that size isn't recommended to the job again for CONVOY_REFUSED_REMEMBERED_SECONDS.

    \b
    Example:
      convoy brain refuse 3f2a91c0 --why "the paper needs 4 workers"

    Exit status: 0 refused (also if it was before), 1 there is no such recommendation, 2 it isn't proposed any more,
    or the database can't be used.
    """
    enter(state_dir)
    from convoy.cli import decide

    decide.refuse(database_url, identifier, by=by, why=why)
