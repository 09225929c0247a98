"""``convoy submit FILE --local``: refuse what can't be right, start what is missing, follow the job to its end."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from convoy.cli import database, local, manifest
from convoy.cli.follow import follow
from convoy.core.api import admission, names
from convoy.core.api.errors import AlreadyExists, DeadlineMissed, InvalidManifest, NotFound, Unusable
from convoy.core.api.job import ElasticJob
from convoy.core.api.job_status import Phase
from convoy.core.api.meta import Manifest
from convoy.core.api.resources import Capacity
from convoy.core.cluster.port import Cluster, Kind


def run(file: Path, *, here: bool, detach: bool, namespace: str | None) -> int:
    """Submit the job; return the command's exit status.

    Raises:
        InvalidInput: the manifest is wrong.
        Unusable: not ``here``, on this machine, or the state directory or the Brain's database can't be used.
        JobFailed: the job ended in failure.
    """
    if not here:
        raise Unusable(
            "submit: this version of Convoy runs no jobs on Kubernetes; add --local to run the job on this machine",
            reason="NoKubernetesAdapter",
        )
    return _submit(manifest.for_this_machine(manifest.read(file), file.parent, namespace), detach)


def _submit(job: Manifest, detach: bool) -> int:
    from convoy.operator.settings import OperatorSettings

    cluster = local.open_cluster()
    check(cluster, job)
    if OperatorSettings.load().brain_address is None:
        told = database.settle(cluster)
        if told:
            print(f"convoy: {told}", file=sys.stderr)  # noqa: T201
    operator = local.Operator(local.directory())
    created = create(cluster, job, operator)
    name, where = created["metadata"]["name"], created["metadata"]["namespace"]
    option = "" if where == "default" else f" --namespace {where}"
    if detach:
        await_operator(cluster, created, operator)
        print(  # noqa: T201
            f"{where}/{name} submitted; `convoy jobs` lists it, `convoy explain {name}{option}` says how it goes, "
            f"`convoy delete {name}{option}` ends it"
        )
        return 0
    try:
        follow(cluster, where, name, created["metadata"]["uid"], operator)
    except KeyboardInterrupt:
        print(  # noqa: T201
            f"\n{where}/{name} goes on; `convoy explain {name}{option}` says how it goes, "
            f"`convoy delete {name}{option}` ends it",
            file=sys.stderr,
        )
        return 130
    return 0


def await_operator(cluster: Cluster, job: Manifest, operator: local.Operator, seconds: float = 60.0) -> None:
    """Wait until an operator has taken the job: one that is there may be about to end, and then another is started.

    Raises:
        DeadlineMissed: none took it in time; the job stays.
        Unavailable: the operator ends as soon as it starts.
    """
    where, name = job["metadata"]["namespace"], job["metadata"]["name"]
    until = time.monotonic() + seconds
    while True:
        operator.ensure()
        try:
            now = cluster.get(Kind.ELASTIC_JOB, where, name)
        except NotFound:
            return  # deleted meanwhile
        if now["metadata"]["uid"] != job["metadata"]["uid"] or (now.get("status") or {}).get("phase"):
            return
        if time.monotonic() >= until:
            raise DeadlineMissed(
                f"{where}/{name} is submitted, and within {seconds:g} s no operator took it (pid "
                f"{operator.pid() or 'unknown'}); see {operator.log}"
            )
        time.sleep(0.05)


def check(cluster: Cluster, given: Manifest) -> None:
    """Refuse a job that can't be right, or that this machine can't run.

    Raises:
        InvalidManifest: the field that is wrong, what it holds and what would do.
    """
    job = ElasticJob.from_manifest(given)
    capacity = Capacity.from_nodes(cluster.list(Kind.NODE).items)
    manifest.check_commands(job)
    admission.admit(job, capacity, script_exists=manifest.script_exists(job))


def create(cluster: Cluster, job: Manifest, operator: local.Operator) -> Manifest:
    """Create the job; one of the same name that is over is replaced.

    Raises:
        InvalidManifest: one of the same name isn't over, or no node of this machine could hold a pod of it.
    """
    from convoy.cli.delete import delete

    where, name = job["metadata"]["namespace"], job["metadata"]["name"]
    try:
        earlier = ElasticJob.from_manifest(cluster.get(Kind.ELASTIC_JOB, where, name))
    except NotFound:
        pass
    else:
        if earlier.status.phase is None or not earlier.status.phase.is_terminal:
            raise _taken(where, name, earlier.status.phase)
        delete(cluster, where, name, operator)
    try:
        return cluster.create(job, field_manager=names.MANAGER_CLI)
    except AlreadyExists:
        raise _taken(where, name, None) from None


def _taken(namespace: str, name: str, phase: Phase | None) -> InvalidManifest:
    return InvalidManifest(
        "metadata.name",
        f"a job {namespace}/{name} is there already, {phase or Phase.CREATED}; give another name, or end it with "
        f"`convoy delete {name}{'' if namespace == 'default' else f' --namespace {namespace}'}`",
    )
