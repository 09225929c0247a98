"""The options and the help of ``convoy brain simulate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_LONGEST = 1e9
"""Seconds, and failures: what is more is a slip."""


def simulate(
    jobs: Annotated[Path, typer.Option(metavar="FILE", help="The workload, a job a row.", show_default=False)],
    throughput: Annotated[
        Path,
        typer.Option(metavar="FILE", help="Measured step times by model, gpu and placement.", show_default=False),
    ],
    efficiency: Annotated[
        Path, typer.Option(metavar="FILE", help="Measured gradient noise by batch and epoch.", show_default=False)
    ],
    cluster: Annotated[Path, typer.Option(metavar="FILE", help="Nodes by node type.", show_default=False)],
    policy: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="requested, tiresias, optimus-oracle, pollux, sia, dlrover, convoy or convoy-oracle; or several.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write what became of each job.", show_default=False),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Earlier jobs' speeds, as for `convoy brain import`, for policies that learn.",
            show_default=False,
        ),
    ] = None,
    restart_seconds: Annotated[
        float, typer.Option(min=0.0, max=_LONGEST, help="At no speed after each change of a job's placement.")
    ] = 30.0,
    interval: Annotated[float, typer.Option(min=1.0, max=_LONGEST, help="Seconds between decisions.")] = 60.0,
    seed: Annotated[int, typer.Option(min=0, help="Of noise, failures and a policy's own chance.")] = 0,
    noise: Annotated[
        bool, typer.Option("--noise/--no-noise", help="Whether measurements scatter as the table's replicates do.")
    ] = True,
    more_nodes: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE=N", help="So many nodes more, or fewer; may be given again.", show_default=False),
    ] = None,
    quota: Annotated[
        list[str] | None,
        typer.Option(metavar="USER=N", help="Most accelerators of a user; may be given again.", show_default=False),
    ] = None,
    failures: Annotated[
        float,
        typer.Option(
            min=0.0, max=_LONGEST, help="Failures per 1,000 node-days (measured: 2.3 to 6.5 with 8 GPUs a node)."
        ),
    ] = 0.0,
    repair_seconds: Annotated[
        float, typer.Option(min=0.0, max=_LONGEST, help="Until a failed node works again.")
    ] = 7200.0,
    checkpoint_seconds: Annotated[
        float, typer.Option(min=0.0, max=_LONGEST, help="Between a job's checkpoints.")
    ] = 600.0,
) -> None:
    """Say what a policy would do with a workload on a cluster: completion times, use, restarts, fairness.

    docs/simulate.md says how jobs run here, the files' columns, and how right it is. Several policies meet the same
    jobs, measurements and failures, are compared with the first, and write a file each. Nothing is changed.

    \b
    Examples:
      convoy brain simulate --jobs jobs.csv --throughput speeds.csv --efficiency efficiency.csv --cluster nodes.csv \\
        --policy requested --policy pollux -o simulated.csv
      convoy brain simulate ... --policy convoy --history history.csv --more-nodes aws=4

    Exit status: 0 all jobs are complete, 1 the policy left some without anything, 2 a file or an option is wrong.
    """
    from convoy.cli.simulate import Asked, run

    run(
        Asked(
            jobs=jobs,
            throughput=throughput,
            efficiency=efficiency,
            cluster=cluster,
            policies=policy,
            output=output,
            history=history,
            restart_seconds=restart_seconds,
            interval=interval,
            seed=seed,
            noise=noise,
            more_nodes=more_nodes or [],
            quota=quota or [],
            failures=failures,
            repair_seconds=repair_seconds,
            checkpoint_seconds=checkpoint_seconds,
        )
    )
