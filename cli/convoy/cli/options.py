"""Options that several commands share, and where a command settles on its cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

StateDir = Annotated[
    Path | None,
    typer.Option(help="Folder of the local cluster [env: CONVOY_STATE_DIR; default: ~/.local/state/convoy]."),
]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the job.")]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        help="The Brain's database, as SQLAlchemy writes it [env: CONVOY_DATABASE_URL; default: SQLite in the state "
        "directory]."
    ),
]
Context = Annotated[str | None, typer.Option(hidden=True)]
Kubeconfig = Annotated[Path | None, typer.Option(hidden=True)]


def enter(state_dir: Path | None, context: str | None = None, kubeconfig: Path | None = None) -> None:
    """Settle on the cluster: this machine's, in that folder, for the command and all that it starts."""
    if state_dir is not None:
        os.environ["CONVOY_STATE_DIR"] = str(state_dir.expanduser().absolute())
    given = f"--context {context}" if context else f"--kubeconfig {kubeconfig}" if kubeconfig else None
    if given:
        from convoy.core.api.errors import Unusable

        raise Unusable(
            f"{given}: this version of Convoy runs no jobs on Kubernetes; leave it out to use this machine",
            reason="NoKubernetesAdapter",
        )
