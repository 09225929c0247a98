"""Clusters made up for tests, and the best plan of a tiny one by trying all."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from convoy.brain.plan.cluster import Capacity, ClusterJob, Pool, Sizes

GIB = 2.0**30


def sizes(
    workers: Sequence[int],
    goodput: Sequence[float],
    pool: str | Sequence[str] = "a",
    *,
    accelerators: float = 1.0,
    cpu: float = 0.0,
    memory: float = 0.0,
    **more: Sequence[float],
) -> Sizes:
    n = len(workers)
    return Sizes(
        pool=(pool,) * n if isinstance(pool, str) else tuple(pool),
        workers=np.array(workers, dtype=np.int64),
        goodput=np.array(goodput, dtype=np.float64),
        accelerators=np.full(n, accelerators),
        cpu=np.full(n, cpu),
        memory=np.full(n, memory),
        **{name: np.array(values) for name, values in more.items()},
    )


def cluster(jobs: int, accelerators: int, seed: int = 0) -> tuple[list[ClusterJob], Capacity]:
    """Return jobs of three kinds of nodes, 8 accelerators each, that want some four times what there is."""
    generator = np.random.default_rng(seed)
    shares, speeds, prices = (0.5, 0.3, 0.2), np.array([1.0, 1.8, 3.2]), np.array([0.5, 1.0, 2.0])
    pools = tuple(
        Pool(name, round(accelerators * share / 8), 8, 96.0, 768 * GIB)
        for name, share in zip("abc", shares, strict=True)
    )
    made = []
    for number in range(jobs):
        steps = np.array([1, 2, 4, 8, 16, 32, 64])[: generator.choice([4, 5, 6, 7], p=[0.4, 0.3, 0.2, 0.1])]
        workers, kind = np.tile(steps, 3), np.repeat(np.arange(3), len(steps))
        compute, sync = generator.uniform(0.02, 0.4), generator.uniform(0.0, 0.004)
        speed = generator.lognormal(4.0, 1.0) * (speeds * generator.lognormal(0.0, 0.2, 3))[kind]
        made.append(
            ClusterJob(
                f"job-{number}",
                Sizes(
                    pool=tuple("abc"[one] for one in kind),
                    workers=workers,
                    goodput=speed * workers / (1.0 + compute * (workers - 1.0) ** 0.7 + sync * workers),
                    accelerators=np.ones(len(workers)),
                    cpu=np.full(len(workers), float(generator.integers(4, 13))),
                    memory=np.full(len(workers), float(generator.integers(20, 90)) * GIB),
                    together=np.minimum(workers, 8),
                    price_per_hour=workers * prices[kind],
                ),
                user=f"user-{generator.integers(20)}",
                current=int(generator.integers(0, 2)) if generator.random() < 0.7 else None,
                priority=int(generator.integers(0, 2)),
            )
        )
    return made, Capacity(pools)


def parts_of(job: ClusterJob, size: int) -> list[tuple[float, float, float]]:
    """Return what a size puts onto nodes: of each part its accelerators, cores and bytes."""
    s = job.sizes
    together = max(int(s.together[size]) if len(s.together) else 1, 1)
    held = min(together, int(s.workers[size]))
    group = (held * s.accelerators[size], held * s.cpu[size], held * s.memory[size])
    servers = int(s.ps[size]) if len(s.ps) else 0
    server = (0.0, float(s.ps_cpu[size]) if servers else 0.0, float(s.ps_memory[size]) if servers else 0.0)
    return [group] * -(-int(s.workers[size]) // together) + [server] * servers


def packs(parts: list[tuple[float, float, float]], nodes: int, room: tuple[float, float, float]) -> bool:
    """Return whether parts fit onto nodes, by trying all ways; like nodes are tried once."""
    ordered = sorted(parts, reverse=True)

    def placed(at: int, free: tuple[tuple[float, ...], ...]) -> bool:
        if at == len(ordered):
            return True
        for state in set(free):
            left = tuple(have - want for have, want in zip(state, ordered[at], strict=True))
            if min(left) >= -1e-6:
                others = list(free)
                others.remove(state)
                if placed(at + 1, (*others, left)):
                    return True
        return False

    return placed(0, (room,) * nodes)


def fits(jobs: Sequence[ClusterJob], capacity: Capacity, chosen: Sequence[int | None]) -> bool:
    """Return whether sizes fit into nodes, quotas and budget; None: waits."""
    for pool in capacity.pools:
        parts = [
            part
            for job, size in zip(jobs, chosen, strict=True)
            if size is not None and job.sizes.pool[size] == pool.name
            for part in parts_of(job, size)
        ]
        room = (pool.accelerators_per_node, pool.cpu_per_node, pool.memory_per_node)
        if not packs(parts, pool.nodes, room):
            return False
    for quota in capacity.quotas:
        held = np.zeros(3)
        for job, size in zip(jobs, chosen, strict=True):
            counts = quota.covers(job.user, job.namespace)
            if size is not None and counts and quota.pool in ("", job.sizes.pool[size]):
                held += np.sum(parts_of(job, size), axis=0)
        if np.any(held > np.array([quota.accelerators, quota.cpu, quota.memory]) * (1 + 1e-9)):
            return False
    spent = sum(
        float(job.sizes.price_per_hour[size])
        for job, size in zip(jobs, chosen, strict=True)
        if size is not None and len(job.sizes.price_per_hour)
    )
    return spent <= capacity.budget_per_hour * (1 + 1e-9)


def every_plan(jobs: Sequence[ClusterJob]) -> itertools.product[tuple[int | None, ...]]:
    """Return all combinations of sizes, waiting where a job may."""
    return itertools.product(
        *([*range(len(job.sizes)), *([None] if job.current is None or job.preemptible else [])] for job in jobs)
    )
