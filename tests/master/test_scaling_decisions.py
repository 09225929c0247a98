from __future__ import annotations

from dataclasses import replace

import pytest

from convoy.core.api.job import OptimizeMode
from convoy.core.api.plan import PlanPhase
from convoy.master.decide.actions import (
    AnswerManualPlan,
    AskBrain,
    Explain,
    Order,
    RecordPlan,
    SetDirective,
    WriteScalePlan,
)
from convoy.master.decide.core import resume
from convoy.master.decide.events import BrainAnswered, BrainSilent, ManualPlanObserved, PlanObserved
from convoy.master.decide.state import Advice, Cause, Facts, GroupState, dump, load

CLUSTER = {"mode": OptimizeMode.CLUSTER, "brain": True, "min_replicas": 1, "max_replicas": 4}


def advice(workers, decision="CHANGE", predicted=180.0, lower=150.0, upper=210.0, **more):
    cause = Cause("FasterPays", "more is faster", f"r{workers}", predicted, lower, upper)
    return Advice(decision, workers, cause, **more)


def questions(driver):
    return [action for action in driver.log if isinstance(action, AskBrain)]


def grow(driver, *ranks):
    for rank in ranks:
        driver.agent(rank)
    driver.obey()
    driver.run()


def test_an_absent_size_is_the_brains_to_decide(new_driver):
    driver = new_driver(**CLUSTER)
    assert [one.stage for one in questions(driver)] == ["START"]
    driver.post(BrainAnswered(advice(3)))
    assert driver.state.job.target == 3
    assert len(driver.created) == 3


def test_a_size_that_the_user_wrote_is_kept_at_the_start(new_driver):
    driver = new_driver(replicas=2, **CLUSTER)
    assert not questions(driver)
    assert driver.state.job.target == 2


@pytest.mark.parametrize("how", ["silent", "error"])
def test_without_an_answer_the_job_starts_anyway(new_driver, how):
    driver = new_driver(**CLUSTER)
    if how == "error":
        driver.post(BrainSilent("START", "connection refused"))
    else:
        driver.tick(6)
    assert driver.state.job.target == 1


def test_the_brain_is_asked_once_there_is_enough_to_go_by_and_its_change_is_carried_out(start):
    driver = start(replicas=1, **CLUSTER)
    driver.windows(100, 1, warming=True)
    driver.windows(100, 2)
    assert not questions(driver)
    driver.windows(100, 1)
    asked = questions(driver)
    assert [(one.stage, one.workers, one.global_batch) for one in asked] == [("RUNNING", 1, 64)]
    driver.post(BrainAnswered(advice(2)))
    plan = next(action.plan for action in reversed(driver.log) if isinstance(action, WriteScalePlan))
    assert (plan.replicas, [order.rank for order in plan.create]) == (2, [1])
    assert (plan.cause.recommendation, plan.cause.predicted) == ("r2", 180.0)
    grow(driver, 1)
    trial = driver.state.job.trial
    assert trial.carried_out
    assert trial.plan == plan.name
    driver.windows(170, 1, warming=True)
    driver.windows(175, 5)
    records = [action.trial for action in driver.log if isinstance(action, RecordPlan)]
    assert records[-1].samples / records[-1].seconds == pytest.approx(175)
    assert records[-1].windows == 5
    assert driver.state.job.trial is None
    assert driver.state.job.target == 2


def test_after_a_change_the_brain_is_asked_at_a_slower_pace(start):
    driver = start(replicas=1, **CLUSTER)
    driver.windows(100, 3)
    driver.post(BrainAnswered(advice(2)))
    grow(driver, 1)
    driver.windows(175, 4)
    count = len(questions(driver))
    driver.windows(175, 10)
    driver.post(BrainAnswered(advice(2, "KEEP")))
    asked_again = len(questions(driver))
    assert asked_again == count + 1
    driver.windows(175, 5)
    assert len(questions(driver)) == asked_again, "KEEP is worth fifteen seconds"
    driver.windows(175, 5)
    assert len(questions(driver)) == asked_again + 1


