"""Entry of `convoy run`, `convoy-run` and `dlrover-run`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from convoy.agent import options as launch_options
from convoy.agent.options import Options
from convoy.core.api.errors import ConvoyError


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run a training script on this node; exits with the first failing worker's status, or 2 for a wrong flag."""
    program = os.path.basename(sys.argv[0]) if argv is None else "convoy run"
    if program not in ("convoy-run", "dlrover-run"):
        program = "convoy run"
    try:
        options = launch_options.load(sys.argv[1:] if argv is None else argv, os.environ, program)
        for one in options.left_out:
            print(f"{program}: {one.message}", file=sys.stderr)  # noqa: T201
        sys.exit(run(options))
    except KeyboardInterrupt:
        sys.exit(130)
    except ConvoyError as error:
        print(f"{program}: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(error.exit_status)


def run(options: Options) -> int:
    """Run what was asked for; return the exit status.

    Raises:
        ConvoyError: it can't be run.
    """
    from convoy.agent import spawner, world  # what imports much comes after the fork server has been started

    environment = world.base_environment(os.environ, options.processes)
    is_python = options.kind != "program" and not options.fresh
    forks = spawner.Spawner((*spawner.PRELOAD, *options.preload) if is_python else (), environment)
    try:
        import asyncio

        from convoy.core.process import logs
        from convoy.core.process.quiet import quiet_grpc

        quiet_grpc()
        logs.configure("agent", pod=os.environ.get("POD_NAME", "local"))
        if options.master is None:
            from convoy.agent import local

            return asyncio.run(local.run(options, forks, environment))
        from convoy.agent import loop

        return asyncio.run(loop.run(options, forks, environment))
    finally:
        forks.close()


if __name__ == "__main__":
    main()
