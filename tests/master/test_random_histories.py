"""Whatever happens in whatever order, what must never be isn't, and a job that can go on does."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from convoy.core.api.job import OptimizeMode
from convoy.core.api.pod import PodPhase
from convoy.master.decide.core import decide
from convoy.master.decide.events import (
    AgentJoined,
    AgentRegistered,
    AgentReported,
    BrainAnswered,
    ManualPlanObserved,
    PodGone,
    PodObserved,
    ProcessFailure,
    Tick,
)
from convoy.master.decide.policy import Policy
from convoy.master.decide.state import Advice, Cause, GroupState, Launcher, NodeStatus, RoundState, dump, load

_OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "start",
                "run",
                "obey",
                "tick",
                "process fault",
                "node fault",
                "resize",
                "brain",
                "operator away",
                "operator back",
                "master fault",
                "deaf master",
            ]
        ),
        st.integers(0, 5),
    ),
    max_size=30,
)


class Holds:
    """What must hold after each event, asked of the state before and after."""

    def __init__(self, driver):
        self.driver = driver
        self.faults = 0

    def __call__(self, event, before):
        job, was = self.driver.state.job, before.job
        round_ = job.round
        assert job.epoch >= was.epoch
        assert round_.number >= was.round.number
        assert len(set(round_.ranks)) == len(round_.ranks)
        assert job.next_id > max((node.id for node in job.nodes.values()), default=-1)
        assert len({node.id for node in job.nodes.values()}) == len(job.nodes)
        assert load(dump(job)) == job
        if round_.number > was.round.number:
            fewest, most = self.driver.state.range()
            assert round_.members
            assert round_.adopted or fewest <= len(round_.members) <= most
            for member in round_.members:
                node = job.nodes[member.rank]
                assert (member.node_id, member.incarnation) == (node.id, node.incarnation)
                assert node.status is NodeStatus.LIVE or round_.adopted


def apply(driver, operation, number, *, faults):
    """Do it, where it can be done; return whether the master's own faults are among what was done."""
    agents = sorted(driver.agents)
    pick = agents[number % len(agents)] if agents else None
    match operation:
        case "start":
            start_one(driver, number)
        case "run":
            driver.run()
        case "obey":
            driver.obey()
        case "tick":
            driver.tick(0.25 + number)
        case "process fault" if pick is not None:
            agent = driver.agents[pick]
            round_ = driver.state.job.round
            if round_.state is RoundState.ACTIVE and agent.round == round_.number and not agent.waiting:
                driver.run()
                driver.fail(pick, -9)
                faults.append(pick)
        case "node fault" if pick is not None:
            driver.kill(pick)
        case "resize":
            driver.post(ManualPlanObserved(f"plan{number}", f"uid{number}-{len(driver.log)}", 1 + number % 4))
        case "brain":
            advice = Advice("CHANGE", 1 + number % 4, Cause("FasterPays", "", "r", 100.0, 90.0, 110.0))
            driver.post(BrainAnswered(advice))
        case "operator away":
            driver.away = True
        case "operator back":
            operator_back(driver)


def start_one(driver, number):
    waiting = [
        node.rank
        for node in driver.state.job.nodes.values()
        if node.status is NodeStatus.EXPECTED
        and node.rank not in driver.agents
        and (pod := driver.pods.get(node.pod("job")))
        and pod.phase is PodPhase.RUNNING
    ]
    if waiting:
        driver.agent(sorted(waiting)[number % len(waiting)])


def operator_back(driver):
    driver.away = False
    for action in driver.undone:
        driver.really_carry_out(action)
    driver.undone = []


def make(new_driver):
    driver = new_driver(
        replicas=2,
        min_replicas=1,
        max_replicas=4,
        mode=OptimizeMode.CLUSTER,
        brain=True,
        restart_count=1000,
        max_restarts=1000,
        policy=Policy(arrival_deadline=1e9),
    )
    driver.away, driver.undone, driver.really_carry_out = False, [], driver.carry_out
    driver.carry_out = lambda action: driver.undone.append(action) if driver.away else driver.really_carry_out(action)
    return driver


def settle(driver):
    """Nothing more happens to it: everybody does what is asked of him."""
    operator_back(driver)
    for _ in range(30):
        for number in range(4):
            start_one(driver, number)
        driver.obey()
        driver.run()
        driver.tick(1.0)


