"""The ``convoy`` command: what people type, and what one machine's pods run. Nothing is decided here.

Every command imports what it needs when it runs, so that ``convoy --help`` answers at once. Exit statuses are the
same everywhere: 0 done, 1 it failed, 2 refused (what was asked can't be right, or the surroundings forbid it). Beyond
these, ``submit`` and ``run`` end with 130 after Ctrl-C, ``master`` with 3 when a newer one holds its job, and ``run``
with the status of the first worker that failed, 128 + its signal where it was killed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from convoy.cli.brain import app as brain
from convoy.cli.options import Context, Kubeconfig, Namespace, StateDir, enter
from convoy.core.api.errors import ConvoyError

app = typer.Typer(
    name="convoy",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Train elastically: jobs sized by what their history teaches, which outlive the loss of any part.",
    epilog="Exit status: 0 done, 1 it failed, 2 refused. State: $CONVOY_STATE_DIR, else ~/.local/state/convoy.",
)
app.add_typer(brain, name="brain")


def _version(asked: bool) -> None:
    if asked:
        from convoy.core.api.envelope import VERSION

        typer.echo(f"convoy {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    del version


@app.command()
def demo(
    quick: Annotated[
        bool, typer.Option("--quick", help="A shorter run, judged by counts and states alone: no speeds.")
    ] = False,
    verify: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Run nothing; check the claims of the run in DIR from its logs and stores."),
    ] = None,
    dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the run's state and report go [default: ./demo-run].")
    ] = None,
) -> None:
    """See it work: a real job, sized by the Brain, surviving the loss of a worker, a node and its master.

    Starts an operator and a Brain of its own, submits a job at a wrong size, waits until the Brain has corrected
    it, kills a worker, a node and the master, measures the sizes that the Brain didn't choose, and writes
    report.html. Takes under four minutes on two cores. Everything that it starts is stopped when it ends, however it
    ends. An earlier run in DIR is replaced.

    \b
    Examples:
      convoy demo
      convoy demo --dir /tmp/demo
      convoy demo --verify /tmp/demo

    Exit status: 0 all claims hold, 1 one doesn't, 2 it can't run here.
    """
    if verify is not None:
        from convoy.cli.demo.verify.command import run as check

        raise typer.Exit(check(verify))
    from convoy.cli.demo.command import run

    raise typer.Exit(run(directory=dir or Path("demo-run"), quick=quick))


@app.command()
def submit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An ElasticJob in YAML.", show_default=False)],
    local: Annotated[bool, typer.Option("--local", help="Run it on this machine.")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Return once the job is accepted.")] = False,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Instead of the manifest's.", show_default=False)
    ] = None,
    state_dir: StateDir = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Run the ElasticJob in FILE and wait for its end.

    Starts an operator and a Brain on this machine if none run, and shows the job's state, speed and size while it
    trains. Ctrl-C stops the waiting, not the job. Paths in the job's command are taken from the manifest's folder.
    The Brain keeps its history in CONVOY_DATABASE_URL, which is remembered, else in the state directory.

    What each pod prints, its training included, goes to a file: $CONVOY_STATE_DIR/cluster/logs/NAMESPACE/POD/UID.log.
    The files are named at the end, and by `convoy explain` meanwhile.

    \b
    Examples:
      convoy submit examples/digits-allreduce.yaml --local
      convoy submit job.yaml --local --detach

    \b
    The fields of an ElasticJob (apiVersion elastic.iml.github.io/v1alpha1):
      metadata.name                                 required
      spec.distributionStrategy                     AllreduceStrategy
      spec.optimizeMode                             manual | single-job | cluster
      spec.resourceLimits                           what the workers may request together, such as cpu: 8
      spec.replicaSpecs.worker.replicas             nodes at the start; absent: the Brain decides
      spec.replicaSpecs.worker.minReplicas          fewest nodes
      spec.replicaSpecs.worker.maxReplicas          most nodes
      spec.replicaSpecs.worker.restartCount         relaunches of a node (3)
      spec.replicaSpecs.worker.restartPolicy        Never: no relaunch; else restartCount counts
      spec.replicaSpecs.worker.template             a pod template; its command calls dlrover-run or convoy-run

    Exit status: 0 Succeeded, 1 Failed, 2 refused (nothing was started), 130 after Ctrl-C (the job goes on).
    """
    enter(state_dir, context, kubeconfig)
    from convoy.cli.submit import run

    raise typer.Exit(run(file, here=local, detach=detach, namespace=namespace))


