from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from convoy.brain.plan.cluster import (
    Capacity,
    ClusterDecision,
    ClusterJob,
    ClusterPlan,
    Policy,
    Pool,
    Progress,
    Quota,
    Sizes,
    plan_cluster,
)
from convoy.brain.plan.cluster.priorities import steps
from convoy.brain.plan.hold import Hold
from support.made_clusters import cluster, fits, sizes

ONE_POOL = Capacity((Pool("a", 4, 4.0),))
STEPS = [1, 2, 4, 8]
PINNED = Hold("Pinned", "the job is pinned")


def job(name: str, scale: float = 0.8, current: int | None = None, **more: object) -> ClusterJob:
    speed = [100.0 * n**scale for n in STEPS]
    return ClusterJob(name, sizes(STEPS, speed, together=[1, 2, 4, 4]), current=current, **more)  # type: ignore[arg-type]


def decisions(plan: ClusterPlan) -> dict[str, tuple[str, str, int | None]]:
    return {one.name: (one.decision.value, one.reason, one.size) for one in plan.jobs}


def held(plan: ClusterPlan) -> list[int | None]:
    return [None if one.decision is ClusterDecision.WAIT else one.size for one in plan.jobs]


def used(plan: ClusterPlan) -> int:
    return sum(one.workers for one in plan.jobs)


def test_no_capacity_changes_nothing() -> None:
    jobs = [job("runs", current=1), job("waits")]
    for capacity in (Capacity(), Capacity((Pool("a", 0, 4.0),)), Capacity((Pool("a", -3, 4.0),))):
        plan = plan_cluster(jobs, capacity)
        assert not plan.decided
        assert decisions(plan) == {"runs": ("KEEP", "NoCapacity", 1), "waits": ("WAIT", "NoCapacity", None)}
        assert plan.jobs[0].workers == 2
        assert "No change" in plan.message


def test_no_jobs_is_an_answer() -> None:
    assert plan_cluster([], ONE_POOL).reason == "NoJobs"


def test_a_running_job_of_zero_speed_keeps_what_it_has_and_others_are_planned() -> None:
    stuck = ClusterJob("stuck", sizes(STEPS, [0.0, 0.0, 100.0, 200.0], together=[1, 2, 4, 4]), current=1)
    plan = plan_cluster([stuck, job("waits")], ONE_POOL)
    assert decisions(plan)["stuck"] == ("KEEP", "SpeedUnknown", 1)
    assert decisions(plan)["waits"][0] == "START"


def test_no_known_speed_at_all_changes_nothing() -> None:
    unknown = ClusterJob("x", sizes(STEPS, [math.nan] * 4), current=0)
    plan = plan_cluster([unknown], ONE_POOL)
    assert (plan.decided, plan.reason) == (False, "NothingKnown")
    assert held(plan) == [0]


def test_a_waiting_job_of_unknown_speed_starts_at_what_was_asked_for() -> None:
    unknown = ClusterJob("x", sizes(STEPS, [math.nan] * 4), requested=2)
    assert decisions(plan_cluster([unknown], ONE_POOL))["x"] == ("START", "StartsUnknown", 2)


def test_missing_prices_matter_only_where_there_is_a_budget() -> None:
    jobs = [job("runs", current=0), job("waits")]
    assert {one.decision.value for one in plan_cluster(jobs, ONE_POOL).jobs} == {"CHANGE", "START"}
    plan = plan_cluster(jobs, replace(ONE_POOL, budget_per_hour=10.0))
    assert held(plan) == [0, None]
    assert decisions(plan)["waits"][1] == "PriceUnknown"
    assert {one.verdict for one in plan.weighed("runs")} == {"Chosen", "PriceUnknown"}


def test_one_job_that_wants_everything_leaves_the_others_what_they_have() -> None:
    greedy = ClusterJob("greedy", sizes([16], [1e9], together=[4]), priority=6)
    plan = plan_cluster([greedy, job("runs", current=2)], ONE_POOL)
    assert decisions(plan)["greedy"][0] == "WAIT"
    assert held(plan)[1] is not None
    assert fits([greedy, job("runs", current=2)], ONE_POOL, held(plan))


def test_what_runs_and_no_longer_fits_stays_and_is_said() -> None:
    fixed = [ClusterJob(f"j{n}", sizes([4], [1.0], together=[4]), current=0) for n in range(5)]
    plan = plan_cluster(fixed, ONE_POOL)
    assert (plan.decided, plan.reason) == (False, "PresentExceedsCapacity")
    assert held(plan) == [0] * 5


