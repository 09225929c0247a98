"""Checks of a job that its schema alone can't make: against the cluster, and against what this version carries out.

Pure: what the nodes have is handed in, and whether a script exists is asked of the caller.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence

from convoy.core.api import names, quantity, resources
from convoy.core.api.errors import InvalidManifest
from convoy.core.api.job import LIMITED, Container, ElasticJob, Range, ReplicaSpec, Strategy
from convoy.core.api.resources import Capacity, Room
from convoy.core.api.wishes import wishes

_SCRIPT = re.compile(r"^[\w./+@-]+\.py$")


def admit(
    job: ElasticJob, capacity: Capacity | None = None, *, script_exists: Callable[[str], bool] | None = None
) -> None:
    """Check a job before it is submitted.

    Args:
        job: what is submitted.
        capacity: what the nodes have; None: not checked.
        script_exists: whether a training script of that path, as the manifest names it, is there; None: not checked
            (the scripts are in an image).

    Raises:
        InvalidManifest: with the field's path, what it asks for and what would do.
    """
    check_supported(job)
    check_name(job)
    check_limits(job)
    wishes(job.metadata.annotations)
    if capacity is not None:
        check_capacity(job, capacity)
    if script_exists is not None:
        check_scripts(job, script_exists)


def check_supported(job: ElasticJob) -> None:
    """Refuse what this version doesn't carry out.

    Raises:
        InvalidManifest: the field that asks for it.
    """
    if job.spec.distribution_strategy is not Strategy.ALLREDUCE:
        raise InvalidManifest(
            "spec.distributionStrategy",
            f"{job.spec.distribution_strategy} is not carried out by this version; use {Strategy.ALLREDUCE}",
        )
    for role, spec in job.spec.replica_specs.items():
        if role in names.NODE_ROLES and role != names.WORKER and spec.replicas:
            raise InvalidManifest(
                f"spec.replicaSpecs.{role}",
                f"{spec.replicas} nodes of a role that this version doesn't run; use the role {names.WORKER} alone",
            )
    for resource in job.spec.resource_limits or ():
        if resource not in LIMITED:
            raise InvalidManifest(
                f"spec.resourceLimits.{resource}", f"can't be limited by this version; use {' or '.join(LIMITED)}"
            )


def check_name(job: ElasticJob) -> None:
    """Refuse a name from which no name of a pod, a service or a label's value can be made.

    Raises:
        InvalidManifest: at metadata.name.
    """
    name = job.metadata.name
    if not re.match(names.JOB_NAME, name):
        raise InvalidManifest(
            "metadata.name",
            f"{name!r} can't be part of a host name; use lower-case letters, digits and '-', no '-' at either end",
        )
    if len(name) > names.LONGEST_JOB:
        raise InvalidManifest(
            "metadata.name",
            f"{name!r} has {len(name)} characters, and its pod {names.master_pod(name, 0)!r} would have more than "
            f"{names.LONGEST_LABEL}; use {names.LONGEST_JOB} or fewer",
        )


def check_limits(job: ElasticJob) -> None:
    """Refuse a smallest size that ``spec.resourceLimits`` doesn't allow, and limits on what no worker states.

    Raises:
        InvalidManifest: at the limit.
    """
    spec = job.spec.replica_specs[names.WORKER]
    one = resources.requested(spec.template.spec.to_json())
    fewest = spec.range(_launcher_range(spec.template.main())).fewest
    for resource, text in (job.spec.resource_limits or {}).items():
        path = f"spec.resourceLimits.{resource}"
        each, limit, shown = (
            (one.cores, quantity.cores(text), _number)
            if resource == "cpu"
            else (one.memory, quantity.count(text), _mebibytes)
        )
        if not each:
            raise InvalidManifest(
                path, f"{text} can't be held: the workers request no {resource}; add resources.requests.{resource}"
            )
        if fewest * each > limit:
            raise InvalidManifest(
                path,
                f"{text}, but the fewest workers ({fewest} of {shown(each)}) need {shown(fewest * each)}; allow that "
                "much, or ask for fewer workers or for less",
            )


def quota(job: ElasticJob) -> Room:
    """Return what ``spec.resourceLimits`` allows the job in all; 0: it doesn't say."""
    limits = job.spec.resource_limits or {}
    return Room(
        quantity.cores(limits["cpu"]) if "cpu" in limits else 0.0,
        quantity.count(limits["memory"]) if "memory" in limits else 0,
    )


