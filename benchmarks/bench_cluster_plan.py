"""How close a cluster's plan comes to the best, and how soon, beside HiGHS's own solution of the same problem.

    python benchmarks/bench_cluster_plan.py                      # 200 jobs on 2,000 accelerators, 5 seeds
    python benchmarks/bench_cluster_plan.py --jobs 10000 --accelerators 100000 --seconds 60 --seeds 1

MADE-UP jobs: 12 to 21 sizes each, in three pools of nodes with 8 accelerators, 96 cores and 768 GiB, of which they
want some four times as much as there is; 70 % run already at one or two accelerators; 20 users, every fourth with a
quota; two priorities. HiGHS solves the mixed-integer program over all sizes within --seconds. It doesn't place parts
on nodes, as the plan does, so what it finds may not be had; its bound is one for both. Both run on one core.

Columns: until the first plan is told, until the last, processor's seconds of it, its gap; its bound and value over
HiGHS's; HiGHS's time and gap; then planning once more from where the first plan leads: time, and jobs that change.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the Brain's process does, before numpy is imported

import numpy as np
from scipy import optimize, sparse

from convoy.brain.plan.cluster import Capacity, ClusterJob, Policy, Pool, Progress, Quota, Sizes, plan_cluster
from convoy.brain.plan.cluster.choices import choices_of
from convoy.brain.plan.cluster.limits import limits_of, raised
from convoy.brain.plan.cluster.values import values_of

GIB = 2.0**30
POOLS = {"small": (0.5, 1.0, 0.5), "middle": (0.3, 1.8, 1.0), "large": (0.2, 3.2, 2.0)}
"""Share of the accelerators, speed of one, price of one an hour."""
USERS = 20


def made_up(jobs: int, accelerators: int, seed: int) -> tuple[list[ClusterJob], Capacity]:
    """Return jobs with speeds that saturate with the number of workers, each in a way of its own, and the cluster."""
    generator = np.random.default_rng(seed)
    pools = tuple(
        Pool(name, round(accelerators * share / 8), 8, 96.0, 768 * GIB) for name, (share, _, _) in POOLS.items()
    )
    quotas = tuple(Quota(f"user-{user}", accelerators=1.5 * accelerators / USERS) for user in range(0, USERS, 4))
    return [_job(number, generator) for number in range(jobs)], Capacity(pools, quotas)


def _job(number: int, generator: np.random.Generator) -> ClusterJob:
    steps = np.array([1, 2, 4, 8, 16, 32, 64])[: generator.choice([4, 5, 6, 7], p=[0.4, 0.3, 0.2, 0.1])]
    workers, kind = np.tile(steps, len(POOLS)), np.repeat(np.arange(len(POOLS)), len(steps))
    compute, sync = generator.uniform(0.02, 0.4), generator.uniform(0.0, 0.004)
    fast = np.array([speed for _, speed, _ in POOLS.values()]) * generator.lognormal(0.0, 0.2, len(POOLS))
    names = list(POOLS)
    return ClusterJob(
        f"job-{number}",
        Sizes(
            pool=tuple(names[one] for one in kind),
            workers=workers,
            goodput=generator.lognormal(4.0, 1.0) * fast[kind] * workers
            / (1.0 + compute * (workers - 1.0) ** 0.7 + sync * workers),
            accelerators=np.ones(len(workers)),
            cpu=np.full(len(workers), float(generator.integers(4, 13))),
            memory=np.full(len(workers), float(generator.integers(20, 97)) * GIB),
            together=np.minimum(workers, 8),
            price_per_hour=workers * np.array([price for _, _, price in POOLS.values()])[kind],
        ),
        user=f"user-{generator.integers(USERS)}",
        current=int(generator.integers(0, 2)) if generator.random() < 0.7 else None,
        priority=int(generator.integers(0, 2)),
    )  # fmt: skip


def by_highs(jobs: list[ClusterJob], capacity: Capacity, seconds: float) -> tuple[float, float]:
    """Return the value of HiGHS's solution (NaN: none in time) and its bound."""
    everything = choices_of(jobs, capacity)
    value = values_of(everything, jobs, capacity, Policy()).net[everything.barred == 0]
    c = everything.take(everything.barred == 0)
    limits = raised(limits_of(c, jobs, capacity), np.flatnonzero(c.present))
    pick = sparse.csr_matrix((np.ones(len(c)), (c.job, np.arange(len(c)))))
    found = optimize.milp(
        -value, integrality=np.ones(len(c)), bounds=optimize.Bounds(0.0, 1.0),
        constraints=[
            optimize.LinearConstraint(pick, 1.0, 1.0),
            optimize.LinearConstraint(limits.demand.T.tocsr(), -np.inf, limits.most),
        ],
        options={"time_limit": seconds, "mip_rel_gap": 1e-5},
    )  # fmt: skip
    bound = -found.mip_dual_bound if found.mip_dual_bound is not None else np.inf
    return (np.nan if found.x is None else -float(found.fun)), float(bound)


def main() -> None:
    """Print a line a seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--accelerators", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0, help="HiGHS's time limit")
    parser.add_argument("--exact-seconds", type=float, default=1.0, help="of the plan: most for its core")
    asked = parser.parse_args()
    print("seed  first s  plan s  cpu s  gap %  bound/HiGHS's  value/HiGHS's  HiGHS s  HiGHS gap %  again s  changed")
    for seed in range(asked.seeds):
        line(seed, asked.jobs, asked.accelerators, asked.seconds, Policy(seconds=asked.exact_seconds))


def line(seed: int, count: int, accelerators: int, seconds: float, policy: Policy) -> None:
    """Plan one made-up cluster, then again as it then stands, and print both beside HiGHS."""
    jobs, capacity = made_up(count, accelerators, seed)
    begun, spent = time.perf_counter(), time.process_time()
    firsts: list[float] = []

    def watch(_: Progress) -> None:
        firsts.append(time.perf_counter() - begun)

    plan = plan_cluster(jobs, capacity, policy, watch=watch)
    took, spent = time.perf_counter() - begun, time.process_time() - spent
    settled = [replace(job, current=one.size, nodes=one.nodes) for job, one in zip(jobs, plan.jobs, strict=True)]
    begun = time.perf_counter()
    after = plan_cluster(settled, capacity, policy, warm=plan.prices)
    again = time.perf_counter() - begun
    changed = sum(one.size != job.current for one, job in zip(after.jobs, settled, strict=True))
    begun = time.perf_counter()
    value, bound = by_highs(jobs, capacity, seconds)
    highs = time.perf_counter() - begun
    print(
        f"{seed:4d} {firsts[0]:8.2f} {took:7.2f} {spent:6.2f} {100 * plan.gap:6.3f} {plan.bound / bound:14.6f} "
        f"{plan.value / value:14.6f} {highs:8.2f} {100 * (bound - value) / bound:12.3f} {again:8.2f} {changed:8d}",
        flush=True,
    )


if __name__ == "__main__":
    main()
