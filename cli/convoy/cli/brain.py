"""``convoy brain ...``: serve the Brain, ask it, keep its store."""

from __future__ import annotations

from typing import Annotated

import typer

from convoy.cli.options import DatabaseUrl, StateDir, enter

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="The Brain: serve it, ask it, bring its database up to date."
)


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