def workers_allowed(job: ElasticJob) -> int | None:
    """Return how many workers ``spec.resourceLimits`` allows, by what each requests; None where it bounds nothing."""
    limits, most = job.spec.resource_limits or {}, quota(job)
    one = resources.requested(job.spec.replica_specs[names.WORKER].template.spec.to_json())
    bounds = []
    if "cpu" in limits and one.cores:
        bounds.append(Room(cores=most.cores).fits(Room(cores=one.cores)))
    if "memory" in limits and one.memory:
        bounds.append(Room(memory=most.memory).fits(Room(memory=one.memory)))
    return min(bounds, default=None)


def check_capacity(job: ElasticJob, capacity: Capacity) -> None:
    """Refuse a node that is larger than any there is, and a smallest size that doesn't fit in all of them.

    Raises:
        InvalidManifest: at the request, or at the number of replicas.
    """
    for role, spec in job.spec.replica_specs.items():
        path = f"spec.replicaSpecs.{role}"
        for index, container in enumerate(spec.template.spec.containers):
            _check_container(container, f"{path}.template.spec.containers[{index}].resources", capacity.largest)
        if role in names.NODE_ROLES:
            _check_fewest(spec, path, capacity.total)


def _check_container(container: Container, path: str, largest: Room) -> None:
    place, cpu = resources.asked(container.resources.to_json(), "cpu")
    if cpu is not None and (cores := quantity.cores(cpu)) > largest.cores:
        most = _number(largest.cores)
        raise InvalidManifest(
            f"{path}.{place}.cpu",
            f"{_number(cores)} cores, but the largest node has {most}; ask for {most} or less",
        )
    place, memory = resources.asked(container.resources.to_json(), "memory")
    if memory is not None and (size := quantity.count(memory)) > largest.memory:
        mebibytes = largest.memory >> 20
        raise InvalidManifest(
            f"{path}.{place}.memory",
            f"{memory} ({size >> 20} MiB), but the largest node has {mebibytes} MiB; ask for {mebibytes}Mi or less",
        )


def _check_fewest(spec: ReplicaSpec, path: str, total: Room) -> None:
    one = resources.requested(spec.template.spec.to_json())
    fewest = spec.range(_launcher_range(spec.template.main())).fewest
    place = "minReplicas" if spec.min_replicas is not None else "replicas"
    if one.cores and fewest * one.cores > total.cores:
        raise InvalidManifest(
            f"{path}.{place}",
            f"{fewest} pods of {_number(one.cores)} cores need {_number(fewest * one.cores)}, but all nodes together "
            f"have {_number(total.cores)}; ask for {int(total.cores // one.cores)} or fewer, or fewer cores",
        )
    if one.memory and fewest * one.memory > total.memory:
        raise InvalidManifest(
            f"{path}.{place}",
            f"{fewest} pods of {_mebibytes(one.memory)} need {_mebibytes(fewest * one.memory)}, but all nodes "
            f"together have {_mebibytes(total.memory)}; ask for {total.memory // one.memory} or fewer, or less "
            "memory",
        )


def check_scripts(job: ElasticJob, exists: Callable[[str], bool]) -> None:
    """Refuse a command that runs a Python script which isn't there.

    Raises:
        InvalidManifest: at the argument that names the script.
    """
    for role, spec in job.spec.replica_specs.items():
        if role not in names.NODE_ROLES:
            continue
        index = next(at for at, one in enumerate(spec.template.spec.containers) if one is spec.template.main())
        for path, token in _tokens(spec.template.main()):
            if _SCRIPT.match(token):
                if not exists(token):
                    raise InvalidManifest(
                        f"spec.replicaSpecs.{role}.template.spec.containers[{index}].{path}",
                        f"no script {token!r}; paths are relative to the container's workingDir, else to the "
                        "manifest's folder",
                    )
                break


def _tokens(container: Container) -> list[tuple[str, str]]:
    """Return the words of command and args, those inside a shell's line too, each with its place."""
    found: list[tuple[str, str]] = []
    for place, words in (("command", container.command), ("args", container.args)):
        for index, word in enumerate(words or ()):
            try:
                parts = shlex.split(word) if " " in word else [word]
            except ValueError:  # an unbalanced quote: leave it to the shell
                parts = [word]
            found.extend((f"{place}[{index}]", part) for part in parts)
    return found


def _launcher_range(container: Container) -> Range | None:
    """Return the range of ``--nnodes=N`` or ``--nnodes=MIN:MAX`` in the command; None where it isn't in figures."""
    words: Sequence[str] = [token for _, token in _tokens(container)]
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name != "--nnodes":
            continue
        value = value if equals else (words[index + 1] if index + 1 < len(words) else "")
        ends = re.fullmatch(r"(\d{1,6})(?::(\d{1,6}))?", value)
        return Range(int(ends[1]), int(ends[2] or ends[1])) if ends else None
    return None


def _number(value: float) -> str:
    return f"{value:g}"


def _mebibytes(value: float) -> str:
    return f"{int(value) >> 20} MiB"
