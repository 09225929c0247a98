"""What waits to be stored, and what waits for its subject: within bounds, in order, and not for ever."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

from convoy.brain.ingest.monitor.pending import Pending
from convoy.brain.ingest.monitor.told import Entry
from convoy.brain.ingest.monitor.waiting import Waiting
from convoy.core.cluster.port import Kind
from support.waiting import until

NOW = datetime(2026, 2, 1, tzinfo=UTC)


def entry(uid: str, value: int = 0, *, gone: bool = False) -> Entry:
    return Entry(Kind.POD, uid, uid, None if gone else {"value": value}, NOW if gone else None)


def never() -> bool:
    return False


class TestPending:
    def test_of_an_object_that_changed_again_only_the_last_state_is_stored_in_its_first_place(self) -> None:
        pending = Pending()
        for one in (entry("a", 1), entry("b", 1), entry("a", 2)):
            assert pending.put(one, never)
        assert pending.take(10, 0.0, never) == [entry("a", 2), entry("b", 1)]

    def test_what_is_being_stored_counts_until_it_is(self) -> None:
        pending = Pending()
        pending.put(entry("a"), never)
        pending.take(10, 0.0, never)
        assert len(pending) == 1
        pending.put(entry("a", 2), never)
        assert len(pending) == 2
        pending.done()
        assert len(pending) == 1

    def test_a_batch_is_handed_on_when_it_is_full(self) -> None:
        pending = Pending()
        for number in range(5):
            pending.put(entry(str(number)), never)
        assert [one.uid for one in pending.take(3, 60.0, never)] == ["0", "1", "2"]
        assert [one.uid for one in pending.take(3, 0.0, never)] == ["3", "4"]

    def test_who_tells_waits_while_there_are_too_many(self) -> None:
        pending = Pending(most=2)
        pending.put(entry("a"), never)
        pending.put(entry("b"), never)
        assert pending.put(entry("b", 2), never)  # no more than before
        teller = threading.Thread(target=pending.put, args=(entry("c"), never))
        teller.start()
        teller.join(0.3)
        assert teller.is_alive()
        assert [one.uid for one in pending.take(1, 0.0, never)] == ["a"]
        teller.join(10)
        assert [one.uid for one in pending.take(9, 0.0, never)] == ["b", "c"]

    def test_who_waits_is_let_go_by_a_stop(self) -> None:
        pending, stop, answers = Pending(most=1), threading.Event(), []
        pending.put(entry("a"), never)
        teller = threading.Thread(target=lambda: answers.append(pending.put(entry("b"), stop.is_set)))
        taker = threading.Thread(target=lambda: answers.append(pending.take(9, 60.0, stop.is_set)))
        teller.start()
        stop.set()
        pending.wake()
        until(lambda: answers == [False], "the teller to give up")
        taker.start()
        until(lambda: len(answers) == 2, "the taker to give up")
        teller.join()
        taker.join()


class TestWaiting:
    def test_it_is_tried_again_from_time_to_time(self) -> None:
        waiting = Waiting(seconds=30.0, every=2.0)
        assert waiting.due(0.0) == []
        assert waiting.settle([entry("a")], [entry("a")], 0.0, steady=True) == []
        assert waiting.due(1.0) == []
        assert waiting.due(2.0) == [entry("a")]
        assert waiting.settle([entry("a")], [], 2.0, steady=True) == []
        assert len(waiting) == 0

    def test_it_waits_no_longer_than_allowed_however_often_it_was_tried(self) -> None:
        waiting = Waiting(seconds=30.0)
        waiting.settle([], [entry("a")], 0.0, steady=True)
        assert waiting.settle([entry("a")], [entry("a")], 20.0, steady=True) == []
        assert waiting.settle([entry("a")], [entry("a")], 30.0, steady=True) == [entry("a")]
        assert len(waiting) == 0

    def test_no_time_runs_while_the_cluster_cant_be_read(self) -> None:
        waiting = Waiting(seconds=30.0)
        waiting.settle([], [entry("a")], 0.0, steady=True)
        assert waiting.settle([], [], 29.0, steady=False) == []
        assert waiting.settle([], [], 58.0, steady=True) == []
        assert waiting.settle([], [], 59.0, steady=True) == [entry("a")]

    def test_where_too_many_wait_the_oldest_give_way(self) -> None:
        waiting = Waiting(most=2)
        waiting.settle([], [entry("a")], 0.0, steady=True)
        assert waiting.settle([], [entry("b"), entry("c")], 1.0, steady=True) == [entry("a")]
        assert len(waiting) == 2