def test_a_change_that_made_things_worse_is_rolled_back_and_remembered(start):
    driver = start(replicas=1, **CLUSTER)
    driver.windows(100, 3)
    driver.post(BrainAnswered(advice(2)))
    grow(driver, 1)
    driver.windows(80, 1, warming=True)
    driver.windows(80, 1)
    assert driver.state.job.target == 2, "one window proves nothing"
    driver.windows(80, 1)
    assert driver.state.job.target == 1
    assert driver.state.job.rejected.keys() == {2}
    assert any(action.rolled_back for action in driver.log if isinstance(action, RecordPlan))
    assert driver.told(0) == driver.told(1) == "YIELD"
    driver.obey()
    driver.obey()
    driver.run()
    assert driver.state.job.round.ranks == (0,)
    assert driver.pods["job-edljob-worker-1"].phase.is_over
    driver.windows(100, 10)
    driver.post(BrainAnswered(advice(2)))
    assert driver.state.job.target == 1
    assert "RolledBackBefore" in driver.said()


def test_a_speed_inside_the_prediction_is_no_reason_to_roll_back(start):
    driver = start(replicas=1, **CLUSTER)
    driver.windows(100, 3)
    driver.post(BrainAnswered(advice(2, predicted=90.0, lower=70.0)))
    grow(driver, 1)
    driver.windows(80, 5)
    assert driver.state.job.target == 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"pinned": True}, "Pinned"),
        ({"workers": 5}, "OutOfRange"),
        ({"capacity": 1}, "OutOfRange"),
    ],
)
def test_what_must_not_be_carried_out_is_said_and_left(start, change, reason):
    driver = start(replicas=1, pinned=change.get("pinned", False), **CLUSTER)
    driver.windows(100, 3)
    driver.post(BrainAnswered(advice(change.get("workers", 2)), capacity=change.get("capacity", 0)))
    assert driver.state.job.target == 1
    assert reason in driver.said()


def test_how_often_a_size_changes_is_the_brains_to_say(start):
    driver = start(replicas=1, **CLUSTER)
    began, before = driver.now, 1
    for size in (2, 1) * 4:
        driver.windows(100, 6)
        driver.post(BrainAnswered(advice(size)))
        assert driver.state.job.target == size
        if size > before:
            grow(driver, 1)
        else:
            driver.obey()
            driver.obey()
            driver.run()
            driver.tick()
        before = size
    assert driver.now - began < 3600


def test_nothing_is_planned_while_a_node_is_missing(start):
    driver = start(replicas=2, **CLUSTER)
    driver.windows(100, 3)
    driver.kill(1)
    driver.post(BrainAnswered(advice(3)))
    assert driver.state.job.target == 2
    assert "NotNow" in driver.said()


def test_a_job_that_isnt_sized_by_the_brain_never_asks(start):
    driver = start(replicas=1, max_replicas=4, mode=OptimizeMode.MANUAL, brain=True)
    driver.windows(100, 10)
    assert not questions(driver)


def test_a_script_that_reports_nothing_is_told_once_that_it_cant_be_sized(new_driver):
    driver = new_driver(replicas=1, max_replicas=4, mode=OptimizeMode.CLUSTER, brain=True)
    driver.agent(0)
    driver.report(0, GroupState.RUNNING)
    for _ in range(29):
        driver.tick(1)
    assert "NothingMeasured" not in driver.said()
    for _ in range(40):
        driver.tick(1)
    driver.crash_master()
    for _ in range(40):
        driver.tick(1)
    [told] = [one.message for one in driver.log if isinstance(one, Explain) and one.reason == "NothingMeasured"]
    assert told.startswith("the script reports no steps")
    assert told.endswith("use convoy.trainer (examples/digits.py)")


