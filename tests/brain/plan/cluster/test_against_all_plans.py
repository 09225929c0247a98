"""Plans of tiny clusters against the best one found by trying all, under Hypothesis."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from convoy.brain.plan.cluster import (
    Capacity,
    ClusterDecision,
    ClusterJob,
    ClusterPlan,
    Pool,
    Quota,
    plan_cluster,
)
from convoy.brain.plan.hold import Hold
from support.made_clusters import every_plan, fits, sizes


def tiny(seed: int) -> tuple[list[ClusterJob], Capacity]:
    """Return a cluster of a few nodes with all that may be odd about it."""
    g = np.random.default_rng(seed)
    pools = tuple(
        Pool(name, int(g.integers(1, 4)), float(g.choice([1, 2, 4])), float(g.choice([np.inf, 8.0])))
        for name in ("a", "b")[: g.integers(1, 3)]
    )
    jobs = []
    for number in range(g.integers(1, 5)):
        count = int(g.integers(1, 4))
        one = sizes(
            g.integers(1, 5, count).tolist(),
            g.choice([0.0, np.nan, 1.0, 1.5, 2.0, 3.7, 5.0], count, p=[0.05, 0.05, 0.2, 0.2, 0.2, 0.2, 0.1]).tolist(),
            g.choice(["a", "b", "c"], count, p=[0.5, 0.4, 0.1]).tolist(),
            accelerators=float(g.choice([0, 1, 1, 2])),
            cpu=float(g.choice([0, 1, 3])),
            together=g.integers(1, 3, count).tolist(),
            ps=[int(g.integers(0, 2))] * count,
            ps_cpu=[2.0] * count,
            ps_memory=[0.0] * count,
            price_per_hour=g.choice([0.5, 1.0, 2.0], count).tolist(),
        )
        jobs.append(
            ClusterJob(
                f"job-{number}",
                one,
                str(g.choice(["x", "y"])),
                current=int(g.integers(0, count)) if g.random() < 0.5 else None,
                nodes=tuple(g.integers(0, 4, g.integers(0, 4)).tolist()),
                priority=int(g.integers(-1, 2)),
                hold=Hold("Pinned", "the job is pinned") if g.random() < 0.2 else None,
                preemptible=bool(g.random() < 0.5),
                refused={size: "somebody refused that" for size in range(count) if g.random() < 0.1},
                namespace=str(g.choice(["n", "m"])),
                restart_seconds=float(g.choice([0.0, 30.0, 7200.0])),
            )
        )
    quotas = tuple(Quota(user, float(g.integers(0, 7))) for user in "xy"[: g.integers(0, 3)])
    if g.random() < 0.3:
        quotas += (Quota(str(g.choice(["", "x"])), float(g.integers(0, 7)), namespace="n"),)
    return jobs, Capacity(pools, quotas, float(g.choice([np.inf, np.inf, 2.0])))


def held(plan: ClusterPlan) -> list[int | None]:
    return [None if one.decision is ClusterDecision.WAIT else one.size for one in plan.jobs]


def stays(job: ClusterJob) -> bool:
    """Return whether nothing else may become of a job: it is held, or runs at no known speed."""
    return job.hold is not None or (job.current is not None and not job.sizes.goodput[job.current] > 0.0)


def best(jobs: list[ClusterJob], capacity: Capacity, plan: ClusterPlan) -> float:
    """Return the most that any plan is worth, by the plan's own numbers of each size."""
    numbers = [{one.size: one for one in plan.weighed(job.name)} for job in jobs]
    most = -np.inf
    for chosen in every_plan(jobs):
        allowed = all(
            size == job.current or (not stays(job) and (size is None or not np.isnan(of[size].cost)))
            for job, size, of in zip(jobs, chosen, numbers, strict=True)
        )
        if allowed and fits(jobs, capacity, chosen):
            most = max(
                most, sum(of[size].value for of, size in zip(numbers, chosen, strict=True) if size is not None)
            )
    return most


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9))
def test_plans_fit_and_the_bound_holds(seed: int) -> None:
    jobs, capacity = tiny(seed)
    plan = plan_cluster(jobs, capacity)
    assert [one.name for one in plan.jobs] == [job.name for job in jobs]
    chosen = held(plan)
    for job, one, size in zip(jobs, plan.jobs, chosen, strict=True):
        assert one.reason
        assert one.message
        if job.current is not None and not job.preemptible:
            assert size is not None, "a running job was stopped"
        if job.hold is not None:
            assert size == job.current
        if size in job.refused:
            assert size == job.current, "somebody refused that"
    if not plan.decided:
        assert chosen == [job.current for job in jobs]
        return
    known = all(
        job.current is None or job.sizes.pool[job.current] in {p.name for p in capacity.pools} for job in jobs
    )
    if known and fits(jobs, Capacity(capacity.pools), [job.current for job in jobs]):
        running = [job for job in jobs if job.current is not None]
        quotas = tuple(
            quota for quota in capacity.quotas if not any(quota.covers(job.user, job.namespace) for job in running)
        )
        money = capacity.budget_per_hour if not running else np.inf
        assert fits(jobs, Capacity(capacity.pools, quotas, money), chosen)
    elif known:
        assert fits(jobs, Capacity(capacity.pools), chosen)
    if known:
        most = best(jobs, capacity, plan)
        assert plan.bound >= most - 1e-6 * max(abs(most), 1.0)
        assert plan.value <= plan.bound + 1e-9


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9))
def test_what_parts_never_waste_is_planned_as_well_as_can_be(seed: int) -> None:
    g = np.random.default_rng(seed)
    pools = (Pool("a", int(g.integers(1, 4)), 4.0), Pool("b", int(g.integers(1, 3)), 2.0))
    jobs = []
    for number in range(g.integers(2, 6)):
        workers = np.sort(g.choice([1, 2, 3, 4, 6], 3, replace=False)).tolist()
        speed = (float(g.uniform(1.0, 5.0)) * np.array(workers) ** float(g.uniform(0.3, 1.0))).tolist()
        pool = g.choice(["a", "b"], 3).tolist()
        jobs.append(ClusterJob(f"job-{number}", sizes(workers, speed, pool), str(g.choice(["x", "y"]))))
    capacity = Capacity(pools, (Quota("x", float(g.integers(2, 9))),))
    plan = plan_cluster(jobs, capacity)
    most = best(jobs, capacity, plan)
    assert most - 1e-4 * abs(most) <= plan.value <= most + 1e-9
