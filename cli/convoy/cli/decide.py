"""What ``convoy brain advice``, ``accept`` and ``refuse`` do and print."""

from __future__ import annotations

import getpass
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.table import Table
from sqlalchemy.engine import Engine

from convoy.brain.batch.delivery import deliver
from convoy.brain.settings import BrainSettings
from convoy.brain.store import advice as decisions
from convoy.brain.store.advice import Advice, Status
from convoy.brain.store.engine import check, open_engine
from convoy.brain.store.migrate import require_schema
from convoy.cli import database, local
from convoy.cli.screen import screen
from convoy.core.api import names
from convoy.core.process import logs

if TYPE_CHECKING:
    from convoy.core.cluster.local import LocalCluster

_HEADS = ("ID", "JOB", "MADE", "WORKERS", "SAMPLES/S", "STATUS", "WHY")


def listed(database_url: str | None, *, everything: bool, as_json: bool) -> None:
    """Print what there is to decide about."""
    statuses = list(Status) if everything else [Status.PROPOSED]
    with _store(database_url) as (engine, _):
        found = decisions.listed(engine, statuses)
    if as_json:
        sys.stdout.write(json.dumps([_plain(one) for one in found], indent=2) + "\n")
        return
    if not found:
        screen().print("there is nothing to decide about; `convoy brain batch` makes recommendations")
        return
    shown = Table(*_HEADS, box=None)
    for one in found:
        row = one.row
        shown.add_row(
            one.id[:8],
            f"{one.namespace}/{one.job}",
            f"{row['made_at']:%Y-%m-%d %H:%M}",
            f"{row['workers_before']} to {row['workers']}",
            "-" if row["predicted"] is None else f"{row['predicted']:.4g}",
            _status(one),
            f"{row['decision']} [{row['reason']}]: {row['message']}",
        )
    screen(wide=True).print(shown)


def accept(database_url: str | None, identifier: str, *, by: str | None, why: str) -> None:
    """Accept a recommendation and have it carried out.

    Raises:
        NotFound: there is no such recommendation.
        Unusable: it isn't proposed any more.
        ClusterError: the cluster refuses the plan; it is accepted all the same, and stands.
    """
    with _store(database_url) as (engine, cluster):
        advice = _decided(engine, identifier, Status.ACCEPTED, by, why)
        done = deliver(engine, cluster, advice, manager=names.MANAGER_CLI)
    screen().print(f"{_named(advice)}: accepted by {advice.row['decided_by']}; {done.message}")


def refuse(database_url: str | None, identifier: str, *, by: str | None, why: str) -> None:
    """Refuse a recommendation.

    Raises:
        NotFound: there is no such recommendation.
        Unusable: it isn't proposed any more.
    """
    with _store(database_url) as (engine, _):
        advice = _decided(engine, identifier, Status.REFUSED, by, why)
        hours = BrainSettings.load().refused_remembered_seconds / 3600
    remembered = f"that size isn't recommended to the job again for {hours:g} h"
    screen().print(f"{_named(advice)}: refused by {advice.row['decided_by']}; {remembered}")


def _decided(engine: Engine, identifier: str, status: Status, by: str | None, why: str) -> Advice:
    found = decisions.find(engine, identifier)
    who = by or _user()
    return decisions.decide(engine, found.id, status, by=who, why=why, now=datetime.now(UTC))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user often has no name
        return f"uid {os.getuid()}"


@contextmanager
def _store(database_url: str | None) -> Iterator[tuple[Engine, LocalCluster | None]]:
    """Give the store that the settings name, and this machine's cluster, None where there is none."""
    os.environ.setdefault("CONVOY_LOG_LEVEL", "warning")
    logs.configure("advice")
    cluster = local.existing_cluster()
    try:
        url = BrainSettings.load(database_url=database_url or database.for_readers(cluster)).database()
        check(url, must_exist=True)
        engine = open_engine(url, must_exist=True)
        try:
            require_schema(engine)
            yield engine, cluster
        finally:
            engine.dispose()
    finally:
        if cluster is not None:
            cluster.close()


def _named(advice: Advice) -> str:
    return f"{advice.id[:8]}, {advice.namespace}/{advice.job} to {advice.row['workers']} workers"


def _status(advice: Advice) -> str:
    row = advice.row
    if not row["decided_by"]:
        return str(row["status"])
    why = f" ({row['decided_why']})" if row["decided_why"] else ""
    return f"{row['status']} by {row['decided_by']} {row['decided_at']:%Y-%m-%d %H:%M}{why}"


def _plain(advice: Advice) -> dict[str, Any]:
    job = {"job": advice.job, "namespace": advice.namespace, "uid": advice.uid}
    left_out = ("evidence", "options", "request")
    row = {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in advice.row.items()
        if name not in left_out
    }
    return job | row
