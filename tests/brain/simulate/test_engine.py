"""The simulation's own arithmetic, on one or two jobs whose times can be told by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convoy.brain.simulate.batch import Batch
from convoy.brain.simulate.cluster import Cluster
from convoy.brain.simulate.engine import BadAllocation, Settings, simulate
from convoy.brain.simulate.failures import Failures
from convoy.brain.simulate.placement import Placement
from convoy.brain.simulate.policies.requested import Requested
from convoy.brain.simulate.policy import JobView, RequestedBatch
from convoy.brain.simulate.workload import Submission
from convoy.core.api.errors import DeadlineMissed, InvalidInput
from support.made_workloads import NOISE, cluster, jobs, seconds, truth

Choose = Callable[[float, Sequence[JobView]], Mapping[str, Placement]]


class Scripted(RequestedBatch):
    """Places jobs as a test says, and keeps what it saw."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self.seen: list[tuple[float, list[JobView]]] = []

    def allocate(
        self, now: float, jobs: Sequence[JobView], cluster: Cluster, previous: Mapping[str, Placement]
    ) -> Mapping[str, Placement]:
        self.seen.append((now, list(jobs)))
        return self._choose(now, jobs)


def work_seconds(nodes: int, replicas: int, batch: float) -> float:
    """Return the seconds of three epochs of 200 steps of the initial batch."""
    gain = (NOISE + 1) / (NOISE / (batch / 16) + 1)
    return 600 / gain * seconds(nodes, replicas, batch / replicas)[0]


ONE = [Submission("one", 30.0, "resnet", 4, 64.0)]


def test_a_job_takes_its_wait_its_start_and_its_work() -> None:
    outcome = simulate("", Scripted(lambda now, jobs: {"one": ((0, 4),)}), ONE, cluster(), truth(), Settings())
    [job] = outcome.jobs
    assert (job.submitted, job.started, job.restarts) == (30.0, 60.0, 0)
    assert job.completed == pytest.approx(60.0 + 30.0 + work_seconds(1, 4, 64.0))
    assert sum(job.gpu_seconds.values()) == pytest.approx(4 * (job.completed - 60.0))


def test_a_change_of_nodes_restarts_and_the_same_placement_does_not() -> None:
    def choose(now: float, jobs: Sequence[JobView]) -> dict[str, Placement]:
        return {"one": ((0, 4),) if now < 120 else ((1, 4),)}

    [job] = simulate("", Scripted(choose), ONE, cluster(), truth(), Settings()).jobs
    assert job.restarts == 1
    assert job.completed == pytest.approx(60.0 + 2 * 30.0 + work_seconds(1, 4, 64.0))


def test_the_interval_changes_nothing_but_when_decisions_are_made() -> None:
    choose: Choose = lambda now, jobs: {"one": ((0, 4), (1, 4))}  # noqa: E731
    ends = [
        simulate("", Scripted(choose), ONE, cluster(), truth(), Settings(interval=interval)).jobs[0].completed
        for interval in (7.5, 15.0, 30.0)
    ]
    assert ends == pytest.approx([ends[0]] * 3)  # all of them decide at 30 s


def test_a_policy_sees_measurements_and_progress() -> None:
    policy = Scripted(lambda now, jobs: {"one": ((0, 2), (1, 2))})
    simulate("", policy, ONE, cluster(), truth(), Settings())
    first, later = policy.seen[0][1][0], policy.seen[-1][1][0]
    assert (first.measurements, first.gradient, first.started) == ((), None, None)
    [measured] = later.measurements
    assert (measured.nodes, measured.replicas, measured.local) == (2, 4, 16)
    assert (measured.step_seconds, measured.sync_seconds) == pytest.approx(seconds(2, 4, 16))
    assert later.gradient == (1.0, NOISE)
    assert 0 < later.progress < later.work == 600.0
    assert later.service == pytest.approx(4 * (policy.seen[-1][0] - 60.0))


def test_a_micro_batch_that_does_not_fit_is_an_oom_and_makes_no_progress() -> None:
    class Greedy(Scripted):
        def batch(self, job: JobView, kind: str, nodes: int, replicas: int) -> Batch:
            return Batch(33 if job.started is None or job.restarts == 0 else 32)

    def choose(now: float, jobs: Sequence[JobView]) -> dict[str, Placement]:
        return {"one": ((0 if now < 180 else 1, 1),)}

    [job] = simulate("", Greedy(choose), ONE, cluster(), truth(), Settings()).jobs
    assert job.ooms == 1
    assert job.completed > 180 + 30


@pytest.mark.parametrize(
    ("placement", "told"),
    [
        (((0, 5),), "5 of 4 accelerators"),
        (((9, 1),), "no such node"),
        (((0, 4), (4, 1)), "can't be used"),
    ],
)
def test_what_is_not_there_cannot_be_handed_out(placement: Placement, told: str) -> None:
    there = cluster(("aws", 4, 4), ("azure", 1, 4))
    with pytest.raises(BadAllocation, match=told):
        simulate("", Scripted(lambda now, jobs: {"one": placement}), ONE, there, truth(("aws", "azure")), Settings())


def test_an_unknown_job_cannot_be_placed() -> None:
    with pytest.raises(BadAllocation, match="nobody"):
        simulate("", Scripted(lambda now, jobs: {"nobody": ((0, 1),)}), ONE, cluster(), truth(), Settings())


def test_a_policy_that_gives_nothing_is_given_up_by_name() -> None:
    with pytest.raises(DeadlineMissed, match=r"1 of 1 wait \(one\)"):
        simulate("", Scripted(lambda now, jobs: {}), ONE, cluster(), truth(), Settings(patience=3600.0))


def test_a_job_that_no_node_can_run_is_refused() -> None:
    with pytest.raises(InvalidInput, match="one: the speed of resnet isn't known on azure"):
        simulate("", Requested(), ONE, cluster(("azure", 1, 4)), truth(), Settings())


def test_failures_take_work_since_the_last_checkpoint_and_are_the_same_for_all() -> None:
    failing = Settings(failures=Failures(300000.0, repair_seconds=300.0, checkpoint_seconds=60.0, seed=5))
    asked = jobs(4)
    calm = simulate("", Requested(), asked, cluster(), truth(steps=2000.0), Settings())
    rough = [simulate("", Requested(), asked, cluster(), truth(steps=2000.0), failing) for _ in range(2)]
    assert sum(job.failures for job in rough[0].jobs) > 0
    assert rough[0].jobs == rough[1].jobs
    assert sum(job.completed for job in rough[0].jobs) > sum(job.completed for job in calm.jobs)


@settings(max_examples=25, deadline=None)
@given(count=st.integers(1, 8), apart=st.floats(0.0, 300.0), replicas=st.integers(1, 20), nodes=st.integers(1, 4))
def test_accelerators_are_never_held_twice(count: int, apart: float, replicas: int, nodes: int) -> None:
    asked = jobs(count, apart, replicas)
    outcome = simulate("", Requested(), asked, cluster(("aws", nodes, 4)), truth(), Settings())
    held = sum(sum(job.gpu_seconds.values()) for job in outcome.jobs)
    span = max(job.completed for job in outcome.jobs) - min(job.submitted for job in outcome.jobs)
    assert held <= span * nodes * 4 * (1 + 1e-9)
    assert all(job.submitted <= job.started < job.completed for job in outcome.jobs)
