"""``convoy brain workload``: the store's past jobs as the files of ``convoy brain simulate``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from convoy.cli.options import DatabaseUrl, StateDir, enter
from convoy.cli.screen import counted, screen
from convoy.core.api.errors import NotFound, Unusable

FILES = {"jobs": "jobs", "speeds": "throughput", "efficiency": "efficiency", "nodes": "cluster"}
"""A replay's frames, and the files and options of ``convoy brain simulate``."""
SHOWN = 5


def workload(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the files go.", show_default=False)],
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Write the store's past jobs as files that `convoy brain simulate` reads: what if they had run otherwise?

    jobs.csv, throughput.csv, efficiency.csv, and cluster.csv where machines with accelerators are known. They may be
    edited before they are simulated; docs/simulate.md says what is in them.

    \b
    Examples:
      convoy brain workload last-year
      convoy brain simulate --jobs last-year/jobs.csv --throughput last-year/throughput.csv \\
        --efficiency last-year/efficiency.csv --cluster last-year/cluster.csv --policy requested --policy convoy

    Exit status: 0 written, 1 the store has no job that could be simulated, 2 FOLDER or the database can't be used.
    """
    enter(state_dir)
    from convoy.brain.settings import BrainSettings
    from convoy.brain.simulate.past_jobs import read_past
    from convoy.brain.simulate.replay import replay
    from convoy.brain.store.engine import check, open_engine
    from convoy.brain.store.migrate import require_schema
    from convoy.cli import database, local

    url = BrainSettings.load(database_url=database_url or database.for_readers(local.existing_cluster())).database()
    check(url, must_exist=True)
    engine = open_engine(url, must_exist=True)
    try:
        require_schema(engine)
        past = read_past(engine)
    finally:
        engine.dispose()
    found = replay(past)
    _tell(found.left_out)
    if not len(found.jobs):
        raise NotFound(
            "the store has no all-reduce job that succeeded with its speed measured: nothing can be simulated"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, file in FILES.items():
            if len(frame := getattr(found, name)):
                frame.to_csv(folder / f"{file}.csv", index=False)
    except OSError as error:
        raise Unusable(f"{folder}: can't be written: {error}; name a folder that can be") from error
    screen().print(f"{folder}: {counted(len(found.jobs), 'job')} written")
    if not len(found.nodes):
        screen(sys.stderr).print(
            "no machine with accelerators is known: write cluster.csv (node_type,nodes,accelerators_per_node)"
        )


def _tell(left_out: Mapping[str, str]) -> None:
    for name, reason in list(left_out.items())[:SHOWN]:
        screen(sys.stderr).print(f"{name} is left out: {reason}")
    if len(left_out) > SHOWN:
        screen(sys.stderr).print(f"and {counted(len(left_out) - SHOWN, 'more job')}")