def test_lost_nodes_shrink_what_can_shrink() -> None:
    jobs = [job(f"j{n}", current=2) for n in range(5)]
    plan = plan_cluster(jobs, ONE_POOL)
    assert plan.decided
    assert used(plan) <= 16
    assert all(size is not None for size in held(plan))


@pytest.mark.parametrize(
    "broken",
    [
        Sizes(("a",), *(np.ones(2, dtype=kind) for kind in (np.int64, float, float, float, float))),
        sizes([0, 2], [1.0, 2.0]),
        sizes([1, 2], [1.0, 2.0], accelerators=math.nan),
        sizes([1, 2], [1.0, 2.0], cpu=-1.0),
    ],
)
def test_sizes_that_cannot_be_right_leave_their_job_alone(broken: Sizes) -> None:
    plan = plan_cluster([ClusterJob("bad", broken, current=1), ClusterJob("bad too", broken), job("good")], ONE_POOL)
    assert decisions(plan)["bad"] == ("KEEP", "Invalid", 1)
    assert decisions(plan)["bad too"][0] == "WAIT"
    assert decisions(plan)["good"][0] == "START"


def test_numbers_at_the_edge_raise_nothing() -> None:
    odd = ClusterJob(
        "odd", sizes(STEPS, [1e-300, math.inf, 1e300, 5.0]), current=3, restart_seconds=math.nan, weight=math.nan,
        horizon_seconds=0.0, fair_goodput=-1.0,
    )  # fmt: skip
    capacity = Capacity((Pool("a", 4, 4.0, math.nan), Pool("b", 2, math.inf)), (Quota("", -1.0), Quota("who", 3.0)))
    plan = plan_cluster([odd, job("waits")], capacity)
    assert decisions(plan)["odd"][2] is not None


def test_the_faster_scaling_job_gets_more() -> None:
    plan = plan_cluster([job("flat", 0.2), job("steep", 1.0)], Capacity((Pool("a", 3, 4.0),)))
    by_name = {one.name: one.workers for one in plan.jobs}
    assert by_name["steep"] > by_name["flat"]


@pytest.mark.parametrize("seed", range(3))
def test_a_higher_priority_never_gets_less(seed: int) -> None:
    jobs, capacity = cluster(30, 80, seed)
    jobs = [replace(one, priority=0) for one in jobs]
    before = plan_cluster(jobs, capacity)
    raised = plan_cluster([replace(jobs[0], priority=1), *jobs[1:]], capacity)
    assert (raised.jobs[0].goodput or 0.0) >= before.jobs[0].goodput * (1 - 1e-3)


def test_quotas_hold_and_say_so() -> None:
    jobs = [job(f"j{n}", user="small") for n in range(3)] + [job("other", user="big")]
    plan = plan_cluster(jobs, replace(ONE_POOL, quotas=(Quota("small", accelerators=4.0),)))
    assert sum(one.workers for one in plan.jobs[:3]) <= 4
    price = next(one for one in plan.prices if one.user == "small")
    assert price.used <= price.available == 4.0
    assert price.price > 0.0


def test_a_quota_of_nobody_in_particular_stops_nothing_that_runs() -> None:
    """Of jobs whose user isn't known, too: what they hold stays, however small the quota became."""
    jobs = [job(f"j{n}", current=2) for n in range(2)]
    plan = plan_cluster(jobs, replace(ONE_POOL, quotas=(Quota("", accelerators=2.0),)))
    assert plan.decided
    assert used(plan) == 8


def test_a_namespaces_quota_counts_all_of_its_users() -> None:
    where = [("a", "one"), ("b", "one"), ("a", "two")]
    jobs = [job(f"{user}-{name}", user=user, namespace=name) for user, name in where]
    for quota, most in ((Quota("", 4.0, namespace="one"), (0, 1)), (Quota("a", 3.0, namespace="one"), (0,))):
        plan = plan_cluster(jobs, replace(ONE_POOL, quotas=(quota,)))
        assert sum(plan.jobs[place].workers for place in most) <= quota.accelerators
        assert plan.jobs[2].workers >= 4


def test_a_share_gives_about_as_much_more() -> None:
    """Where speed goes with size, what a weight brings goes with it, whatever the fairness is."""
    speed = [100.0 * n for n in range(1, 25)]
    for fairness in (0.5, 1.0, 2.0):
        jobs = [
            ClusterJob(name, sizes(range(1, 25), speed), user=name, weight=weight)
            for name, weight in (("two", 2.0), ("one", 1.0))
        ]
        plan = plan_cluster(jobs, Capacity((Pool("a", 6, 4.0),)), Policy(fairness=fairness))
        assert [one.workers for one in plan.jobs] == pytest.approx([16, 8], abs=1)


