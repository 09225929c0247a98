"""``convoy brain ...``: serve the Brain, ask it, keep its store."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from convoy.cli.options import DatabaseUrl, StateDir, enter

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="The Brain: serve it, ask it, bring its database up to date."
)


class Origin(StrEnum):
    """Where history comes from."""

    MEASURED = "measured"
    IMPORTED = "imported"


@app.command("serve")
def serve(
    database_url: DatabaseUrl = None,
    port: Annotated[int | None, typer.Option(help="Where masters call [env: CONVOY_BRAIN_PORT].")] = None,
    state_dir: StateDir = None,
) -> None:
    """Run the Brain in the foreground: it keeps what masters report and answers what a job should become.

    \b
    Examples:
      convoy brain serve
      convoy brain serve --database-url mysql://USER:PASSWORD@HOST:3306/DATABASE --port 50001

    Exit status: 0 after SIGTERM, 2 where the port is in use or the database can't be used.
    """
    enter(state_dir)
    from convoy.brain.serve import process
    from convoy.brain.settings import BrainSettings

    process.run(BrainSettings.load(database_url=database_url, brain_port=port))


@app.command("recommend")
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
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Say what JOB should become, from the store alone. Nothing is changed, and no Brain needs to run.

    Shows the decision with its reason, and every size that was weighed: predicted speed with its intervals, price.

    \b
    Examples:
      convoy brain recommend digits-allreduce
      convoy brain recommend digits-allreduce --max-workers 8

    Exit status: 0 answered ("undefined" is an answer), 1 there is no such job, 2 the database can't be used.
    """
    enter(state_dir)
    from convoy.cli.recommend import run

    run(
        job,
        database_url=database_url,
        namespace=namespace,
        max_workers=max_workers,
        horizon_seconds=horizon_seconds,
    )


@app.command("import")
def import_files(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="CSV (.csv, .csv.gz) or Parquet (.parquet).", show_default=False),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be stored and what would be refused; store nothing.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Store nothing unless all rows are good.")] = False,
    show_refused: Annotated[
        int, typer.Option(metavar="N", min=0, help="Refused rows that are shown of each file.")
    ] = 20,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Load the history of past jobs, so that the Brain can size jobs before it has seen any.

    A row is one job's mean speed at one configuration. Required columns: job, workers, throughput; all columns are in
    docs/history-format.md. A row that can't be right is refused with its line and the reason, and the others are
    stored. Importing a file again, also after it was interrupted, adds what is missing and nothing twice. A database
    that isn't there is made. A Brain that runs learns from what was imported before its next answer.

    
    Examples:
      convoy brain import history.csv --dry-run
      convoy brain import 2025.parquet 2026.csv.gz --strict

    Exit status: 0 all rows are good, 1 some were refused (the others are stored; with --strict none is), 2 a file or
    the database can't be used at all (nothing is stored).
    """
    enter(state_dir)
    from convoy.cli.history import run_import

    raise typer.Exit(
        run_import(files, database_url=database_url, dry_run=dry_run, strict=strict, show_refused=show_refused)
    )


@app.command("export")
def export(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Ends in .csv, .csv.gz or .parquet; -: CSV to stdout.", show_default=False
        ),
    ],
    job: Annotated[
        list[str] | None,
        typer.Option(metavar="JOB", help="Only this job; may be given again.", show_default=False),
    ] = None,
    origin: Annotated[
        Origin | None,
        typer.Option(help="Only jobs that the store measured, or only imported rows.", show_default=False),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only what was measured since, such as 2026-01-31.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it is there.")] = False,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Write the history that the Brain learns from to FILE, as `convoy brain import` reads it.

    Imported rows come as they were, with their origin; a measured job has a row for each configuration that it ran
    at, stands under its uid, and has the origin "measured". FILE is there whole or not at all.

    
    Examples:
      convoy brain export history.parquet
      convoy brain export - --job digits-allreduce --since 2026-01-31

    Exit status: 0 written, 1 the store has nothing of the job, 2 FILE or the database can't be used.
    """
    enter(state_dir)
    from convoy.cli.history import run_export

    run_export(
        file,
        database_url=database_url,
        jobs=job or [],
        origin=None if origin is None else origin.value,
        since=since,
        force=force,
    )


@app.command("migrate")
def migrate(database_url: DatabaseUrl = None, state_dir: StateDir = None) -> None:
    """Bring the Brain's database to this version's tables. Changes nothing where it is there already.

    \b
    Example:
      convoy brain migrate --database-url sqlite:////srv/convoy/brain.db

    Exit status: 0 it is there, 2 the database can't be used.
    """
    enter(state_dir)
    from convoy.brain.settings import BrainSettings
    from convoy.brain.store.engine import shown
    from convoy.brain.store.migrate import migrate as bring_up

    url = BrainSettings.load(database_url=database_url).database()
    done = bring_up(url)
    before = "nothing" if done.before is None else f"revision {done.before}"
    typer.echo(f"database {shown(url)}: {before} before, revision {done.after} now")


@app.command("maintain")
def maintain(database_url: DatabaseUrl = None, state_dir: StateDir = None) -> None:
    """Roll the store up by minute and hour, make days ahead, remove what is older than it is kept, find orphans.

    A Brain that serves does this by itself (CONVOY_MAINTAIN_EVERY_SECONDS); run it from a timer where none serves, or
    before a large analysis. It may run beside ingest, twice, and be killed: what is left is done by the next run. How
    long rows are kept is said by CONVOY_KEEP_*_DAYS (docs/settings.md).

    \b
    Example:
      convoy brain maintain --database-url mysql://USER:PASSWORD@HOST:3306/DATABASE

    Exit status: 0 done, or another process is at it; 1 tables stayed in use, run it again; 2 the database can't be
    used.
    """
    enter(state_dir)
    from convoy.cli.maintain import run

    run(database_url)