@pytest.mark.parametrize("brain", [True, False])
def test_a_job_that_is_measured_or_not_sized_by_the_brain_isnt_told_so(new_driver, brain):
    driver = new_driver(replicas=1, max_replicas=4, mode=OptimizeMode.CLUSTER, brain=brain)
    for _ in range(30):
        driver.tick(1)
    driver.agent(0)
    driver.report(0, GroupState.RUNNING)
    if brain:
        driver.run(steps=1)
    for _ in range(60):
        driver.tick(1)
    assert "NothingMeasured" not in driver.said()


def test_a_persons_plan_becomes_an_exact_one_and_the_highest_ranks_leave(start):
    driver = start(replicas=3, min_replicas=1, max_replicas=4)
    driver.windows(100, 3)
    driver.post(ManualPlanObserved("mine", "uid-1", 1))
    answer = next(action for action in driver.log if isinstance(action, AnswerManualPlan))
    assert (answer.accepted, answer.reason) == (True, "MadeExact")
    assert all(driver.told(rank) == "YIELD" for rank in range(3))
    assert not any(pod.phase.is_over for pod in driver.pods.values()), "nobody is removed before it has left"
    driver.obey()
    assert set(driver.agents) == {0, 1, 2} or set(driver.agents) == {0}
    driver.obey()
    driver.run()
    driver.tick()
    plan = [action.plan for action in driver.log if isinstance(action, WriteScalePlan)][-1]
    assert sorted(order.rank for order in plan.remove) == [1, 2]
    assert plan.name == driver.state.job.trial.plan
    assert driver.state.job.round.ranks == (0,)
    assert driver.state.job.verdict is None
    driver.windows(10, 6)
    assert driver.state.job.target == 1, "a person's will isn't rolled back"
    driver.post(ManualPlanObserved("mine", "uid-1", 4))
    assert driver.state.job.target == 1, "answered once"


def test_an_accepted_recommendation_is_watched_and_taken_back_where_it_made_things_worse(start):
    driver = start(replicas=1, min_replicas=1, max_replicas=4)
    driver.windows(100, 3)
    accepted = Cause("MoreSpeed", "twice as fast", "advice-1", predicted=200.0, lower=180.0, upper=220.0)
    driver.post(ManualPlanObserved("job-advice-1", "uid-1", 2, advice=accepted))
    answer = next(action for action in driver.log if isinstance(action, AnswerManualPlan))
    assert (answer.accepted, answer.reason) == (True, "MadeExact")
    assert driver.state.job.trial.cause == accepted
    grow(driver, 1)
    driver.windows(50, 1, warming=True)
    driver.windows(50, 2)
    assert driver.state.job.target == 1
    [rolled_back] = [one.trial for one in driver.log if isinstance(one, RecordPlan) and one.rolled_back]
    assert rolled_back.cause.recommendation == "advice-1"
    driver.obey()
    driver.obey()
    driver.run()
    driver.post(ManualPlanObserved("job-advice-2", "uid-2", 2, advice=accepted))
    answer = [action for action in driver.log if isinstance(action, AnswerManualPlan)][-1]
    assert (answer.accepted, "taken back" in answer.message) == (False, True)
    driver.post(ManualPlanObserved("mine", "uid-3", 2))
    assert driver.state.job.target == 2, "a person's will is done"


@pytest.mark.parametrize("replicas", [0, 1, 5])
def test_a_plan_that_cant_be_is_refused_with_its_field(start, replicas):
    driver = start(replicas=2, min_replicas=2, max_replicas=4)
    driver.post(ManualPlanObserved("mine", "uid-1", replicas))
    answer = next(action for action in driver.log if isinstance(action, AnswerManualPlan))
    assert not answer.accepted
    assert "replicas" in answer.message


