"""Every policy finishes a small workload, the same way each time; and each does what sets it apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convoy.brain.simulate.cluster import Cluster
from convoy.brain.simulate.engine import Settings, simulate
from convoy.brain.simulate.failures import Failures
from convoy.brain.simulate.outcome import Outcome
from convoy.brain.simulate.placement import Placement, placed, size
from convoy.brain.simulate.policies import POLICIES
from convoy.brain.simulate.policies.genetic import Problem, repaired
from convoy.brain.simulate.policies.packing import packed
from convoy.brain.simulate.policy import JobView, Surroundings
from convoy.brain.simulate.quota import WithQuotas
from convoy.brain.simulate.workload import Submission
from support.made_workloads import cluster, jobs, truth

PUBLISHED = ("requested", "tiresias", "optimus-oracle", "pollux", "sia", "dlrover")
BOTH = (("aws", 3, 4), ("azure", 2, 4))


def run(
    name: str,
    asked: list[Submission],
    *rows: tuple[str, int, int],
    failures: Failures | None = None,
    steps: float = 200.0,
) -> Outcome:
    there = cluster(*rows)
    true = truth(there.kinds, noise=True, seed=1, steps=steps)
    policy = POLICIES[name](Surroundings(there, true, 30.0, 60.0, seed=1))
    return simulate(name, policy, asked, there, true, Settings(failures=failures))


@pytest.mark.parametrize("rows", [(), BOTH], ids=["one kind", "two kinds"])
@pytest.mark.parametrize("name", PUBLISHED)
def test_all_jobs_end_and_twice_the_same(name: str, rows: tuple[tuple[str, int, int], ...]) -> None:
    first, again = (run(name, jobs(8, 30.0), *rows) for _ in range(2))
    assert len(first.jobs) == 8
    assert first.jobs == again.jobs
    assert sum(job.ooms for job in first.jobs) == 0


@pytest.mark.parametrize("name", PUBLISHED)
def test_nodes_that_fail_and_return_stop_nobody_for_good(name: str) -> None:
    failing = Failures(200000.0, repair_seconds=200.0, checkpoint_seconds=60.0, seed=2)
    outcome = run(name, jobs(6, 30.0, replicas=6), failures=failing, steps=1000.0)
    assert sum(job.failures for job in outcome.jobs) > 0


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_job_that_wants_everything_gets_what_there_is(name: str) -> None:
    outcome = run(name, [Submission("all", 0.0, "resnet", 1000, 256.0), *jobs(2)], ("aws", 2, 4))
    assert len(outcome.jobs) == 3


def test_elastic_policies_leave_less_idle_than_requests_do() -> None:
    asked = jobs(6, 200.0, replicas=1, batch=16.0)
    for name in ("sia", "optimus-oracle"):
        outcomes = run(name, asked, steps=2500.0), run("requested", asked, steps=2500.0)
        took = [np.mean([job.completion_seconds for job in outcome.jobs]) for outcome in outcomes]
        assert took[0] < took[1]


def test_tiresias_lets_a_new_job_pass_one_that_had_its_service() -> None:
    long = Submission("long", 0.0, "resnet", 16, 256.0)
    late = Submission("late", 6000.0, "resnet", 16, 256.0)
    true = truth(steps=150000.0)
    policy = POLICIES["tiresias"](Surroundings(cluster(), true, 30.0, 60.0))
    outcome = simulate("", policy, [long, late], cluster(), true, Settings())
    assert {job.job: job.restarts for job in outcome.jobs}["long"] > 0
    assert outcome.jobs[1].started < outcome.jobs[0].completed


def test_sia_moves_jobs_to_the_faster_kind() -> None:
    held = [job.gpu_seconds for job in run("sia", jobs(1), *BOTH).jobs]
    assert held[0].get("azure", 0.0) > held[0].get("aws", 0.0)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), nodes=st.integers(1, 6), each=st.sampled_from([1, 2, 4, 8]))
def test_packing_places_all_on_as_few_nodes_as_each_needs(data: st.DataObject, nodes: int, each: int) -> None:
    there = Cluster.of([("aws", nodes, each)])
    left = nodes * each
    sizes: dict[str, int] = {}
    while left > 0 and len(sizes) < 12:
        within = [2**i for i in range(each.bit_length()) if 2**i <= min(left, each)]
        whole = [each * i for i in range(1, left // each + 1)]
        sizes[f"job-{len(sizes)}"] = data.draw(st.sampled_from(within + whole))
        left -= sizes[f"job-{len(sizes) - 1}"]
    found = packed(sizes, there.nodes, {})
    for name, wanted in sizes.items():
        assert size(found[name]) == wanted
        assert len(found[name]) == -(-wanted // each)
    used = np.zeros(nodes)
    for placement in found.values():
        for node, count in placement:
            used[node] += count
    assert (used <= each).all()
    gone = data.draw(st.sampled_from(sorted(sizes)))
    fewer = {name: wanted for name, wanted in sizes.items() if name != gone}
    assert packed(fewer, there.nodes, found) == {name: found[name] for name in fewer}  # nobody moves for nothing


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 9), kinds=st.integers(1, 2))
def test_repaired_states_can_be_carried_out(seed: int, count: int, kinds: int) -> None:
    rng = np.random.default_rng(seed)
    room, most = np.full(6, 4, np.int16), rng.integers(1, 12, count).astype(np.int16)
    of_kind = (np.arange(6) * kinds // 6).astype(np.int16)
    problem = Problem(np.zeros((count, 6), np.int16), np.ones((count, 7, 25)), np.ones(count), most, room, of_kind)
    states = repaired(problem, rng.integers(0, 5, (20, count, 6)).astype(np.int16), rng)
    assert (states >= 0).all()
    assert (states.sum(axis=1) <= room).all()
    assert (states.sum(axis=2) <= most).all()
    spans = np.count_nonzero(states, axis=2) > 1
    assert (((states > 0) & spans[:, :, None]).sum(axis=1) <= 1).all()
    for state in states:
        for row in state:
            assert len({int(of_kind[node]) for node in np.flatnonzero(row)}) <= 1


@pytest.mark.parametrize("name", ["requested", "pollux", "sia"])
def test_a_quota_is_never_passed(name: str) -> None:
    true = truth(noise=True)
    asked = jobs(8, 20.0, replicas=3)
    held: list[int] = []

    class Watched(WithQuotas):
        def allocate(
            self, now: float, jobs: Sequence[JobView], cluster: Cluster, previous: Mapping[str, Placement]
        ) -> Mapping[str, Placement]:
            answer = super().allocate(now, jobs, cluster, previous)
            mine = {job.job for job in jobs if job.user == "a"}
            held.append(sum(size(placed(dict(one))) for job, one in answer.items() if job in mine))
            return answer

    policy = Watched(POLICIES[name](Surroundings(cluster(), true, 30.0, 60.0)), {"a": 5})
    outcome = simulate(name, policy, asked, cluster(), true, Settings())
    assert len(outcome.jobs) == 8
    assert 0 < max(held) <= 5
