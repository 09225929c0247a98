"""What an agent decides, whatever comes in whatever order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from convoy.agent.decide import (
    Action,
    AskToYield,
    Directed,
    Event,
    Exit,
    GaveUp,
    GroupEnded,
    GroupStopped,
    Join,
    Joined,
    Order,
    Phase,
    SetLoaders,
    Signalled,
    Start,
    Started,
    State,
    StopGroup,
    Tell,
    decide,
)
from convoy.agent.outcome import Account, End, Outcome, judge
from convoy.agent.world import Member, World

FAULT = Outcome(End.FAILED, 0, -9)
PEER_LOST = Outcome(End.FAILED, 0, 75, True, "connection closed")


def world(number: int) -> World:
    return World(number, (Member(0, 1, 0, "127.0.0.1", 1234),), 0)


def run(*events: Event, state: State | None = None) -> tuple[State, list[Action]]:
    state, told = state or State(), []
    for event in events:
        state, actions = decide(state, event)
        told += actions
    return state, told


RUNNING, _ = run(Started(), Joined(world(3)))


def test_it_joins_and_starts_what_it_was_given() -> None:
    state, actions = run(Started(), Joined(world(3)))
    assert (state.phase, state.round) == (Phase.RUNNING, 3)
    assert actions == [Join(0), Start(world(3), 0)]


def test_how_many_processes_load_data_is_told_once_and_whatever_the_round() -> None:
    told = Directed(1, 5, Order.TRAIN, 2, loaders=4)
    state, actions = run(
        told, Directed(1, 6, Order.YIELD, 3, loaders=4), Directed(1, 7, Order.TRAIN, 3), state=RUNNING
    )
    assert actions == [SetLoaders(4), AskToYield(3)]
    assert state.loaders == 4
    assert run(Directed(1, 4, Order.TRAIN, 3, loaders=1), state=state)[1] == []  # a stale one


def test_a_yield_asks_the_workers_and_joins_when_they_left() -> None:
    state, actions = run(Directed(1, 5, Order.YIELD, 3), GroupEnded(3, Outcome(End.YIELDED)), state=RUNNING)
    assert actions == [AskToYield(3), Join(3)]
    assert (state.phase, state.restarts) == (Phase.JOINING, 0)


def test_a_fault_is_counted_and_a_lost_peer_isnt() -> None:
    assert run(GroupEnded(3, FAULT), state=RUNNING)[0].restarts == 1
    state, actions = run(GroupEnded(3, PEER_LOST), state=RUNNING)
    assert (state.restarts, actions) == (0, [Join(3)])


def test_a_fault_that_an_abort_overtakes_is_counted_all_the_same() -> None:
    state, actions = run(Directed(1, 5, Order.ABORT, 3), GroupStopped(3, FAULT), state=RUNNING)
    assert actions == [StopGroup(), Join(3)]
    assert (state.restarts, state.outcome) == (1, FAULT)


def test_directives_of_an_older_master_or_for_another_round_change_nothing() -> None:
    state, _ = run(Directed(2, 1, Order.TRAIN, 3), state=RUNNING)
    for stale in (Directed(1, 99, Order.STOP, 3), Directed(2, 1, Order.STOP, 3), Directed(2, 2, Order.ABORT, 2)):
        assert run(stale, state=state)[1] == []
    assert run(Directed(3, 1, Order.ABORT, 3), state=state)[1] == [StopGroup()]


def test_success_waits_for_the_master_and_is_taken_back_by_an_abort() -> None:
    state, actions = run(GroupEnded(3, Outcome(End.SUCCEEDED)), state=RUNNING)
    assert (state.phase, actions) == (Phase.WAITING, [Tell()])
    assert run(Directed(1, 1, Order.STOP, 3), state=state)[1] == [Exit(0)]
    assert run(Directed(1, 1, Order.ABORT, 3), state=state)[1] == [Join(3)]


def test_a_stop_after_its_own_fault_ends_with_the_workers_status() -> None:
    state, _ = run(GroupEnded(3, FAULT), state=RUNNING)
    _, actions = run(Directed(1, 1, Order.STOP, 3, "RestartBudgetExhausted", "replaced", 1), state=state)
    assert actions == [Exit(137, "RestartBudgetExhausted: replaced")]


def test_a_signal_stops_the_workers_first() -> None:
    _, actions = run(Signalled(15), GroupStopped(3), state=RUNNING)
    assert actions == [StopGroup(15), Exit(143)]
    assert run(Started(), Signalled(2))[1] == [Join(0), Exit(130)]


rounds = st.integers(0, 6)
outcomes = st.sampled_from([FAULT, PEER_LOST, Outcome(End.SUCCEEDED), Outcome(End.YIELDED)])
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(
        Directed, st.integers(0, 3), st.integers(0, 5), st.sampled_from(Order), rounds, exit_code=st.integers(0, 2)
    ),
    st.builds(Joined, st.builds(world, st.integers(1, 6))),
    st.builds(GroupEnded, rounds, outcomes),
    st.builds(GroupStopped, rounds, st.one_of(st.none(), st.just(FAULT))),
    st.builds(Signalled, st.sampled_from([2, 15])),
    st.builds(GaveUp, st.just("no master")),
)


@given(st.lists(events, max_size=40))
def test_whatever_comes_one_group_runs_and_it_ends_once(sequence: list[Event]) -> None:
    state, exits, live, highest = State(), 0, False, (0, 0)
    for event in [Started(), *sequence]:
        before = state
        state, actions = decide(state, event)
        assert (state.epoch, state.version) >= highest
        highest = (state.epoch, state.version)
        assert state.round >= before.round
        assert state.restarts - before.restarts in (0, 1)
        for action in actions:
            assert exits == 0
            if isinstance(action, Start):
                assert not live
                assert action.world.round > before.round
                live = True
            elif isinstance(action, Join):
                live = False
            elif isinstance(action, AskToYield | StopGroup):
                assert live
            elif isinstance(action, Exit):
                exits += 1
        if before.phase is Phase.ENDED:
            assert actions == []
    assert exits == (state.phase is Phase.ENDED)


statuses = st.one_of(st.none(), st.sampled_from([0, 1, 75, -9, -11]))
accounts = st.lists(
    st.builds(Account, st.just(0), statuses, st.integers(0, 9), st.booleans(), st.one_of(st.none(), st.just("gone"))),
    min_size=1,
    max_size=5,
)


@given(accounts)
def test_a_group_is_judged_by_its_worst(found: list[Account]) -> None:
    outcome = judge(found)
    own = [one for one in found if one.status and one.peer_lost is None]
    if own:
        assert outcome is not None
        assert not outcome.peer_lost
        assert outcome.status == min(own, key=lambda one: one.order).status
    elif any(one.peer_lost is not None for one in found):
        assert outcome is not None
        assert outcome.peer_lost
    elif any(one.status is None for one in found):
        assert outcome is None
    else:
        assert outcome is not None
        assert outcome.end is (End.YIELDED if any(one.yielded for one in found) else End.SUCCEEDED)
