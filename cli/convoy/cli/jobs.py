"""``convoy jobs``: a row for each job of this machine."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from rich.table import Table

from convoy.cli import local
from convoy.cli.screen import screen
from convoy.core.api.job import ElasticJob
from convoy.core.api.job_status import Phase
from convoy.core.cluster.port import Kind


def run(*, namespace: str | None, as_json: bool) -> None:
    """Print the jobs, of one namespace or of all."""
    console = screen(wide=True)
    cluster = local.existing_cluster()
    items = cluster.list(Kind.ELASTIC_JOB, namespace).items if cluster is not None else []
    if as_json:
        console.print(json.dumps(items, indent=2), soft_wrap=True)
        return
    if not items:
        console.print(f"no jobs in {local.directory()}; start one with `convoy submit FILE --local`")
        return
    found = [ElasticJob.from_manifest(item) for item in items]
    console.print(table(latest(found), datetime.now(UTC)))
    failed = next((one for one in latest(found) if one.status.phase is Phase.FAILED), None)
    if failed is not None:
        where, name = failed.key()
        option = "" if where == "default" else f" --namespace {where}"
        text = f"`convoy explain {name}{option}` says why it failed; what its pods printed: {local.logs(where)}"
        console.print(f"\n{text}", soft_wrap=True)


def latest(jobs: list[ElasticJob]) -> list[ElasticJob]:
    """Return the jobs, the latest first; one that has no date yet is the latest."""
    unknown = datetime.max.replace(tzinfo=UTC)
    return sorted(jobs, key=lambda one: one.metadata.creation_timestamp or unknown, reverse=True)


def table(jobs: list[ElasticJob], now: datetime) -> Table:
    """Return the jobs as a table, in their order."""
    shown = Table("NAMESPACE", "NAME", "PHASE", "NODES", "STEP", "SAMPLES/S", "RESTARTS", "REPLACED", "AGE", box=None)
    for job in jobs:
        training = job.status.training
        shown.add_row(
            job.metadata.namespace,
            job.metadata.name,
            job.status.phase or "Created",
            _shown(training.nodes),
            _shown(training.step),
            _shown(training.samples_per_second),
            str(training.restarts or 0),
            str(training.relaunches or 0),
            age(job.metadata.creation_timestamp, now),
        )
    return shown


def age(since: datetime | None, now: datetime) -> str:
    """Return how long ago ``since`` was, in its largest unit: ``42s``, ``7m``, ``3h``, ``12d``."""
    if since is None:
        return "-"
    seconds = max(0, int((now - since).total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"
