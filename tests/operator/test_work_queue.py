"""The work queue hands each key to one worker at a time and forgets none."""

import threading

from convoy.core.process.clock import SystemClock
from convoy.operator.queue import LONGEST_RETRY_SECONDS, WorkQueue
from support.clock import FakeClock
from support.waiting import until


def test_a_key_is_handed_out_once_however_often_it_was_added(clock: FakeClock) -> None:
    queue: WorkQueue[str] = WorkQueue(clock)
    for _ in range(3):
        queue.add("a")
    queue.add("b")
    assert [queue.take(), queue.take()] == ["a", "b"]
    queue.close()
    assert queue.take() is None


def test_a_key_added_while_it_is_handled_comes_once_more_afterwards() -> None:
    queue: WorkQueue[str] = WorkQueue(SystemClock())
    queue.add("a")
    assert queue.take() == "a"
    queue.add("a")
    taken: list[str | None] = []
    thread = threading.Thread(target=lambda: taken.append(queue.take()))
    thread.start()
    thread.join(0.1)
    assert taken == []  # nobody else gets it meanwhile
    queue.done("a")
    until(lambda: taken == ["a"], "the key again")
    thread.join()
    queue.close()


def test_the_earlier_of_two_times_counts(clock: FakeClock) -> None:
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add("late", 5)
    queue.add("late", 9)
    queue.add("soon", 9)
    queue.add("soon", 1)
    clock.advance(1)
    assert queue.take() == "soon"
    clock.advance(4)
    assert queue.take() == "late"
    clock.advance(10)
    queue.add("end")
    assert queue.take() == "end"


def test_failures_come_back_later_each_time_until_one_succeeds(clock: FakeClock) -> None:
    queue: WorkQueue[str] = WorkQueue(clock)
    waits = [queue.retry("a") for _ in range(15)]
    assert waits == sorted(waits)
    assert waits[0] < 0.1
    assert waits[-1] == LONGEST_RETRY_SECONDS
    queue.succeeded("a")
    assert queue.retry("a") == waits[0]
