from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from convoy.core.api.job import Range
from convoy.master.decide.rendezvous import select
from convoy.master.decide.state import GroupState, Launcher, RoundState


@given(
    joined=st.sets(st.integers(0, 40)),
    fewest=st.integers(0, 8),
    more=st.integers(0, 8),
    unit=st.integers(1, 5),
)
def test_a_world_is_never_too_small_never_empty_and_a_multiple_of_the_unit(joined, fewest, more, unit):
    world = select(sorted(joined), Range(fewest, fewest + more), unit)
    assert len(world) % unit == 0
    assert set(world) <= joined
    assert list(world) == sorted(world)
    assert not world or max(fewest, 1) <= len(world) <= fewest + more
    if not world:
        largest = min(len(joined), fewest + more) // unit * unit
        assert largest < max(fewest, 1)


def test_the_first_round_completes_at_once_when_all_have_joined(new_driver):
    driver = new_driver(replicas=2)
    driver.agent(0)
    assert driver.state.job.round.number == 0
    driver.agent(1)
    assert driver.state.job.round.number == 1
    members = driver.state.job.round.members
    assert [one.rank for one in members] == [0, 1]
    assert members[0].host == "host0"
    assert members[0].store_port == 4000


def test_enough_nodes_start_without_a_late_one_after_the_settle_time(new_driver):
    driver = new_driver(replicas=3, min_replicas=2, max_replicas=4)
    driver.agent(0)
    driver.tick(20)
    assert driver.state.job.round.number == 0, "one is fewer than two"
    driver.agent(2)
    driver.tick(driver.policy.first_settle - 1)
    assert driver.state.job.round.number == 0
    driver.tick(1.5)
    assert driver.state.job.round.ranks == (0, 2)


def test_a_newcomer_makes_all_yield_and_the_next_round_has_them_all(start):
    driver = start(replicas=2, min_replicas=1, max_replicas=4)
    driver.facts.worker.replicas = 3
    driver.tick()
    driver.agent(2)
    assert driver.told(0) == driver.told(1) == "YIELD"
    driver.obey()
    assert driver.state.job.round.number == 2
    assert driver.state.job.round.ranks == (0, 1, 2)
    assert driver.state.job.restarts == 0


def test_two_newcomers_cause_one_yield(start):
    driver = start(replicas=1, min_replicas=1, max_replicas=4)
    driver.facts.worker.replicas = 3
    driver.tick()
    driver.agent(1)
    driver.tick(1)
    assert driver.told(0) == "TRAIN", "the other one is on its way"
    driver.agent(2)
    assert driver.told(0) == "YIELD"
    driver.obey()
    assert driver.state.job.round.ranks == (0, 1, 2)


def test_a_member_that_missed_the_answer_gets_it_again(start):
    driver = start(replicas=2)
    agent = driver.agents[1]
    agent.round, agent.group = 0, GroupState.IDLE
    driver.join(1)
    assert agent.round == 1
    assert driver.state.job.round.number == 1
    assert driver.state.job.round.state is RoundState.ACTIVE


def test_the_store_is_never_looked_for_where_its_host_no_longer_is(start):
    driver = start(replicas=2)
    first = driver.agents[0]
    first.round = 0
    driver.calls += 1
    from convoy.master.decide.events import AgentJoined

    driver.post(AgentJoined(0, first.node_id, first.incarnation, "host0", 9999, 1, 0, driver.calls))
    assert driver.state.job.round.state is RoundState.ABORTED
    assert driver.told(1) == "ABORT"


def test_nodes_beyond_the_unit_wait_without_disturbing_those_who_train(new_driver):
    launcher = Launcher(min_nodes=2, max_nodes=4, node_unit=2)
    driver = new_driver(replicas=3, launcher=launcher)
    for rank in range(3):
        driver.agent(rank)
    driver.tick(0.25)
    driver.tick(12)
    assert driver.state.job.round.ranks == (0, 1)
    driver.run(0, 1)
    for _ in range(20):
        driver.tick(1)
    assert driver.told(0) == "TRAIN"
    assert driver.state.job.round.number == 1


def test_a_slow_member_is_waited_for_and_then_left_behind(start):
    driver = start(replicas=3, min_replicas=2, max_replicas=3)
    driver.fail(0)
    for rank in (0, 1):
        driver.join(rank)
    for _ in range(10):
        driver.tick(2.5)
    assert driver.state.job.round.number == 1
    for _ in range(3):
        driver.tick(2.5)
    assert driver.state.job.round.ranks == (0, 1)
    assert driver.told(2) == "ABORT", "it still trains in a round that is over"


def test_a_half_full_rendezvous_is_completed_by_the_next_master_with_the_same_members(new_driver):
    driver = new_driver(replicas=3)
    driver.agent(0)
    driver.agent(2)
    driver.crash_master()
    assert driver.state.job.round.number == 0
    driver.agent(1)
    assert driver.state.job.round.ranks == (0, 1, 2)
    assert len(driver.created) == 3


def test_without_its_state_file_a_master_believes_pods_and_agents(start):
    driver = start(replicas=2)
    from convoy.master.decide.state import JobState

    driver.state = type(driver.state)(driver.facts, JobState(epoch=7), driver.state.live.__class__(driver.now))
    from convoy.master.decide.events import PodsListed

    driver.post(PodsListed(tuple(driver.pods.values())))
    for rank in (0, 1):
        driver.register(rank)
    driver.run()
    job = driver.state.job
    assert (job.round.number, job.round.ranks, job.round.state) == (1, (0, 1), RoundState.ACTIVE)
    assert job.target == 2
    assert job.next_id == 2
    assert driver.created == ["job-edljob-worker-0", "job-edljob-worker-1"]
    for rank in (0, 1):
        driver.report(rank, GroupState.SUCCEEDED)
    assert driver.state.job.verdict.state == "Succeeded"
