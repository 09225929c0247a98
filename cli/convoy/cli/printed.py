"""Where what a job's pods printed is: a file for each pod that ever had a name, of which the newest counts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from convoy.cli import local
from convoy.core.api.job import ElasticJob
from convoy.core.cluster.local.retention import Job


def files(job: ElasticJob) -> list[Path]:
    """Return the newest log of each of the job's pods, also of those that are gone: workers before masters."""
    namespace, name = job.key()
    created = job.metadata.creation_timestamp or datetime.fromtimestamp(0, UTC)
    return newest(local.logs(namespace), Job(namespace, name, created.timestamp()))


def newest(folder: Path, job: Job) -> list[Path]:
    """Return the newest log of each pod of a job.

    Args:
        folder: of the logs of the job's namespace: ``<pod>/<uid>.log`` below it.
        job: what is older than it is of an earlier job of its name.
    """
    found: dict[str, tuple[float, Path]] = {}
    for log in folder.glob("*/*.log"):
        pod, last_line = log.parent.name, log.stat().st_mtime
        if job.wrote(job.namespace, pod, last_line):
            found[pod] = max(found.get(pod, (0.0, log)), (last_line, log))
    return [found[pod][1] for pod in sorted(found, key=lambda pod: _order(job.name, pod))]


def listed(logs: Iterable[Path]) -> str:
    """Return the files in words, one a line."""
    lines = [f"\n  {log}" for log in logs]
    return f"what its pods printed:{''.join(lines)}" if lines else "its pods printed nothing"


def _order(job: str, pod: str) -> tuple[bool, str, int]:
    role, _, number = pod.rpartition("-")
    return not pod.startswith(f"{job}-edljob-"), role, int(number) if number.isdecimal() else -1