def test_what_the_jobs_own_limits_allow_bounds_everyone(start):
    driver = start(replicas=1, most_allowed=3, **CLUSTER)
    driver.windows(100, 3)
    driver.post(BrainAnswered(advice(4)))
    assert driver.state.job.target == 1
    assert "OutOfRange" in driver.said()
    driver.post(ManualPlanObserved("mine", "uid-1", 4))
    answer = next(action for action in driver.log if isinstance(action, AnswerManualPlan))
    assert not answer.accepted
    assert "spec.resourceLimits" in answer.message
    driver.post(ManualPlanObserved("mine", "uid-2", 3))
    assert driver.state.job.target == 3


def test_a_change_of_the_spec_is_followed_as_far_as_the_jobs_limits_allow(start):
    from convoy.master.decide.events import JobObserved

    driver = start(replicas=1, max_replicas=4, most_allowed=2)
    spec = driver.facts.worker.model_copy(update={"replicas": 4})
    driver.post(JobObserved(replace(driver.facts, worker=spec)))
    driver.tick()
    assert driver.state.job.target == 2
    assert driver.state.job.cause.message.endswith("of which spec.resourceLimits allow 2")


def test_a_change_whose_plan_fails_is_taken_back(start):
    driver = start(replicas=1, **CLUSTER)
    driver.windows(100, 3)
    driver.carry_out = lambda action: None
    driver.post(BrainAnswered(advice(2)))
    plan = driver.state.job.plan
    driver.post(PlanObserved(plan.name, PlanPhase.FAILED, "Forbidden", "quota"))
    assert driver.state.job.target == 1
    assert set(driver.state.job.nodes) == {0}
    assert 2 in driver.state.job.rejected


def test_a_replacement_whose_plan_fails_is_tried_again(start):
    driver = start(replicas=2, min_replicas=1)
    carry_out, driver.carry_out = driver.carry_out, lambda action: None
    driver.kill(1)
    plan = driver.state.job.plan
    driver.post(PlanObserved(plan.name, PlanPhase.FAILED, "Forbidden", "quota"))
    driver.carry_out = carry_out
    driver.tick(0.25)
    assert driver.state.job.nodes.keys() == {0}
    driver.tick(1)
    assert driver.state.job.nodes[1].id == 3


def test_a_pending_plan_is_written_again_by_the_next_master(start):
    driver = start(replicas=2, min_replicas=1)
    carry_out, driver.carry_out = driver.carry_out, lambda action: None
    driver.kill(1)
    name = driver.state.job.plan.name
    driver.carry_out = carry_out
    driver.crash_master()
    assert driver.state.job.plan is None
    assert driver.created[-1] == "job-edljob-worker-2"
    assert name == "job-scaleplan-2"


def test_a_change_of_the_spec_is_followed(start):
    driver = start(replicas=1, max_replicas=4)
    spec = driver.facts.worker.model_copy(update={"replicas": 2})
    from convoy.master.decide.events import JobObserved

    driver.post(JobObserved(Facts("job", "default", "uid", spec)))
    assert driver.state.job.target == 2
    assert driver.state.job.cause.reason == "ReplicasChanged"


def test_how_many_processes_load_data_is_told_to_each_node_without_a_restart(start):
    driver = start(replicas=2, **CLUSTER)

    def changes():
        return len([one for one in driver.log if isinstance(one, Explain) and one.reason == "LoadersChanged"])

    driver.post(BrainAnswered(advice(2, "KEEP", loaders=4, loaders_message="steps wait")))
    told = {action.rank: action.direction for action in driver.log if isinstance(action, SetDirective)}
    assert [(told[rank].order, told[rank].loaders) for rank in (0, 1)] == [(Order.TRAIN, 4)] * 2
    assert changes() == 1
    driver.post(BrainAnswered(advice(2, "KEEP")))
    driver.post(BrainAnswered(advice(2, "KEEP", loaders=4)))
    assert changes() == 1
    assert load(dump(driver.state.job)).loaders == 4
    again = resume(driver.state, driver.now, driver.policy)
    assert {action.direction.loaders for action in again if isinstance(action, SetDirective)} == {4}
    assert driver.state.job.round.number == 1