@app.command()
def jobs(
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Only this namespace.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The objects as a JSON array, for programs.")] = False,
    state_dir: StateDir = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """List the jobs of this machine: phase, nodes, step, speed, restarts, age.

    \b
    Examples:
      convoy jobs
      convoy jobs --json

    Exit status: 0, also where there are none.
    """
    enter(state_dir, context, kubeconfig)
    from convoy.cli.jobs import run

    run(namespace=namespace, as_json=as_json)


@app.command()
def explain(
    job: Annotated[str, typer.Argument(metavar="JOB", help="The job's name.", show_default=False)],
    namespace: Namespace = "default",
    state_dir: StateDir = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Say why JOB is as it is: its conditions, its plans with what was predicted and realized, its pods, its events.

    \b
    Examples:
      convoy explain digits-allreduce
      convoy explain digits-allreduce --namespace team-a

    Exit status: 0 explained, 1 there is no such job.
    """
    enter(state_dir, context, kubeconfig)
    from convoy.cli.explain import run

    run(job, namespace=namespace)


@app.command()
def delete(
    job: Annotated[str, typer.Argument(metavar="JOB", help="The job's name.", show_default=False)],
    namespace: Namespace = "default",
    state_dir: StateDir = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Delete JOB: its pods are asked to end, then its record goes. Its checkpoints and logs stay.

    \b
    Example:
      convoy delete digits-allreduce

    Exit status: 0 deleted and its processes ended, 1 there is no such job, or they didn't end in time.
    """
    enter(state_dir, context, kubeconfig)
    from convoy.cli.delete import run

    run(job, namespace=namespace)


@app.command(add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def run(context: typer.Context) -> None:
    """Start a node's agent and its workers: dlrover-run and torchrun's flags. See `convoy run --help`."""
    _launch(context.args)


@app.command()
def operator(
    state_dir: StateDir = None,
    kubernetes: Annotated[
        bool | None, typer.Option("--kubernetes", help="Work in a Kubernetes cluster, not on this machine.")
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            help="Of the cluster [default: KUBECONFIG, ~/.kube/config, the pod's account].", show_default=False
        ),
    ] = None,
    context: Annotated[
        str | None, typer.Option(help="Context of the kubeconfig [default: its current one].", show_default=False)
    ] = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option("--namespace", "-n", help="Only jobs of this one; may be given again.", show_default=False),
    ] = None,
    exit_when_idle: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="End after so long without work [default: never].")
    ] = None,
    exit_with: Annotated[
        int | None, typer.Option(metavar="PID", help="End, and end all pods, when that process ends.")
    ] = None,
) -> None:
    """Run the operator in the foreground: it turns jobs and plans into pods, on this machine into processes.

    On one machine there is one operator a state directory; `convoy submit --local` starts one where none runs. On
    Kubernetes several may run, of which one leads. Losing it stops no training: the next one finds what runs.

    \b
    Examples:
      convoy operator --state-dir /srv/convoy
      convoy operator --kubernetes --context training

    Exit status: 0 after SIGTERM, 1 where another replica took the lead, 2 where another one runs on the state
    directory, or the directory or the cluster can't be used.
    """
    enter(state_dir)
    from convoy.cli.local import run_operator

    run_operator(
        kubeconfig,
        context,
        platform="kubernetes" if kubernetes else None,
        namespaces=namespace,
        exit_when_idle=exit_when_idle,
        exit_with=exit_with,
    )


@app.command()
def master(
    job: Annotated[str, typer.Option(help="The job's name.", show_default=False)],
    namespace: Namespace = "default",
    port: Annotated[
        int | None, typer.Option(help="Where agents call [env: CONVOY_MASTER_PORT].", show_default=False)
    ] = None,
    state_dir: StateDir = None,
) -> None:
    """Run a job's master: rendezvous, faults, scaling. The operator starts one a job; people seldom do.

    \b
    Example:
      convoy master --job digits-allreduce --port 50001

    Exit status: 0 the job is over or SIGTERM came, 1 it broke, 2 the port is in use or the state can't be used, 3 a
    newer master holds the job.
    """
    enter(state_dir)
    from convoy.master import process
    from convoy.master.settings import MasterSettings

    process.run(MasterSettings.load(job=job, namespace=namespace, port=port))


def _launch(arguments: list[str]) -> NoReturn:
    from convoy.agent.launch import main as launch

    launch(arguments)


def main() -> None:
    """Run the command; an expected error is one message on stderr and its exit status."""
    arguments = sys.argv[1:]
    try:
        if arguments[:1] == ["run"]:  # its flags are torchrun's: they pass untouched
            _launch(arguments[1:])
        app(args=arguments, prog_name="convoy")
    except ConvoyError as error:
        print(f"convoy: {error}", file=sys.stderr)  # noqa: T201 - the one place that reports a command's end
        sys.exit(error.exit_status)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "convoy":
            raise
        print(f"convoy: {missing} isn't installed; pip install 'convoy-train[demo]'", file=sys.stderr)  # noqa: T201
        sys.exit(2)


if __name__ == "__main__":
    main()
