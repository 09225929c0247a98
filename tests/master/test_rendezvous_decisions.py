from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from convoy.core.api.job import Range
from convoy.core.api.pod import PodPhase
from convoy.master.decide.events import PodGone, PodObserved
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


def silent(driver, rank):
    """The rank's agent falls silent while its pod runs on; the others go on, and its replacement is there."""
    lost = driver.agents.pop(rank)
    name = f"job-edljob-worker-{lost.node_id}"
    driver.end_pod = lambda name: None  # the operator asks for its end, which takes its time
    for _ in range(10):
        driver.tick(3)
        driver.obey()
    node = driver.state.job.nodes[rank]
    assert node.id > lost.node_id
    assert driver.state.live.pods[name].alive
    return name


def test_a_rank_is_given_away_only_when_the_pod_that_was_lost_has_ended(start):
    driver = start(replicas=2)
    name = silent(driver, 1)
    driver.agent(1)
    for _ in range(10):
        driver.tick(3)
    assert driver.state.job.round.number == 1, "the old worker may still train, and save"
    driver.pods[name] = replace(driver.pods[name], deleting=True)
    driver.post(PodObserved(driver.pods[name]))
    driver.tick(1)
    assert driver.state.job.round.number == 1, "its end was asked for, and isn't known"
    driver.post(PodGone(driver.pods.pop(name)))
    assert driver.state.job.round.number == 2
    assert driver.state.job.round.ranks == (0, 1)


def test_the_others_train_on_until_a_lost_pod_has_ended_and_yield_to_its_replacement_then(start):
    driver = start(replicas=2, min_replicas=1)
    name = silent(driver, 1)
    assert driver.state.job.round.ranks == (0,)
    driver.run(0)
    driver.agent(1)
    for _ in range(10):
        driver.tick(3)
    assert driver.told(0) == "TRAIN"
    driver.pods[name] = replace(driver.pods[name], phase=PodPhase.FAILED, exit_code=137)
    driver.post(PodObserved(driver.pods[name]))
    assert driver.told(0) == "YIELD"
    driver.obey()
    assert driver.state.job.round.ranks == (0, 1)


def test_an_earlier_pod_that_nobody_asked_to_end_is_removed(start):
    driver = start(replicas=2)
    stray = driver.pods["job-edljob-worker-1"]
    newer = replace(stray, name="job-edljob-worker-9", uid="uid-9", id=9)
    driver.pods[newer.name] = newer
    driver.post(PodObserved(newer))  # made by hand
    driver.agents[1] = replace(driver.agents[1], node_id=9, incarnation=99_000, round=0, group=GroupState.IDLE)
    driver.register(1)
    driver.join(1)
    driver.obey()
    assert driver.state.job.round.number == 1
    plans = len(driver.created)
    for _ in range(8):
        driver.tick(1)
        driver.obey()
    assert driver.pods[stray.name].phase.is_over
    assert len(driver.created) == plans
    assert driver.state.job.round.ranks == (0, 1)
    assert driver.state.job.round.member(1).node_id == 9
