"""How long what pods printed is kept: as long as the pod or its job is there, and a week longer."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from convoy.core.api import names

KEPT_SECONDS = 7 * 86_400.0
"""For so long after its last line a log outlives both its pod and its job."""


class Job(NamedTuple):
    """A job that is there; ``created`` in seconds since the epoch."""

    namespace: str
    name: str
    created: float

    def wrote(self, namespace: str, pod: str, last_line: float) -> bool:
        """Whether a log is of this job's pods, and not of those of an earlier job of the same name."""
        ours = (f"{self.name}-edljob-", f"{names.master_service(self.name)}-")
        return namespace == self.namespace and pod.startswith(ours) and last_line >= self.created


def prune(folder: Path, pods: Collection[str], jobs: Iterable[Job], now: float) -> int:
    """Remove the logs that aren't kept any more, and folders that are empty then; return how many logs went.

    Args:
        folder: of all logs: ``<namespace>/<pod>/<uid>.log`` below it.
        pods: uids of the pods that are there.
        jobs: the jobs that are there.
        now: seconds since the epoch.
    """
    jobs, removed = list(jobs), 0
    for log in folder.glob("*/*/*.log"):
        namespace, pod = log.parts[-3:-1]
        last_line = log.stat().st_mtime
        owned = log.stem in pods or any(job.wrote(namespace, pod, last_line) for job in jobs)
        if not owned and now - last_line > KEPT_SECONDS:
            log.unlink()
            removed += 1
    for empty in (*folder.glob("*/*/"), *folder.glob("*/")):
        with contextlib.suppress(OSError):  # it isn't empty
            empty.rmdir()
    return removed
