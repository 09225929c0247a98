from __future__ import annotations

from dataclasses import replace

import pytest

from convoy.core.api.pod import PodPhase
from convoy.master.decide.actions import Explain, ReleaseShards
from convoy.master.decide.events import AgentReported, PodObserved, ProcessFailure
from convoy.master.decide.state import GroupState, NodeStatus, RoundState


def test_a_process_fault_is_counted_once_to_the_node_at_fault(start):
    driver = start(replicas=3)
    driver.fail(1, -9)
    driver.fail(0, peer_lost=True)
    driver.fail(2, peer_lost=True)
    for _ in range(3):
        driver.tick()
    assert [driver.state.job.nodes[rank].restarts for rank in range(3)] == [0, 1, 0]
    assert driver.state.job.restarts == 1
    assert driver.told(0) == driver.told(2) == "ABORT"
    driver.obey()
    assert driver.state.job.round.number == 2
    assert driver.state.job.relaunches == 0


def test_a_failure_without_a_mark_that_came_first_gives_the_blame_to_the_signal_behind_it(start):
    driver = start(replicas=2)
    driver.fail(0, 1)
    assert driver.state.job.nodes[0].restarts == 1
    driver.now += 1
    driver.fail(1, -9)
    assert [driver.state.job.nodes[rank].restarts for rank in (0, 1)] == [0, 1]
    assert driver.state.job.restarts == 1
    assert "BlameMoved" in driver.said()


def test_a_lost_node_is_replaced_with_its_rank_and_survivors_go_on_at_once(start):
    driver = start(replicas=2, min_replicas=1, max_replicas=4)
    driver.kill(1)
    assert driver.told(0) == "ABORT"
    driver.obey()
    job = driver.state.job
    assert job.round.ranks == (0,)
    assert job.nodes[1].id == 2
    assert job.relaunches == 1
    assert job.restarts == 0
    driver.run()
    driver.agent(1)
    assert driver.told(0) == "YIELD"
    driver.obey()
    assert driver.state.job.round.ranks == (0, 1)
    assert driver.state.job.round.members[1].node_id == 2
    assert ReleaseShards("job-edljob-worker-1") in driver.log


@pytest.mark.parametrize("policy", ["OnFailure", "Always", None])
def test_a_lost_node_is_relaunched_under_each_policy_but_never(start, policy):
    driver = start(replicas=2, restart_policy=policy, restart_count=1)
    driver.kill(1)
    assert driver.state.job.verdict is None
    assert (driver.state.job.nodes[1].id, driver.state.job.relaunches) == (2, 1)


def test_a_node_that_ended_well_before_its_workers_is_relaunched_under_on_failure_too(start):
    driver = start(replicas=2, restart_policy="OnFailure")
    ended = driver.pods["job-edljob-worker-1"]
    del driver.agents[1]
    driver.pods[ended.name] = replace(ended, phase=PodPhase.SUCCEEDED, exit_code=0)
    driver.post(PodObserved(driver.pods[ended.name]))
    driver.tick()
    assert (driver.state.job.nodes[1].id, driver.state.job.relaunches) == (2, 1)


def test_policy_never_ends_the_job_with_the_first_lost_node_whatever_restart_count_says(start):
    driver = start(replicas=2, restart_policy="Never", restart_count=3)
    driver.kill(1)
    assert driver.state.job.relaunches == 0
    verdict = driver.state.job.verdict
    assert (verdict.state, verdict.reason) == ("Failed", "RelaunchBudgetExhausted")
    assert "restartPolicy Never allows none" in verdict.message


def test_policy_never_restarts_processes_in_place(start):
    driver = start(replicas=2, restart_policy="Never")
    driver.fail(1, -9)
    driver.fail(0, peer_lost=True)
    driver.tick()
    driver.obey()
    assert driver.state.job.verdict is None
    assert driver.state.job.round.number == 2


def test_peers_that_break_because_a_node_died_are_not_counted(start):
    driver = start(replicas=2, min_replicas=1)
    driver.fail(0, 1)
    driver.kill(1)
    assert driver.state.job.restarts == 0
    assert driver.state.job.nodes[0].restarts == 0
    assert driver.state.job.nodes[1].relaunches == 1


