"""``convoy brain ...``: serve the Brain, ask it, keep its store."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from convoy.cli import asking, backtest_command, batch, models, simulate_command, workload
from convoy.cli.options import DatabaseUrl, StateDir, enter

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="The Brain: serve it, ask it, bring its database up to date."
)
app.command("recommend")(asking.recommend)
app.command("optimize")(asking.optimize)
app.command("backtest")(backtest_command.backtest)
app.command("fit")(models.fit)
app.command("simulate")(simulate_command.simulate)
app.command("workload")(workload.workload)
app.add_typer(models.app, name="models")
batch.register(app)


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


@app.command("collect")
def collect(
    every: Annotated[
        str | None,
        typer.Option(
            metavar="STEP",
            help="Time between two rows [env: CONVOY_LOAD_STEP_SECONDS; default: 30s].",
            show_default=False,
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Collect what is due now, and end.")] = False,
    since: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Collect the past since then, and end.", show_default=False),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="With --from: until then.", show_default=False)
    ] = None,
    queries: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Queries in place of built-in ones (docs/prometheus.md).", show_default=False
        ),
    ] = None,
    show_queries: Annotated[
        bool, typer.Option("--show-queries", help="Print the queries in force; ask nothing.")
    ] = False,
    prometheus_url: Annotated[
        str | None,
        typer.Option(help="Where Prometheus is [env: CONVOY_PROMETHEUS_URL].", show_default=False),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(help="Name of the cluster [env: CONVOY_CLUSTER; default: default].", show_default=False),
    ] = None,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Collect the load of machines and of jobs' pods out of Prometheus into the store.

    Runs in the foreground until it is told to stop. CPU, memory, network, disk and accelerators are asked for at
    moments of a fixed grid, so that nothing is stored twice, whoever asks and however often. Through an outage of
    Prometheus or the database it waits, and then fills the gap. A metric that Prometheus doesn't have is named; the
    others are stored. A back-fill (--from) may be broken off and begun again.

    Secrets belong into the environment: CONVOY_PROMETHEUS_TOKEN, or CONVOY_PROMETHEUS_URL with user and password.

    \b
    Examples:
      convoy brain collect --prometheus-url http://prometheus:9090
      convoy brain collect --from 2026-01-31 --until 2026-02-07T12:00
      convoy brain collect --show-queries > queries.toml

    Exit status: 0 done, or after SIGTERM; 1 Prometheus or the database is away (--once, --from); 2 the settings, the
    queries, Prometheus or the database can't be used.
    """
    enter(state_dir)
    from convoy.cli import collect as command

    if until is not None and since is None:
        raise typer.BadParameter("--until needs --from")
    if once and since is not None:
        raise typer.BadParameter("--once and --from exclude each other")
    settings = command.settings_of(
        every, queries=queries, prometheus_url=prometheus_url, cluster=cluster, database_url=database_url
    )
    if show_queries:
        command.show_queries(settings)
    elif once:
        command.collect_once(settings)
    elif since is not None:
        command.fill(settings, since, until)
    else:
        from convoy.brain.ingest.prometheus.process import run

        run(settings)


@app.command("migrate")
def migrate(database_url: DatabaseUrl = None, state_dir: StateDir = None) -> None:
    """Bring the Brain's database to this version's tables. Changes nothing where it is there already.

    On MySQL and MariaDB it also moves rows that lie beyond the last day's partition to days of their own. Where they
    are many, run it while no Brain serves: the tables can't be written meanwhile.

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
    done = bring_up(url, move_all=True)
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


@app.command("monitor")
def monitor(
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="What the store calls the cluster [env: CONVOY_CLUSTER].", show_default=False
        ),
    ] = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option("--namespace", "-n", help="Follow only this one; may be given again.", show_default=False),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            help="How to reach the cluster [default: $KUBECONFIG, ~/.kube/config, the pod's service account].",
            show_default=False,
        ),
    ] = None,
    context: Annotated[
        str | None, typer.Option(help="Context of the kubeconfig [default: its current one].", show_default=False)
    ] = None,
    local: Annotated[bool, typer.Option("--local", help="Follow this machine's cluster instead.")] = False,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Keep a cluster's jobs, scale plans, pods, machines and events in the store, as they are and while they change.

    Reads and changes nothing in the cluster; deploy/monitor/rbac.yaml is all it needs to be allowed. Outages of the
    cluster or the database are waited out. What was deleted while no monitor ran is noticed at the next start.
    docs/monitor.md says what is stored of what.

    \b
    Examples:
      convoy brain monitor --cluster training --database-url mysql://USER:PASSWORD@HOST:3306/DATABASE
      convoy brain monitor --namespace team-a --namespace team-b --context training

    Exit status: 0 after SIGTERM, 2 where the cluster refuses us or the database can't be used.
    """
    enter(state_dir)
    from functools import partial

    from convoy.brain.ingest.monitor import process
    from convoy.brain.settings import BrainSettings
    from convoy.core.api.errors import InvalidSetting

    if local and (kubeconfig or context):
        raise InvalidSetting("--local follows this machine: leave it out, or --kubeconfig and --context")
    settings = BrainSettings.load(database_url=database_url, cluster=cluster)
    source = partial(process.local, settings.state_dir) if local else partial(process.kubernetes, kubeconfig, context)
    process.run(settings, source, namespace or [])