def test_steps_of_priority_order_and_do_not_measure() -> None:
    assert steps([0.0, 1e9, 5.0, 5.0, -3.0, -1e6]) == [0, 2, 1, 1, -1, -2]
    assert steps([]) == []
    assert steps([7.0, 7.0]) == [1, 1]


def test_users_count_alike_however_many_jobs_they_have() -> None:
    jobs = [job(f"many-{n}", user="many") for n in range(8)] + [job("one", user="one")]
    even = {one.name: one.workers for one in plan_cluster(jobs, ONE_POOL).jobs}
    each = {one.name: one.workers for one in plan_cluster(jobs, ONE_POOL, Policy(user_fairness=0.0)).jobs}
    assert even["one"] > each["one"]


def test_more_fairness_spreads() -> None:
    jobs = [job("steep", 1.0), *(job(f"flat-{n}", 0.5) for n in range(3))]
    spread = [
        np.std([one.workers for one in plan_cluster(jobs, ONE_POOL, Policy(fairness=fairness)).jobs])
        for fairness in (0.0, 2.0)
    ]
    assert spread[1] < spread[0]


def test_what_was_planned_is_kept() -> None:
    jobs, capacity = cluster(60, 200)
    first = plan_cluster(jobs, capacity)
    settled = [
        replace(one, current=answer.size, nodes=answer.nodes) for one, answer in zip(jobs, first.jobs, strict=True)
    ]
    again = plan_cluster(settled, capacity, warm=first.prices)
    assert sum(one.size != answer.size for one, answer in zip(again.jobs, first.jobs, strict=True)) <= 1
    kept = [
        (one.nodes, now.nodes) for one, now in zip(settled, again.jobs, strict=True) if now.decision.value == "KEEP"
    ]
    assert all(before == now for before, now in kept)


def test_a_restart_that_is_not_paid_back_is_not_made() -> None:
    runs = job("runs", current=2, restart_seconds=1800.0, horizon_seconds=2000.0)
    plan = plan_cluster([runs], ONE_POOL)
    assert decisions(plan)["runs"] == ("KEEP", "NotWorthARestart", 2)
    assert decisions(plan_cluster([replace(runs, restart_seconds=1.0)], ONE_POOL))["runs"][0] == "CHANGE"


def test_pinned_jobs_stay() -> None:
    plan = plan_cluster([job("runs", current=0, hold=PINNED), job("waits", hold=PINNED)], ONE_POOL)
    assert decisions(plan) == {"runs": ("KEEP", "Pinned", 0), "waits": ("WAIT", "Pinned", None)}


def test_only_who_may_be_preempted_is() -> None:
    held_back = [job(f"j{n}", current=2) for n in range(4)]
    urgent = ClusterJob("urgent", sizes([16], [1000.0], together=[4]), priority=6)
    assert decisions(plan_cluster([*held_back, urgent], ONE_POOL))["urgent"][0] == "WAIT"
    willing = [replace(one, preemptible=True) for one in held_back]
    plan = plan_cluster([*willing, urgent], ONE_POOL)
    assert held(plan) == [None] * 4 + [0]


def test_a_budget_bounds_what_is_spent() -> None:
    jobs = [
        replace(job(f"j{n}"), sizes=replace(job("x").sizes, price_per_hour=np.array(STEPS) * 2.0)) for n in range(3)
    ]
    plan = plan_cluster(jobs, replace(ONE_POOL, budget_per_hour=12.0))
    assert sum(one.price_per_hour for one in plan.jobs) <= 12.0
    assert next(one for one in plan.prices if one.resource == "budget").price > 0.0


def test_parts_of_three_on_nodes_of_four_take_a_node_each() -> None:
    """By plain sums five would fit; the row that packing adds keeps the bound honest."""
    jobs = [ClusterJob(f"j{n}", sizes([3], [1.0], together=[3])) for n in range(6)]
    plan = plan_cluster(jobs, ONE_POOL)
    assert sum(one.decision is ClusterDecision.START for one in plan.jobs) == 4
    assert plan.gap < 1e-6
    assert any(one.resource == "nodes" and one.price > 0 for one in plan.prices)


