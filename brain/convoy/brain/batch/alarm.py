"""What breaks a run off from outside, also out of a computation without an end: its deadline, and a signal to stop.

Nothing is lost by it: a run bears being killed.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from convoy.brain.batch.work import Stopped, TimeUp

_STOPS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise ``TimeUp`` in what is done here after so many seconds, and ``Stopped`` at a signal that somebody handles.

    Whoever handles the signal is told first. Outside of the main thread neither is raised. An alarm that was set
    before goes off when it would have, at the earliest at the end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    begun = time.monotonic()
    before = signal.signal(signal.SIGALRM, _ring)
    left, every = signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
    wrapped = {number: _wrap(number) for number in _STOPS}
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        for number, (earlier, ours) in wrapped.items():
            if signal.getsignal(number) is ours:
                signal.signal(number, earlier)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - begun), 1e-3), every)


Handler = Callable[[int, FrameType | None], object]


def _ring(_number: int, _frame: FrameType | None) -> None:
    raise TimeUp


def _wrap(number: signal.Signals) -> tuple[Any, Any]:
    """Have a handled signal raise ``Stopped`` as well; return its handler before, and now."""
    earlier = signal.getsignal(number)
    if not callable(earlier):
        return earlier, None
    handle: Handler = earlier

    def stop(number: int, frame: FrameType | None) -> None:
        handle(number, frame)
        raise Stopped

    signal.signal(number, stop)
    return earlier, stop
