"""``convoy delete JOB``: ask a job's processes to end, wait for it, and drop its record."""

from __future__ import annotations

import time

from convoy.cli import local
from convoy.cli.screen import counted
from convoy.core.api import names
from convoy.core.api.errors import DeadlineMissed, NotFound
from convoy.core.cluster.port import Cluster, Kind
from convoy.core.process import paths

_PATIENCE = 45.0  # seconds: a pod's grace period is 30


def run(name: str, *, namespace: str) -> None:
    """Delete the job and wait until its pods are gone.

    Raises:
        NotFound: no such job.
        DeadlineMissed: pods are left after the grace period.
    """
    cluster = local.existing_cluster()
    if cluster is None:
        raise NotFound(f"no job {namespace}/{name}: {local.directory()} holds no cluster")
    uid = cluster.get(Kind.ELASTIC_JOB, namespace, name)["metadata"]["uid"]
    pods = len(cluster.list(Kind.POD, namespace, {names.LABEL_JOB: name}).items)
    delete(cluster, namespace, name, local.Operator(local.directory()))
    kept = paths.job_dir(local.directory(), namespace, name, uid)
    print(  # noqa: T201
        f"deleted job {namespace}/{name} and {counted(pods, 'pod')} of it"
        + (f"; its folder stays: {kept}" if kept.is_dir() else "")
    )


def delete(cluster: Cluster, namespace: str, name: str, operator: local.Operator) -> None:
    """Delete a job and wait until its pods are gone; ``operator`` is kept alive, since it ends them.

    Raises:
        NotFound: no such job.
        DeadlineMissed: pods are left after the grace period.
    """
    cluster.delete(Kind.ELASTIC_JOB, namespace, name)
    until = time.monotonic() + _PATIENCE
    while left := cluster.list(Kind.POD, namespace, {names.LABEL_JOB: name}).items:
        if time.monotonic() >= until:
            still = ", ".join(item["metadata"]["name"] for item in left)
            raise DeadlineMissed(f"{namespace}/{name}: after {_PATIENCE:.0f} s these pods haven't ended: {still}")
        operator.ensure()
        time.sleep(0.1)