def test_a_small_job_moves_so_that_a_large_one_fits() -> None:
    small = [ClusterJob(f"s{n}", sizes([1], [1.0]), current=0, nodes=(n,), restart_seconds=10.0) for n in range(2)]
    large = ClusterJob("large", sizes([4], [50.0], together=[4]))
    plan = plan_cluster([*small, large], Capacity((Pool("a", 2, 4.0),)))
    assert decisions(plan)["large"][0] == "START"
    assert sorted(one.reason for one in plan.jobs[:2]) == ["BestAsIs", "Moves"]
    assert plan.jobs[2].nodes[0] not in {one.nodes[0] for one in plan.jobs[:2]}


@pytest.mark.parametrize("seed", range(2))
def test_a_made_cluster_fits_onto_its_nodes(seed: int) -> None:
    jobs, capacity = cluster(60, 200, seed)
    plan = plan_cluster(jobs, capacity)
    for place, pool in enumerate(capacity.pools):
        free = np.tile([pool.accelerators_per_node, pool.cpu_per_node, pool.memory_per_node], (pool.nodes, 1))
        for one, asked in zip(plan.jobs, jobs, strict=True):
            if one.pool != pool.name or one.size is None:
                continue
            s = asked.sizes
            part = min(int(s.together[one.size]), one.workers) * np.array(
                [s.accelerators[one.size], s.cpu[one.size], s.memory[one.size]]
            )
            assert len(one.nodes) * min(int(s.together[one.size]), one.workers) == one.workers
            np.subtract.at(free, list(one.nodes), part)
        assert (free >= -1e-6 * np.abs(free).max()).all(), place


def test_a_marginal_price_is_what_one_more_is_worth() -> None:
    jobs, capacity = cluster(120, 400)
    jobs = [replace(one, fair_goodput=100.0) for one in jobs]  # so that a share isn't another in a larger cluster
    first, second, third = capacity.pools
    plan = plan_cluster(jobs, capacity)
    grown = plan_cluster(jobs, replace(capacity, pools=(first, replace(second, nodes=second.nodes + 1), third)))
    price = next(one.price for one in plan.prices if (one.resource, one.pool) == ("accelerators", second.name))
    assert grown.bound - plan.bound == pytest.approx(second.accelerators_per_node * price, rel=0.05)
    assert grown.value - plan.value == pytest.approx(second.accelerators_per_node * price, rel=0.5)


def test_each_better_plan_is_told_and_the_last_is_answered() -> None:
    told: list[Progress] = []
    jobs, capacity = cluster(60, 200)
    plan = plan_cluster(jobs, capacity, watch=told.append)
    assert [one.step for one in told[:2]] == ["Present", "Prices"]
    assert [one.value for one in told] == sorted(one.value for one in told)
    assert told[-1].value == plan.value <= plan.bound


def test_the_same_question_has_the_same_answer() -> None:
    jobs, capacity = cluster(60, 200)
    assert plan_cluster(jobs, capacity) == plan_cluster(jobs, capacity)


def test_a_refused_size_is_told_with_who_refused_it() -> None:
    plan = plan_cluster([job("runs", 1.0, current=0, refused={3: "ana refused that"})], ONE_POOL)
    one = plan.jobs[0]
    assert (one.size, one.decision.value) == (2, "CHANGE")
    assert "next best is 2 workers at 200 samples/s: worth" in one.message
    assert one.message.endswith("left out: 8 workers (ana refused that)")
    assert plan.weighed("runs")[3].verdict == "Refused"
    waits = plan_cluster([job("waits", refused=dict.fromkeys(range(4), "no")), job("other")], ONE_POOL).jobs[0]
    assert (waits.decision.value, waits.reason) == ("WAIT", "Refused")


def test_what_was_rejected_has_its_numbers() -> None:
    plan = plan_cluster([job("flat", 0.2), job("steep", 1.0)], Capacity((Pool("a", 2, 4.0),)))
    weighed = plan.weighed("flat")
    assert [one.workers for one in weighed] == STEPS
    assert sum(one.chosen for one in weighed) == 1
    assert all(math.isfinite(one.value) and math.isfinite(one.cost) for one in weighed)
    assert {one.verdict for one in weighed} <= {"Chosen", "NoFaster", "WorthMoreElsewhere", "NoRoom"}
    assert plan.weighed("nobody") == ()


def test_two_hundred_jobs_are_within_a_thousandth_of_the_bound() -> None:
    jobs, capacity = cluster(200, 2000)
    assert plan_cluster(jobs, capacity, Policy(seconds=30.0)).gap <= 1e-3  # on a machine that does much else too
