"""``convoy brain models ...`` and ``convoy brain fit``: the registry of models. Nothing is decided here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convoy.cli.options import DatabaseUrl, StateDir, enter

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="The registry of fitted models: what there is, how good it is, which one is used.",
)

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="throughput, load, memory, startup, demand or efficiency.", show_default=False
    ),
]
AnyModel = Annotated[
    str | None, typer.Argument(metavar="[MODEL]", help="Only this model's versions.", show_default=False)
]
Number = Annotated[
    int | None,
    typer.Option("--version", min=1, metavar="N", help="Which one [default: the champion, else the newest]."),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]


@app.command("list")
def list_versions(
    model: AnyModel = None, as_json: AsJson = False, database_url: DatabaseUrl = None, state_dir: StateDir = None
) -> None:
    """List the versions of models: stage, window, rows, and what their back-tests found.

    \b
    Examples:
      convoy brain models list
      convoy brain models list throughput --json

    Exit status: 0, also where there are none; 2 the database can't be used.
    """
    enter(state_dir)
    from convoy.cli import models_run

    models_run.listed(database_url, model, as_json=as_json)


@app.command("show")
def show(
    model: Model,
    version: Number = None,
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Show one version: what it was fitted to, and what was decided about it on what ground.

    \b
    Examples:
      convoy brain models show throughput
      convoy brain models show throughput --version 3 --json

    Exit status: 0 shown, 1 there is no such version, 2 the database can't be used.
    """
    enter(state_dir)
    from convoy.cli import models_run

    models_run.shown(database_url, model, version, as_json=as_json)


@app.command("card")
def card(
    model: Model,
    version: Number = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there.", show_default=False)
    ] = None,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Print the model card of one version, in Markdown, made of its file.

    \b
    Examples:
      convoy brain models card throughput
      convoy brain models card throughput --version 3 --output card.md

    Exit status: 0 printed, 1 there is no such version, 2 its file, FILE or the database can't be used.
    """
    enter(state_dir)
    from convoy.cli import models_run

    models_run.card_of(database_url, model, version, output)


@app.command("promote")
def promote(
    model: Model,
    version: Annotated[
        int | None,
        typer.Option("--version", min=1, metavar="N", help="Which one [default: the newest candidate]."),
    ] = None,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Make a version the champion, if its back-test says that it is better; say why, or why not.

    There is no way around the back-test. The one that was champion before is taken up again by
    `convoy brain models rollback`.

    \b
    Examples:
      convoy brain models promote throughput
      convoy brain models promote throughput --version 3

    Exit status: 0 promoted, 1 not promoted or no such version, 2 its file or the database can't be used.
    """
    enter(state_dir)
    from convoy.cli import models_run

    raise typer.Exit(models_run.promote(database_url, model, version))


@app.command("refuse")
def refuse(
    model: Model,
    version: Annotated[int, typer.Option("--version", min=1, metavar="N", help="Which one.", show_default=False)],
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="Kept with it.", show_default=False)] = "",
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Refuse a candidate by hand.

    \b
    Example:
      convoy brain models refuse throughput --version 4 --why "fitted while the network was down"

    Exit status: 0 refused, 1 there is no such version, 2 it is no candidate, or the database can't be used.
    """
    enter(state_dir)
    from convoy.cli import models_run

    models_run.refuse(database_url, model, version, why)


@app.command("rollback")
def roll_back(model: Model, database_url: DatabaseUrl = None, state_dir: StateDir = None) -> None:
    """Take the champion back: the last good one before it is used again.

    \b
    Example:
      convoy brain models rollback throughput

    Exit status: 0 done, 1 there was none before whose file can be used, 2 the database can't be used.
    """
    enter(state_dir)
    from convoy.cli import models_run

    models_run.roll_back(database_url, model)


@app.command("verify")
def verify(model: AnyModel = None, database_url: DatabaseUrl = None, state_dir: StateDir = None) -> None:
    """Check the files of all versions: that they are there, whole, and what the store says of them.

    \b
    Examples:
      convoy brain models verify
      convoy brain models verify throughput

    Exit status: 0 all are good, 1 some aren't, 2 the database can't be used.
    """
    enter(state_dir)
    from convoy.cli import models_run

    raise typer.Exit(models_run.verify(database_url, model))


def fit(
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="Only this one; may be given again [default: all that can be].",
            show_default=False,
        ),
    ] = None,
    promote: Annotated[
        bool, typer.Option("--promote/--no-promote", help="Decide at once by back-test whether it is used.")
    ] = True,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Fit models to the store, test them beside the champions, and keep them as new versions.

    A new version becomes the champion, which a serving Brain uses, if it is better on the same rows by more than
    noise. It may run from a timer, and beside a serving Brain.

    \b
    Examples:
      convoy brain fit
      convoy brain fit --model throughput --no-promote

    Exit status: 0 fitted (promoted or not), 1 the store holds nothing to fit to, 2 the models' folder or the database
    can't be used.
    """
    enter(state_dir)
    from convoy.cli import models_run

    models_run.fit_all(database_url, model or [], promote=promote)
