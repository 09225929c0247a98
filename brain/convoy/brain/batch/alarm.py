"""A deadline that a computation without an end doesn't outlast."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from convoy.brain.batch.work import TimeUp


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise ``TimeUp`` in what is done here after so many seconds; outside of the main thread it is never raised.

    An alarm that was set before goes off when it would have, at the earliest at the end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise TimeUp

    before, begun = signal.signal(signal.SIGALRM, ring), time.monotonic()
    left, every = signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - begun), 1e-3), every)
