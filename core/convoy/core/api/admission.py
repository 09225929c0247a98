"""Checks of a job that its schema alone can't make: against the cluster, and against what this version carries out.

Pure: what the nodes have is handed in, and whether a script exists is asked of the caller.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from convoy.core.api import names, quantity
from convoy.core.api.errors import InvalidManifest, InvalidQuantity
from convoy.core.api.job import Container, ElasticJob, Range, ReplicaSpec, Strategy
from convoy.core.api.meta import Manifest

LONGEST_LABEL = 63
"""Characters of a label's value, of a service's name, and of a host name."""
_NAME = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_SCRIPT = re.compile(r"^[\w./+@-]+\.py$")


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the nodes have for pods: cores and bytes, of the largest node and of all together."""

    largest_cores: float
    largest_memory: int
    total_cores: float
    total_memory: int

    @classmethod
    def from_nodes(cls, nodes: Iterable[Manifest]) -> Capacity | None:
        """Add up Nodes' allocatable resources; None where no node says anything."""
        cores, memory = [], []
        for node in nodes:
            status: dict[str, Any] = node.get("status") or {}
            held = {**(status.get("capacity") or {}), **(status.get("allocatable") or {})}
            try:
                one = quantity.cores(held["cpu"]), quantity.count(held["memory"])
            except (KeyError, InvalidQuantity):
                continue
            cores.append(one[0])
            memory.append(one[1])
        return cls(max(cores), max(memory), sum(cores), sum(memory)) if cores else None


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


def check_name(job: ElasticJob) -> None:
    """Refuse a name from which no name of a pod, a service or a label's value can be made.

    Raises:
        InvalidManifest: at metadata.name.
    """
    name = job.metadata.name
    if not _NAME.match(name):
        raise InvalidManifest(
            "metadata.name",
            f"{name!r} can't be part of a host name; use lower-case letters, digits and '-', no '-' at either end",
        )
    longest = max(
        (names.master_pod(name, 0), *(names.pod(name, role, 0) for role in job.spec.replica_specs)), key=len
    )
    if len(longest) > LONGEST_LABEL:
        room = len(name) - (len(longest) - LONGEST_LABEL)
        raise InvalidManifest(
            "metadata.name",
            f"{name!r} has {len(name)} characters, and its pod {longest!r} would have more than {LONGEST_LABEL}; "
            f"use {room} or fewer",
        )


def check_capacity(job: ElasticJob, capacity: Capacity) -> None:
    """Refuse a node that is larger than any there is, and a smallest size that doesn't fit in all of them.

    Raises:
        InvalidManifest: at the request, or at the number of replicas.
    """
    for role, spec in job.spec.replica_specs.items():
        path = f"spec.replicaSpecs.{role}"
        for index, container in enumerate(spec.template.spec.containers):
            _check_container(container, f"{path}.template.spec.containers[{index}].resources", capacity)
        if role in names.NODE_ROLES:
            _check_fewest(spec, path, capacity)


def _check_container(container: Container, path: str, capacity: Capacity) -> None:
    place, cpu = _asked(container, "cpu")
    if cpu is not None and (asked := quantity.cores(cpu)) > capacity.largest_cores:
        largest = _number(capacity.largest_cores)
        raise InvalidManifest(
            f"{path}.{place}.cpu",
            f"{_number(asked)} cores, but the largest node has {largest}; ask for {largest} or less",
        )
    place, memory = _asked(container, "memory")
    if memory is not None and (size := quantity.count(memory)) > capacity.largest_memory:
        mebibytes = capacity.largest_memory >> 20
        raise InvalidManifest(
            f"{path}.{place}.memory",
            f"{memory} ({size >> 20} MiB), but the largest node has {mebibytes} MiB; ask for {mebibytes}Mi or less",
        )


def _check_fewest(spec: ReplicaSpec, path: str, capacity: Capacity) -> None:
    containers = spec.template.spec.containers
    cores = sum(quantity.cores(_asked(one, "cpu")[1] or 0) for one in containers)
    memory = sum(quantity.count(_asked(one, "memory")[1] or 0) for one in containers)
    fewest = spec.range(_launcher_range(spec.template.main())).fewest
    place = "minReplicas" if spec.min_replicas is not None else "replicas"
    if cores and fewest * cores > capacity.total_cores:
        raise InvalidManifest(
            f"{path}.{place}",
            f"{fewest} pods of {_number(cores)} cores need {_number(fewest * cores)}, but all nodes together have "
            f"{_number(capacity.total_cores)}; ask for {int(capacity.total_cores // cores)} or fewer, or fewer cores",
        )
    if memory and fewest * memory > capacity.total_memory:
        raise InvalidManifest(
            f"{path}.{place}",
            f"{fewest} pods of {memory >> 20} MiB need {fewest * memory >> 20} MiB, but all nodes together have "
            f"{capacity.total_memory >> 20} MiB; ask for {capacity.total_memory // memory} or fewer, or less memory",
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


def _asked(container: Container, resource: str) -> tuple[str, str | None]:
    """Return where a container asks for a resource and how much: its request, else its limit, as Kubernetes does."""
    resources = container.resources
    if resource in resources.requests:
        return "requests", resources.requests[resource]
    return "limits", resources.limits.get(resource)


def _number(value: float) -> str:
    return f"{value:g}"
