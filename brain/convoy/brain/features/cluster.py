"""What a plan for all jobs reads of the store: machines that pods can be put on, and the pods that live.

What pods of others hold on the machines isn't known to the store: a machine counts with all that its pods may take.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from convoy.brain.plan.cluster import Capacity, Pool
from convoy.brain.store.engine import reading
from convoy.brain.store.jobs import PRIORITY
from convoy.brain.store.tables import Cluster, JobFeature, JobNode, Node

LIVING = ("", "Pending", "Running")


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine that takes pods: its number in the store, and what pods may have of it (infinite: not known)."""

    id: int
    name: str
    node_type: str
    accelerator: str
    accelerators: float
    cpu: float
    memory: float


@dataclass(frozen=True, slots=True)
class Machines:
    """Pools of alike machines, and where each machine is in them."""

    capacity: Capacity
    places: dict[int, tuple[str, int]]
    """By the machine's number in the store: its pool, and its place in there."""
    names: dict[str, tuple[str, ...]]
    """By pool, the machines' names in the order of their places."""


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods of one job that live, of one role.

    What each has is the most that any has; 0 where it isn't known.
    """

    count: int = 0
    cpu: float = 0.0
    memory: float = 0.0
    accelerators: float = 0.0
    machines: tuple[int | None, ...] = ()
    """Their machines' numbers in the store; None where a pod isn't placed, or it isn't known."""


def machines(engine: Engine, cluster: str = "") -> Machines:
    """Return the machines of a cluster (empty: of all) that are there, ready and not cordoned, as pools.

    Machines of one type, accelerator and number of accelerators are a pool; each counts with the least cores and
    memory of any of them. A pool is called by its node type, else by its accelerator, else ``nodes``.

    Raises:
        Unavailable: the database can't be reached now.
    """
    query = (
        sa.select(
            Node.id, Node.name, Node.node_type, Node.accelerator, Node.accelerators_allocatable, Node.cpu_allocatable,
            Node.memory_allocatable,
        )
        .where(Node.gone_at.is_(None), Node.ready.is_not(False), Node.schedulable.is_not(False))
        .order_by(Node.name, Node.id)
    )  # fmt: skip
    if cluster:
        query = query.join(Cluster, Cluster.id == Node.cluster_id).where(Cluster.name == cluster)
    with reading(engine) as connection:
        rows = connection.execute(query).all()
    return pooled(
        [
            Machine(
                *row[:4],
                float(row.accelerators_allocatable or 0.0),
                math.inf if row.cpu_allocatable is None else row.cpu_allocatable,
                math.inf if row.memory_allocatable is None else float(row.memory_allocatable),
            )
            for row in rows
        ]
    )


def pooled(found: Sequence[Machine]) -> Machines:
    """Return machines as pools."""
    groups: dict[tuple[str, str, float], list[Machine]] = {}
    for machine in found:
        groups.setdefault((machine.node_type, machine.accelerator, machine.accelerators), []).append(machine)
    pools: list[Pool] = []
    places: dict[int, tuple[str, int]] = {}
    names: dict[str, tuple[str, ...]] = {}
    for (node_type, accelerator, accelerators), alike in sorted(groups.items()):
        name = _unused(node_type or accelerator or "nodes", accelerators, names)
        pools.append(
            Pool(
                name, len(alike), accelerators, min(one.cpu for one in alike), min(one.memory for one in alike),
                accelerator,
            )
        )  # fmt: skip
        places |= {one.id: (name, place) for place, one in enumerate(alike)}
        names[name] = tuple(one.name for one in alike)
    return Machines(Capacity(tuple(pools)), places, names)


def _unused(name: str, accelerators: float, used: dict[str, tuple[str, ...]]) -> str:
    if name not in used:
        return name
    longer = f"{name}-{accelerators:g}"
    return longer if longer not in used else f"{longer}-{len(used)}"


def pods(engine: Engine) -> dict[int, dict[str, Pods]]:
    """Return by job's number and role the pods that live.

    Raises:
        Unavailable: the database can't be reached now.
    """
    query = (
        sa.select(
            JobNode.job_id, JobNode.role, JobNode.cpu_allotted, JobNode.memory_allotted, JobNode.accelerators,
            JobNode.node_id,
        )
        .where(JobNode.gone_at.is_(None), JobNode.ended_at.is_(None), JobNode.phase.in_(LIVING))
        .where(JobNode.role.in_(("worker", "ps")))
        .order_by(JobNode.job_id, JobNode.role, JobNode.rank, JobNode.id)
    )  # fmt: skip
    found: dict[int, dict[str, Pods]] = {}
    with reading(engine) as connection:
        for job, role, cpu, memory, accelerators, machine in connection.execute(query):
            known = found.setdefault(job, {}).get(role, Pods())
            found[job][role] = Pods(
                known.count + 1,
                max(known.cpu, cpu or 0.0),
                max(known.memory, float(memory or 0.0)),
                max(known.accelerators, accelerators or 0.0),
                (*known.machines, machine),
            )
    return found


def priorities(engine: Engine) -> dict[int, float]:
    """Return by job's number the priority of its pods, of those that are known.

    Raises:
        Unavailable: the database can't be reached now.
    """
    query = sa.select(JobFeature.job_id, JobFeature.value).where(JobFeature.name == PRIORITY)
    with reading(engine) as connection:
        return {job: float(value) for job, value in connection.execute(query)}