def summary(driver):
    job = driver.state.job
    return {
        "target": job.target,
        "ranks": job.round.ranks,
        "nodes": sorted(job.nodes),
        "restarts": job.restarts,
        "relaunches": job.relaunches,
        "plan": job.plan,
        "verdict": job.verdict,
    }


@settings(max_examples=60, deadline=None)
@given(operations=_OPERATIONS)
def test_a_job_goes_on_at_its_target_size_after_anything(new_driver, operations):
    driver = make(new_driver)
    driver.check = Holds(driver)
    faults = []
    for operation, number in operations:
        if operation == "master fault":
            driver.crash_master()
        elif operation == "deaf master":
            driver.deaf = True
            apply(driver, operations[number % len(operations)][0], number, faults=faults)
            driver.deaf = False
            driver.crash_master()
        else:
            apply(driver, operation, number, faults=faults)
    settle(driver)
    job = driver.state.job
    assert job.verdict is None
    assert job.plan is None
    assert job.round.state is RoundState.ACTIVE
    assert job.round.ranks == tuple(range(job.target)) == tuple(sorted(job.nodes))
    assert job.restarts == len(faults), "each process fault is counted once, and nothing else is"
    assert len(set(driver.created)) == len(driver.created), "no pod's name is used twice"
    alive = [pod for pod in driver.pods.values() if not pod.phase.is_over]
    assert sorted(pod.rank for pod in alive) == sorted(job.nodes), "no pod without a rank, none twice"


@settings(max_examples=30, deadline=None)
@given(operations=_OPERATIONS, points=st.sets(st.integers(0, 29), max_size=4))
def test_masters_that_die_in_between_change_nothing_of_what_becomes_of_the_job(new_driver, operations, points):
    outcomes = []
    for crashes in (set(), points):
        driver = make(new_driver)
        faults = []
        for index, (operation, number) in enumerate(operations):
            if index in crashes:
                driver.crash_master()
            if operation in ("start", "obey", "node fault", "resize", "run"):
                settle_a_little = operation in ("node fault", "resize")
                apply(driver, operation, number, faults=faults)
                if settle_a_little:
                    settle(driver)
        settle(driver)
        outcomes.append(summary(driver))
    assert outcomes[0] == outcomes[1]


_RANK, _ID, _INC, _ROUND = st.integers(0, 3), st.integers(0, 5), st.integers(1, 4), st.integers(0, 4)
_NOISE = st.one_of(
    st.builds(
        AgentRegistered, _RANK, _ID, _INC, st.just("h"), st.integers(0, 2), st.integers(0, 2),
        st.builds(Launcher, st.integers(0, 2), st.integers(2, 4), st.integers(1, 2)), _ROUND, st.integers(-1, 9),
    ),
    st.builds(AgentJoined, _RANK, _ID, _INC, st.just("h"), st.integers(1, 2), st.just(1), _ROUND, st.integers(1, 99)),
    st.builds(
        AgentReported, _RANK, _ID, _INC, _ROUND, st.sampled_from(GroupState), st.integers(-1, 20),
        st.none() | st.builds(ProcessFailure, st.just(0), st.sampled_from([-9, 1]), st.booleans(), st.just("")),
    ),
    st.just(Tick()),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(noise=st.lists(st.tuples(_NOISE, st.floats(0, 20)), max_size=40), data=st.data())
def test_no_order_of_messages_breaks_what_must_hold(new_driver, noise, data):
    driver = make(new_driver)
    driver.check = Holds(driver)
    for event, pause in noise:
        driver.now += pause
        driver.post(event)
        name = data.draw(st.sampled_from([*sorted(driver.pods), ""]))
        if name:
            pod = replace(driver.pods[name], phase=data.draw(st.sampled_from(PodPhase)), exit_code=1)
            driver.post(data.draw(st.sampled_from([PodObserved(pod), PodGone(pod)])))


@settings(max_examples=100, deadline=None)
@given(
    noise=st.lists(_NOISE, max_size=15),
    stale=_NOISE.filter(lambda event: not isinstance(event, Tick)),
    older=st.integers(1, 3),
)
def test_a_message_of_an_older_incarnation_changes_nothing(new_driver, noise, stale, older):
    driver = make(new_driver)
    for event in noise:
        driver.post(event)
    node = driver.state.job.nodes.get(stale.rank)
    if node is None or not node.incarnation:
        return
    stale = replace(stale, node_id=node.id, incarnation=max(0, node.incarnation - older))
    decided = decide(driver.state, stale, driver.now, driver.policy)
    assert decided.state.job == driver.state.job
    assert decided.state.live.pulses == driver.state.live.pulses