def test_a_silent_agent_is_lost_and_its_pod_removed(start):
    driver = start(replicas=2, min_replicas=1)
    silent = driver.agents.pop(1)
    for _ in range(14):
        driver.tick(1)
    assert driver.state.job.nodes[1].id == 1
    for _ in range(3):
        driver.tick(1)
    assert driver.state.job.nodes[1].id == 2
    assert driver.pods["job-edljob-worker-1"].phase is PodPhase.FAILED
    before = driver.state.job
    driver.agents[1] = silent
    driver.report(1, GroupState.FAILED)
    driver.register(1)
    assert driver.state.job == before, "the fenced one changes nothing"


def test_a_master_that_was_held_up_doesnt_blame_the_agents(start):
    driver = start(replicas=2)
    driver.tick(60, heartbeats=False)
    driver.tick(1)
    assert all(node.status == "Live" for node in driver.state.job.nodes.values())


def test_an_exhausted_restart_budget_replaces_the_node(start):
    driver = start(replicas=2, max_restarts=1)
    for _ in range(2):
        driver.run()
        driver.fail(1, 1)
        driver.obey()
        driver.tick(20)
    job = driver.state.job
    assert job.nodes[1].id == 2
    assert job.nodes[1].relaunches == 1
    assert "RestartBudgetExhausted" in driver.said()
    assert driver.pods["job-edljob-worker-1"].phase.is_over


def test_the_job_fails_when_a_rank_was_relaunched_too_often(start):
    driver = start(replicas=1, restart_count=2)
    for _ in range(3):
        driver.kill(0)
        if 0 in driver.state.job.nodes and driver.state.job.verdict is None:
            driver.agent(0)
            driver.run()
    verdict = driver.state.job.verdict
    assert (verdict.state, verdict.reason) == ("Failed", "RelaunchBudgetExhausted")
    assert "restartCount allows 2" in verdict.message


def test_a_script_that_fails_at_once_is_slowed_down_and_then_given_up(new_driver):
    driver = new_driver(replicas=1, max_restarts=2)
    driver.agent(0)
    waits = []
    for _ in range(20):
        if driver.state.job.verdict is not None:
            break
        if 0 not in driver.agents:
            driver.agent(0)
        driver.report(0, GroupState.RUNNING)
        driver.now += 0.5
        driver.fail(0, 1)
        waits.append(max(0.0, driver.state.job.not_before - driver.now))
        if 0 in driver.agents:
            driver.obey()
        for _ in range(70):
            driver.tick()
    verdict = driver.state.job.verdict
    assert verdict.reason == "FailsAtOnce"
    assert "last words" in verdict.message
    assert "the last 6 rounds ended within 30 s each (no step was reported: judged by time" in verdict.message
    assert waits[:4] == [0.5, 1, 2, 4]
    assert driver.state.job.relaunches == 1


@pytest.mark.parametrize(("seconds", "delay"), [(29.0, 0.5), (30.0, 0.0)])
def test_a_script_that_reports_no_steps_is_judged_by_the_time_that_its_rounds_ran(new_driver, seconds, delay):
    driver = new_driver(replicas=1, max_restarts=3)
    driver.agent(0)
    driver.report(0, GroupState.RUNNING)
    driver.now += seconds
    driver.fail(0, 1)
    assert max(0.0, driver.state.job.not_before - driver.now) == delay
    told = [one.message for one in driver.log if isinstance(one, Explain) and one.reason == "BackOff"]
    judged = "(no step was reported: judged by time, 30 s count as progress)"
    assert told == ([f"the round ended after 29.0 s; the next round waits 0.5 s {judged}"] if delay else [])


def test_a_script_that_reports_steps_is_judged_by_them(start):
    driver = start(replicas=1)
    driver.run(steps=5)
    driver.fail(0, -9)
    driver.obey()
    driver.report(0, GroupState.RUNNING)
    driver.now += 35
    driver.fail(0, -9)
    [told] = [one.message for one in driver.log if isinstance(one, Explain) and one.reason == "BackOff"]
    assert told == "no new step was finished; the next round waits 0.5 s"


def test_one_of_something_is_told_in_the_singular(start):
    driver = start(replicas=1, max_restarts=0)
    driver.fail(0, 1)
    driver.tick()
    messages = " | ".join(one.message for one in driver.log if isinstance(one, Explain))
    assert "round 1 has 1 node, 1 process" in messages
    assert "failed 1 time, its launcher allows 0 restarts: it is replaced" in messages
    assert "the node of rank 0 was lost" in messages
    assert " 1 nodes" not in messages


def test_steps_between_faults_reset_the_back_off(start):
    driver = start(replicas=1)
    for _ in range(3):
        driver.run(steps=5)
        driver.fail(0, -9)
        driver.obey()
        assert driver.state.job.round.state is RoundState.ACTIVE, "no delay"


def test_rounds_that_are_lost_by_nobodys_fault_have_a_limit(new_driver):
    driver = new_driver(replicas=2, max_restarts=1)
    for rank in range(2):
        driver.agent(rank)
    for _ in range(10):
        if driver.state.job.verdict is not None:
            break
        for rank in range(2):
            driver.report(rank, GroupState.RUNNING)
        for rank in range(2):
            driver.fail(rank, peer_lost=True)
        driver.obey()
        for _ in range(80):
            driver.tick()
    assert driver.state.job.verdict.reason == "RoundsLostWithoutProgress"
    assert driver.state.job.restarts == 0


@pytest.mark.parametrize("exit_code", [2, 126, 127])
def test_a_command_that_cant_start_is_not_tried_again(new_driver, exit_code):
    driver = new_driver(replicas=1)
    name = "job-edljob-worker-0"
    driver.pods[name] = replace(driver.pods[name], phase=PodPhase.FAILED, exit_code=exit_code, message="no such file")
    driver.post(PodObserved(driver.pods[name]))
    assert driver.state.job.verdict.reason == "LauncherRefused"
    assert "no such file" in driver.state.job.verdict.message


def test_one_node_on_which_the_command_cant_start_does_not_end_a_job_that_trains(start):
    driver = start(replicas=2)
    driver.kill(1)
    replacement = driver.created[-1]
    driver.pods[replacement] = replace(driver.pods[replacement], phase=PodPhase.FAILED, exit_code=2)
    driver.post(PodObserved(driver.pods[replacement]))
    assert driver.state.job.verdict is None
    assert driver.created[-1] != replacement
    assert driver.state.job.nodes[1].relaunches == 2


@pytest.mark.parametrize(("reason", "returns"), [("PodFailed", False), ("HeartbeatMissed", True)])
def test_a_report_that_was_on_its_way_brings_only_a_silent_node_back(start, reason, returns):
    driver = start(replicas=2)
    lost = replace(driver.state.job.nodes[1], status=NodeStatus.LOST, lost_reason=reason)
    nodes = {**driver.state.job.nodes, 1: lost}
    driver.state = replace(driver.state, job=replace(driver.state.job, nodes=nodes))
    driver.report(1, GroupState.RUNNING)
    assert ("NodeReturned" in driver.said()) is returns


def test_a_message_of_an_older_incarnation_changes_nothing(start):
    driver = start(replicas=2)
    old = driver.agents[1].incarnation
    driver.agent(1, incarnation=old + 1)
    before = driver.state
    failure = ProcessFailure(0, -9, False, "")
    driver.post(AgentReported(1, 1, old, 1, GroupState.FAILED, 9, failure))
    assert driver.state == before


def test_the_job_succeeds_when_all_members_have(start):
    driver = start(replicas=2)
    driver.report(0, GroupState.SUCCEEDED)
    driver.tick()
    assert driver.state.job.verdict is None
    driver.report(1, GroupState.SUCCEEDED)
    assert driver.state.job.verdict.state == "Succeeded"
    assert driver.told(0) == driver.told(1) == "STOP"
    assert driver.agents[0].direction.exit_code == 0


def test_a_newcomer_at_the_very_end_doesnt_disturb_it(start):
    driver = start(replicas=1, max_replicas=2)
    driver.facts.worker.replicas = 2
    driver.tick()
    driver.report(0, GroupState.SUCCEEDED)
    driver.agent(1)
    assert driver.state.job.verdict.state == "Succeeded"
    assert driver.told(1) == "STOP"


def test_the_masters_fault_touches_nobody(start):
    driver = start(replicas=3, min_replicas=1)
    before = driver.state.job
    driver.crash_master()
    driver.run()
    for _ in range(40):
        driver.tick(1)
    after = driver.state.job
    assert after.round == before.round
    assert (after.restarts, after.relaunches) == (0, 0)
    assert all(driver.told(rank) == "TRAIN" for rank in range(3))


def test_agents_that_dont_come_back_to_a_new_master_are_replaced(start):
    driver = start(replicas=2, min_replicas=1)
    gone = driver.agents.pop(1)
    driver.crash_master()
    for _ in range(32):
        driver.tick(1)
    assert driver.state.job.nodes[1].id == gone.node_id + 1
    assert driver.state.job.nodes[0].id == 0
